package tests

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/template"
)

// A pair is two traces for one format: rows8 changed by a, and by b.
type pair struct {
	params string // "step.parameter", those that the traces differ in
	format string
	a, b   variant
}

// variant changes a choice, then steps of its trace, to which it adds some.
type variant struct {
	choice  func(c *template.Choice)
	replace []replacement
	then    schedule.Trace // further steps
}

// replacement puts steps in the place of one.
type replacement struct {
	old schedule.Step
	by  schedule.Trace
}

func choose(f func(c *template.Choice)) variant { return variant{choice: f} }

// cells8 has eight cells along K, two of them unrolled.
func cells8(c *template.Choice) { c.Cells, c.Flush, c.Serial = 8, 2, true }

// dot2 sums into 16 bits, four cells.
func dot2(c *template.Choice) { c.Dot, c.Below, c.Cells, c.Flush = 2, 0, 4, 2 }

// joined has codewords, one row vector.
func joined(join, mirror int) func(c *template.Choice) {
	return func(c *template.Choice) {
		c.Map, c.Join, c.Mirror, c.Below, c.Rows, c.Block = "words", join, mirror, 0, 1, 1
	}
}

// joinedFilled has codewords of five, in groups that are filled up.
func joinedFilled(to int) func(c *template.Choice) {
	return func(c *template.Choice) {
		joined(5, 0)(c)
		c.Fill = to
	}
}

// byTable looks up one bit of four codes at a time, in bytes along K.
func byTable(c *template.Choice) {
	c.Cols, c.Rows, c.Block, c.Cells, c.Flush = 1, 1, 1, 1, 1
	c.Table = &template.Tables{Digits: "bits", Parts: []int{4}, Low: 8, Along: 4}
}

// byAverages averages two lookups in tables of one byte: the next index, or the next part.
func byAverages(loop string) func(c *template.Choice) {
	return func(c *template.Choice) {
		c.Cols, c.Rows, c.Block, c.Cells, c.Flush = 1, 1, 1, 1, 1
		c.Table = &template.Tables{Digits: "signs", Parts: []int{2, 2}, Low: 2, Along: 1, Round: true, Halve: loop}
	}
}

// bySigns looks up the signs of five codes at a time.
func bySigns(mirror bool) func(c *template.Choice) {
	return func(c *template.Choice) {
		c.Cols, c.Rows, c.Block, c.Cells, c.Flush = 1, 1, 1, 1, 1
		c.Table = &template.Tables{Digits: "signs", Parts: []int{5}, Low: 7, Along: 1, Mirror: mirror}
	}
}

// splitK is how the trace of cells8 splits a record.
var splitK = schedule.Split{Loop: "kc", By: 32, Into: [2]string{"ks", "kk"}}

// thrice splits a record in three; fuse makes two of them again.
func thrice(f schedule.Fuse) []replacement {
	return []replacement{{splitK, schedule.Trace{
		schedule.Split{Loop: "kc", By: 64, Into: [2]string{"ks", "x2"}},
		schedule.Split{Loop: "x2", By: 32, Into: [2]string{"y", "kk"}}, f}}}
}

// divided has two loops over the groups of a super-block; one of them is divided.
func divided(loop string) variant {
	return variant{choice: func(c *template.Choice) { c.Fission = true }, replace: []replacement{
		{schedule.Split{Loop: "g", By: 4, Into: [2]string{"gt", "gi"}}, schedule.Trace{
			schedule.Split{Loop: "g", By: 4, Into: [2]string{"gt", "go"}}, schedule.Split{Loop: "go", By: 2, Into: [2]string{"go", "gi"}}}},
		{schedule.Reorder{Order: []string{"nt", "mt", "ro", "gt", "gi", "ks", "u", "f", "s", "r", "nc", "l", "x", "j"}},
			schedule.Trace{schedule.Reorder{Order: []string{"nt", "mt", "ro", "gt", "go", "gi", "ks", "u", "f", "s", "r", "nc", "l", "x", "j"}}}},
		{schedule.Pack{Tensor: "codes", Order: []string{"mt", "gt", "gi", "ks", "u", "ro", "r", "words", "l", "x", "j"}, Fields: []string{"s", "f"}, Map: "dense"},
			schedule.Trace{schedule.Pack{Tensor: "codes", Order: []string{"mt", "gt", "go", "gi", "ks", "u", "ro", "r", "words", "l", "x", "j"}, Fields: []string{"s", "f"}, Map: "dense"}}},
		{schedule.Fission{Loop: "gi"}, schedule.Trace{schedule.Fission{Loop: loop}}},
	}}
}

var pairs = []pair{
	{"decompose.value", "w2", choose(func(c *template.Choice) { c.Below = 0 }), choose(func(c *template.Choice) { c.Below, c.Value = 0, "lookup" })},
	{"decompose.family", "w1", choose(nil), choose(byTable)},
	{"decompose.parts", "w1", choose(byTable), choose(func(c *template.Choice) { byTable(c); c.Table.Parts = []int{2, 2} })},
	{"decompose.mirror", "w1", choose(bySigns(false)), choose(bySigns(true))},
	{"halving_add.loop", "w1", choose(byAverages("f")), choose(byAverages("part"))},
	{"quantize_table.kind", "w1", choose(byTable), choose(func(c *template.Choice) { byTable(c); c.Table.Low, c.Table.Along = 0, 2 })},
	{"quantize_table.kind", "w1", choose(byTable), choose(func(c *template.Choice) { byTable(c); c.Table.Low, c.Table.Exact = 0, true })},
	{"quantize_table.low", "w1", choose(byTable), choose(func(c *template.Choice) { byTable(c); c.Table.Low = 5 })},
	{"hoist_zero.at", "w2", choose(func(c *template.Choice) { c.Hoist = "init" }), choose(func(c *template.Choice) { c.Hoist = "flush" })},
	{"split.by", "w2", choose(nil), choose(func(c *template.Choice) { c.Rows, c.Block = 1, 1 })},
	{"split.loop", "w2", choose(nil), choose(func(c *template.Choice) { c.Dot = 2 })},
	{"split.into", "w2", choose(cells8), variant{choice: cells8, replace: []replacement{
		{splitK, schedule.Trace{schedule.Split{Loop: "kc", By: 32, Into: [2]string{"u", "kk"}}}},
		{schedule.Split{Loop: "kk", By: 16, Into: [2]string{"u", "ku"}}, schedule.Trace{schedule.Split{Loop: "kk", By: 16, Into: [2]string{"ks", "ku"}}}}}}},
	{"fuse.outer fuse.inner fuse.into", "w2", variant{choice: cells8, replace: thrice(schedule.Fuse{Outer: "ks", Inner: "y", Into: "ks"})},
		variant{choice: cells8, replace: thrice(schedule.Fuse{Outer: "y", Inner: "kk", Into: "kk"})}},
	{"reorder.order", "w2", choose(func(c *template.Choice) { c.Order = 0 }), choose(func(c *template.Choice) { c.Order = 1 })},
	{"bind.loop", "w2", choose(cells8), choose(func(c *template.Choice) { cells8(c); c.Serial = false })},
	{"bind.to", "w2", choose(nil), choose(func(c *template.Choice) { c.AlongK = true })},
	{"tensorize.loop tensorize.to", "w2", choose(func(c *template.Choice) { c.Below = 0 }), choose(dot2)},
	{"rfactor.loop", "w2", choose(func(c *template.Choice) { c.Flush, c.Cells, c.Below, c.Factor = 2, 2, 0, "u" }),
		choose(func(c *template.Choice) { c.Flush, c.Cells, c.Below, c.Factor = 2, 2, 0, "f" })},
	{"read_scaled.below", "w2", choose(func(c *template.Choice) { c.Below = 8 }), choose(func(c *template.Choice) { c.Below = 4 })},
	{"stage.at", "w3", choose(func(c *template.Choice) { c.Cols, c.Rows, c.Order, c.Below, c.Stage = 2, 1, 0, 0, "f"; c.Block = 1 }),
		choose(func(c *template.Choice) { c.Cols, c.Rows, c.Order, c.Below, c.Stage = 2, 1, 0, 0, "r"; c.Block = 1 })},
	{"stage.value", "w3", choose(func(c *template.Choice) { c.Below, c.Stage = 0, "f" }),
		variant{choice: func(c *template.Choice) { c.Below, c.Stage = 0, "f" }, replace: []replacement{
			{schedule.Stage{Value: "w", At: "f"}, schedule.Trace{schedule.Stage{Value: "a", At: "f"}}}}}},
	{"pack.tensor", "w2", choose(func(c *template.Choice) { c.Cols, c.Rows, c.Block = 2, 1, 1 }),
		choose(func(c *template.Choice) { c.Cols, c.Rows, c.Block, c.Chunk = 2, 1, 1, 4 })},
	{"pack.chunk", "w2", choose(func(c *template.Choice) { c.Cols, c.Rows, c.Block, c.Chunk = 2, 1, 1, 4 }),
		choose(func(c *template.Choice) { c.Cols, c.Rows, c.Block, c.Chunk = 2, 1, 1, 8 })},
	{"pack.order", "w2", choose(func(c *template.Choice) { c.Cells, c.Flush = 2, 2 }),
		choose(func(c *template.Choice) { c.Cells, c.Flush, c.Run = 2, 2, 1 })},
	{"pack.fields", "w2", choose(func(c *template.Choice) { c.Rows, c.Block, c.RowFields = 1, 1, 2 }),
		variant{choice: func(c *template.Choice) { c.Rows, c.Block, c.RowFields = 1, 1, 2 }, replace: []replacement{{schedule.Pack{Tensor: "codes", Map: "dense",
			Order: []string{"mt", "kt", "ks", "u", "ro", "r", "words", "l", "x", "j"}, Fields: []string{"s", "f"}},
			schedule.Trace{schedule.Pack{Tensor: "codes", Map: "dense",
				Order: []string{"mt", "kt", "ks", "u", "ro", "r", "words", "l", "x", "j"}, Fields: []string{"f", "s"}}}}}}},
	{"pack.map", "w3", choose(nil), choose(func(c *template.Choice) { c.Map = "planes" })},
	{"pack.join", "ternary", choose(joined(3, 0)), choose(joined(4, 0))},
	{"pack.mirror", "ternary", choose(joined(3, 0)), choose(joined(3, 3))},
	{"pack.head", "ternary", choose(joined(5, 0)), choose(func(c *template.Choice) {
		joined(5, 0)(c)
		c.Head = 2
	})},
	{"pack.lead", "w4-g32-s128-m", choose(nil), choose(func(c *template.Choice) { c.Lead = true })},
	{"fill_groups.to", "ternary-g32", choose(joinedFilled(40)), choose(joinedFilled(60))},
	{"pack.word", "w3-f32act", choose(byFloats("codes", 1)), variant{choice: byFloats("codes", 1), replace: []replacement{
		{schedule.Pack{Tensor: "codes", Map: "dense", Word: 4,
			Order: []string{"mt", "kt", "ks", "u", "ro", "r", "words", "l", "q"}, Fields: []string{"s", "f", "digit"}},
			schedule.Trace{schedule.Pack{Tensor: "codes", Map: "planes",
				Order: []string{"mt", "kt", "ks", "u", "ro", "planes", "r", "l", "q", "words"}, Fields: []string{"s", "f", "digit"}}}}}}},
	{"widen_every.loop", "w2", choose(dot2), variant{choice: dot2, replace: []replacement{
		{schedule.WidenEvery{Loop: "u"}, schedule.Trace{schedule.WidenEvery{Loop: "ks"}}}}}},
	{"accumulate.type", "w2", choose(dot2), variant{choice: func(c *template.Choice) { dot2(c); c.Dot = 4; c.Factor = "u" }, replace: []replacement{
		{schedule.Rfactor{Loop: "u"}, schedule.Trace{schedule.Rfactor{Loop: "u"}, schedule.Accumulate{Type: "i16"}, schedule.Accumulate{Type: "i32"}}}}}},
	{"scale_at.where", "w4-g32", choose(func(c *template.Choice) { c.Scale = "begin" }), variant{choice: func(c *template.Choice) { c.Scale = "begin" },
		replace: []replacement{{schedule.ScaleAt{Where: "begin"}, schedule.Trace{schedule.ScaleAt{Where: "end"}}}}}},
	{"fission.loop", "w4-g32-s128-m", divided("go"), divided("gi")},
	{"tile_columns.by", "w4-g32", variant{then: schedule.Trace{schedule.TileColumns{By: 2, Loop: "nb"}}}, variant{then: schedule.Trace{schedule.TileColumns{By: 4, Loop: "nb"}}}},
	{"prefetch.bytes", "w2", choose(func(c *template.Choice) { c.Ahead = 1024 }), choose(func(c *template.Choice) { c.Ahead = 4096 })},
	{"prefetch.far", "w2", choose(func(c *template.Choice) { c.Ahead = 1024 }), choose(func(c *template.Choice) { c.Ahead, c.Far = 1024, 16384 })},
	{"prefetch.every", "w2", choose(func(c *template.Choice) { c.Ahead, c.Far = 0, 8192 }), choose(func(c *template.Choice) { c.Ahead, c.Far, c.Every = 0, 8192, true })},
	{"prefetch.rest", "w2", choose(func(c *template.Choice) { c.Tiles, c.Ahead = 2, 1024 }), choose(func(c *template.Choice) { c.Tiles, c.Ahead, c.Rest = 2, 1024, true })},
	{"prefetch.act", "w2", choose(func(c *template.Choice) { c.Ahead = 1024 }), choose(func(c *template.Choice) { c.Ahead, c.Act = 1024, 128 })},
}

// TestNoDecoration: every parameter of every step matters. Two legal values of it
// give different machine code, or the same one other places of the weights, both correct.
func TestNoDecoration(t *testing.T) {
	covered := map[string]bool{}
	targets := native.Targets(t)
	kernels := compilePairs(t, targets)
	for i, p := range pairs {
		for _, param := range strings.Fields(p.params) {
			covered[param] = true
		}
		t.Run(strings.ReplaceAll(p.params, " ", ","), func(t *testing.T) { p.run(t, targets, kernels[i]) })
	}
	for _, p := range preparations {
		covered[p.param] = true
		t.Run("preparing,"+p.param, func(t *testing.T) { p.run(t) })
	}
	for _, p := range operations {
		covered[p.param] = true
		t.Run("operating,"+p.param, func(t *testing.T) { p.run(t) })
	}
	for _, p := range batched {
		covered[p.param] = true
		t.Run("batching,"+p.param, func(t *testing.T) { p.runShaders(t) })
	}
	for _, p := range shaders {
		covered[p.param] = true
		t.Run("shading,"+p.param, func(t *testing.T) { p.run(t) })
	}
	for _, param := range parameters(t) {
		if !covered[param] && forced[param] == "" {
			t.Errorf("no pair of traces shows that %s matters", param)
		}
		delete(covered, param)
	}
	for param := range covered {
		t.Errorf("%s is no parameter of a step", param)
	}
}

// prepared is a parameter of a step of preparations, and two of w1's that differ in it. That both are correct
// is search/beam's TestPreparation.
type prepared struct {
	param  string
	chunks [2]int // of tables
	in     [2]string
}

var preparations = []prepared{
	{"prefetch.in", [2]int{32, 32}, [2]string{"act.ko", "amax.ko"}},
	{"pack.chunk", [2]int{16, 32}, [2]string{"act.ko", "act.ko"}},
}

func (p prepared) run(t *testing.T) {
	problem, err := ir.Named("w1")
	if err != nil {
		t.Fatal(err)
	}
	d, err := ir.Decompose(problem.Weight, ir.DigitBits, 4)
	if err != nil {
		t.Fatal(err)
	}
	tables := &ir.Tables{Decomposition: d, ByBit: true, Elem: format.U8, Residual: true, Together: 4}
	for _, target := range native.Targets(t) {
		var code [2]string
		for i := range code {
			trace, err := beam.Preparation(t.Context(), problem, tables, p.chunks[i], target)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(trace, func(s schedule.Step) bool { return schedule.NameOf(s) == "prefetch" })
			trace[at] = schedule.Prefetch{In: p.in[i]}
			k, err := schedule.CompilePreparation(problem, tables, trace)
			if err != nil {
				t.Fatal(err)
			}
			c, err := lower.Build(t.Context(), target, k.Nest)
			if err != nil {
				t.Fatal(err)
			}
			code[i] = lower.Dump(c)
		}
		if code[0] == code[1] {
			t.Errorf("%s: the same machine code", target.Machine().Name)
		}
	}
}

// operated is a parameter of a step of operators, and two schedules that differ in it. That both are correct is shown by the random
// schedules of tests/operators.
type operated struct {
	param, operator string
	traces          [2]string
}

var operations = []operated{
	{"inline.stage", "rmsnorm", [2]string{`[{"inline":{"stage":"square2"}}]`, `[{"inline":{"stage":"square4"}}]`}},
	{"prefetch.tensor", "matmul_f32_1", [2]string{`[{"prefetch":{"bytes":2048,"tensor":"a"}}]`, `[{"prefetch":{"bytes":2048,"tensor":"b"}}]`}},
}

// batched are parameters of steps that only shaders have.
var batched = []operated{
	{"batch.axes", "add", [2]string{`[{"batch":{"axes":1}}]`, `[{"batch":{"axes":2}}]`}},
	{"batch.listed", "row_f16", [2]string{`[{"batch":{"axes":2}}]`, `[{"batch":{"axes":2,"listed":"out"}}]`}},
}

// kernels are the operator by both traces.
func (p operated) kernels(t *testing.T) (out [2]*schedule.OperatorKernel) {
	for i, text := range p.traces {
		var trace schedule.Trace
		err := json.Unmarshal([]byte(text), &trace)
		if err == nil {
			out[i], err = schedule.CompileOperator(*operator.Find(p.operator), trace)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// runShaders is run for shaders.
func (p operated) runShaders(t *testing.T) {
	var code [2]string
	for i, k := range p.kernels(t) {
		_, s, err := operators.Module(k.Nest, spirv.Controls{})
		if err != nil {
			t.Fatal(err)
		}
		code[i] = s.Text()
	}
	if code[0] == code[1] {
		t.Error("the same shader")
	}
}

func (p operated) run(t *testing.T) {
	kernels := p.kernels(t)
	for _, target := range native.Targets(t) {
		var code [2]string
		for i, k := range kernels {
			c, err := lower.Build(t.Context(), target, k.Nest)
			if err != nil {
				t.Fatal(err)
			}
			code[i] = lower.Dump(c)
		}
		if code[0] == code[1] {
			t.Errorf("%s: the same machine code", target.Machine().Name)
		}
	}
}

// forced are parameters that other values make illegal, each with what it says.
var forced = map[string]string{
	"tensorize.rows":    "the loop over neighbouring rows",
	"tensorize.columns": "the loop over neighbouring columns",
	"stage.shared":      "that lanes share decoded weights, without which none has a tile",
	"tile_columns.loop": "the name of a loop that it makes, which no step after it reads",
}

// shaded is a parameter of a step of shaders, and what of a schedule in tests/shaders is replaced so that it has another value. That both
// are correct is shown by the schedules there.
type shaded struct {
	param, schedule string
	replaced        []string // old, new, ...
}

var shaders = []shaded{
	{"epilogue.operator", "epilogue/w2", []string{`"silu"`, `"gelu"`}},
	{"epilogue.tensor", "epilogue/w2", []string{`"up"`, `"gate"`}},
	{"pack.fraction", "ternary.fraction", []string{`,"fraction":true`, ``}},
	{"quantize.room", "quantize/w2", []string{`"room":4096`, `"room":8192`}},
	{"quantize.trace", "quantize/w2", []string{`{"bind":{"loop":"amax.u","to":"unrolled"}},`, ``}},
	{"pack.alike", "w4-g32.tiles8alike", []string{`,"alike":true`, ``}},
	{"split_k.groups", "w2.split", []string{`"split_k":{"groups":4}`, `"split_k":{"groups":3}`}},
	{"stage.ahead", "w4.tiles8", []string{`"ahead":true,"halves":true`, `"ahead":false`}},
	{"stage.halves", "w4.tiles8", []string{`,"halves":true`, ``}},
	{"tensorize.lanes", "w4.tiles16", []string{`"lanes":32`, `"lanes":64`}},
}

func (p shaded) run(t *testing.T) {
	data, err := os.ReadFile("shaders/testdata/" + p.schedule + ".json")
	if err != nil {
		t.Fatal(err)
	}
	a, b := string(data), strings.NewReplacer(p.replaced...).Replace(string(data))
	format, _, _ := strings.Cut(path.Base(p.schedule), ".")
	var code [2]string
	for i, text := range []string{a, b} {
		code[i] = shaderText(t, format, text)
	}
	if code[0] == code[1] {
		t.Error("the same shader")
	}
}

// shaderText is the shader of a schedule, which is JSON.
func shaderText(t *testing.T, format, text string) string {
	t.Helper()
	p, err := ir.Named(format)
	if err != nil {
		t.Fatal(err)
	}
	var trace schedule.Trace
	if err := json.Unmarshal([]byte(text), &trace); err != nil {
		t.Fatal(err)
	}
	k, err := schedule.Compile(p, trace)
	if err != nil {
		t.Fatal(err)
	}
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		t.Fatal(err)
	}
	target, _ := spirv.ByName("spirv/coop")
	s, err := lower.Select(t.Context(), target, f)
	if err != nil {
		t.Fatal(err)
	}
	shader, err := target.Print(s, spirv.Controls{})
	if err != nil {
		t.Fatal(err)
	}
	return shader.Text()
}

// parameters lists every parameter of every step, "split.by".
func parameters(t *testing.T) []string {
	var out []string
	for _, name := range schedule.StepNames() {
		var zero schedule.Trace
		if err := json.Unmarshal([]byte(fmt.Sprintf("[{%q:{}}]", name)), &zero); err != nil {
			t.Fatal(err)
		}
		for i := range reflect.TypeOf(zero[0]).NumField() {
			out = append(out, name+"."+paramName(zero[0], i))
		}
	}
	return out
}

// paramName is the name of field i of s in JSON.
func paramName(s schedule.Step, i int) string {
	name, _, _ := strings.Cut(reflect.TypeOf(s).Field(i).Tag.Get("json"), ",")
	return name
}

// both are the kernels of a pair on a target.
type both [2]*native.Kernel

// compilePairs compiles all pairs for each target, and assembles their kernels at once.
func compilePairs(t *testing.T, targets []lower.Target) [][]both {
	t.Helper()
	out := make([][]both, len(pairs))
	for _, target := range targets {
		var all []*native.Kernel
		for i, p := range pairs {
			problem := p.problem(t)
			var ks both
			for j, v := range []variant{p.a, p.b} {
				trace := v.trace(t, problem)
				k, err := native.Compile(target, problem, trace)
				if err != nil {
					t.Fatalf("%s: %s: %v\n%s", p.params, target.Machine().Name, err, check.Replay{Problem: problem, Trace: trace})
				}
				ks[j], all = k, append(all, k)
			}
			out[i] = append(out[i], ks)
		}
		native.Load(t, target, all...)
	}
	return out
}

func (p pair) problem(t *testing.T) ir.Problem {
	t.Helper()
	problem, err := ir.Named(p.format)
	if err != nil {
		t.Fatal(err)
	}
	return problem
}

// run compares the kernels of each target, which must be correct and differ.
func (p pair) run(t *testing.T, targets []lower.Target, kernels []both) {
	problem := p.problem(t)
	a, b := kernels[0][0].Trace, kernels[0][1].Trace
	for _, param := range strings.Fields(p.params) {
		if slices.Equal(values(a, param), values(b, param)) {
			t.Errorf("both traces have %s %v", param, values(a, param))
		}
	}
	for i, target := range targets {
		x, y := checked(t, target, problem, kernels[i][0]), checked(t, target, problem, kernels[i][1])
		if x == y {
			t.Errorf("%s: the same machine code\n%v\n%v\n%s", target.Machine().Name, a, b, x)
		}
	}
}

func (v variant) trace(t *testing.T, p ir.Problem) schedule.Trace {
	c := rows8
	if v.choice != nil {
		v.choice(&c)
	}
	trace := c.Trace(p)
	for _, r := range v.replace {
		i := slices.IndexFunc(trace, func(s schedule.Step) bool { return reflect.DeepEqual(s, r.old) })
		if i < 0 {
			t.Fatalf("no step %v in %v", r.old, trace)
		}
		trace = slices.Replace(trace, i, i+1, r.by...)
	}
	return append(trace, v.then...)
}

// values lists the values of one parameter in all steps of a trace.
func values(trace schedule.Trace, param string) []string {
	var out []string
	for _, s := range trace {
		for i := range reflect.TypeOf(s).NumField() {
			if schedule.NameOf(s)+"."+paramName(s, i) == param {
				out = append(out, fmt.Sprint(reflect.ValueOf(s).Field(i)))
			}
		}
	}
	return out
}

// checked runs a kernel and returns its instructions, and what tells its layout from others.
func checked(t *testing.T, target lower.Target, problem ir.Problem, k *native.Kernel) string {
	t.Helper()
	rng, unit := rand.New(rand.NewSource(1)), max(problem.Unit(), 1)
	for _, kind := range []check.Kind{check.Uniform, check.Extreme} {
		if err := k.Check(check.New(rng, problem, k.Rows+3, k.Cols+1, (2*k.StepK+32)/unit*unit, kind)); err != nil {
			t.Errorf("%s: %v\n%s", target.Machine().Name, err, check.Replay{Problem: problem, Trace: k.Trace})
		}
	}
	text, err := k.Text(target)
	if err != nil {
		t.Fatal(err)
	}
	code := &strings.Builder{}
	fmt.Fprintln(code, "layout", k.Weights.Hash())
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		code.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return code.String()
}
