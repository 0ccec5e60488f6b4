package beam_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
)

// Activations that compiled kernels prepare equal the activations that the definition gives.
func TestPreparation(t *testing.T) {
	type cell struct {
		name   string
		group  int
		k      int
		parts  []int // of tables, or none
		target lower.Target
	}
	var cells []cell
	for _, tg := range native.Targets(t) {
		for _, c := range []cell{{"w2", 0, 63, nil, tg}, {"w2", 32, 4096, nil, tg}, {"w4-g32", 0, 256, nil, tg}, {"w4-g32", 32, 256, nil, tg}, {"w4-g48", 16, 144, nil, tg},
			{"w4-g160", 160, 480, nil, tg}, {"w1", 0, 4099, nil, tg}, {"w2", 0, 207, []int{5, 5, 6}, tg}, {"w1-g32", 32, 96, []int{4}, tg},
			{"w1", 0, 207, []int{4}, tg}, {"ternary", 0, 4096, []int{2}, tg}, {"w4", 128, 512, nil, tg}, {"w4-g32", 256, 768, nil, tg}, {"w4", 1072, 2144, nil, tg}, {"w2-g4112", 0, 8224, nil, tg},
			{"w1-f32act", 0, 207, []int{4}, tg}, {"ternary", 0, 209, []int{5}, tg}, {"w2-f32act", 0, 208, []int{2, 2}, tg}, {"w1-g32-f32act", 0, 96, []int{4, 4}, tg}} {
			cells = append(cells, c)
		}
	}
	rng := rand.New(rand.NewSource(1))
	for _, c := range drawn.Some(drawn.New(t), 10, cells) {
		p, err := ir.Named(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if c.group > 0 {
			p.Act.Group = c.group
		}
		tables := tablesOf(t, p.Weight, c.parts)
		if p.Act.Floats() {
			tables = floatTables(t, p.Weight, c.parts)
		}
		chunk := 0
		if tables != nil {
			chunk = []int{0, 1, 8, 64, 3}[rng.Intn(5)] * tables.Digits() * tables.Together
		}
		trace, err := beam.Preparation(t.Context(), p, tables, chunk, c.target)
		if err != nil {
			t.Fatalf("%s on %s in chunks of %d: %v", c.name, c.target.Machine().Name, chunk, err)
		}
		k, err := schedule.CompilePreparation(p, tables, trace)
		if err != nil {
			t.Fatal(err)
		}
		if sp, err := space.ForPreparation(p, tables, chunk, c.target); err != nil {
			t.Error(err)
		} else if _, err := sp.Parse(trace); err != nil {
			t.Errorf("%s is no point of its space: %v: %v", c.name, err, trace)
		}
		if k.Chunk != chunk {
			t.Errorf("chunks of %d, want %d: %v", k.Chunk, chunk, trace)
		}
		f, err := lower.Vectorize(k.Nest, "prepare")
		if err != nil {
			t.Fatalf("%v\n%v", err, k.Nest)
		}
		m, err := lower.Compile(c.target, f)
		if err != nil {
			t.Fatalf("%v\n%v", err, f)
		}
		code, err := native.Assemble(c.target, []*lower.Kernel{m})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(code.Close)
		for kind := range 5 {
			checkPrepare(t, rng, p, k, kind, c.k, func(a []vir.Arg) error { return vir.Eval(f, a) })
			checkPrepare(t, rng, p, k, kind, c.k, func(a []vir.Arg) error { return code.Func(0, c.name)([][]vir.Arg{a}) })
		}
	}
}

// The digits of an entry differ in each iteration of a serial loop over entries. The vectorizer must not use the first
// entry's digits for all of them.
func TestSerialEntries(t *testing.T) {
	p, err := ir.Named("ternary")
	if err != nil {
		t.Fatal(err)
	}
	trace := schedule.Trace{schedule.Bind{Loop: "table.x", To: "unrolled"}, schedule.Bind{Loop: "residual.x", To: "unrolled"}}
	k, err := schedule.CompilePreparation(p, tablesOf(t, p.Weight, []int{2}), trace)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lower.Vectorize(k.Nest, "prepare")
	var refused *nest.Refused
	if !errors.As(err, &refused) {
		t.Fatalf("%v; serial pair.y must be refused\n%v", err, k.Nest)
	}
}

// Iterations of a run-time loop that are parts of a chunk are not one stride apart.
func TestPartsOfChunks(t *testing.T) {
	p, err := ir.Named("w1")
	if err != nil {
		t.Fatal(err)
	}
	tables, target := tablesOf(t, p.Weight, []int{4}), amd64.Targets()[0]
	trace, err := beam.Preparation(t.Context(), p, tables, 16, target)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(trace, func(x schedule.Step) bool { return schedule.NameOf(x) == "pack" })
	for chunk, want := range map[int]bool{16: true, 32: false, 512: false} {
		trace[at] = schedule.Pack{Tensor: "table", Chunk: chunk}
		k, err := schedule.CompilePreparation(p, tables, trace)
		if err != nil {
			t.Fatal(err)
		}
		_, err = lower.Vectorize(k.Nest, "prepare")
		var refused *nest.Refused
		if want != (err == nil) || !want && !errors.As(err, &refused) {
			t.Errorf("chunks of %d, iterations of 16: %v", chunk, err)
		}
	}
}

// tablesOf returns tables whose parts sum `parts` activations each, nil without parts. One part gives tables of bytes,
// four neighbours together. For weights without groups they have residuals, and whole codes as digits if the part is 2.
// Weights of five levels get mirrored tables with entries of two bytes.
func tablesOf(t *testing.T, w format.Weight, parts []int) *ir.Tables {
	if parts == nil {
		return nil
	}
	digits := ir.DigitBits
	switch {
	case parts[0] == 2:
		digits = ir.DigitCodes
	case len(parts) == 1 && parts[0] == 5:
		digits = ir.DigitLevels
	}
	d, err := ir.Decompose(w, digits, parts...)
	if err != nil {
		t.Fatal(err)
	}
	if digits == ir.DigitLevels {
		return &ir.Tables{Decomposition: d, Elem: format.I16, Low: 7, Mirror: true, Together: 1}
	}
	if len(parts) == 1 && w.Per == format.PerRow {
		return &ir.Tables{Decomposition: d, ByBit: digits == ir.DigitBits, Elem: format.U8, Residual: true, Together: 4}
	}
	if len(parts) == 1 {
		return &ir.Tables{Decomposition: d, ByBit: true, Elem: format.I16, Low: 8, Together: 4}
	}
	return &ir.Tables{Decomposition: d, ByBit: true, Elem: format.I16, Together: 1}
}

// floatTables are tables of f32 activations.
func floatTables(t *testing.T, w format.Weight, parts []int) *ir.Tables {
	d, err := ir.Decompose(w, ir.DigitCodes, parts...)
	if err != nil {
		t.Fatal(err)
	}
	return &ir.Tables{Decomposition: d, Elem: format.F32, Together: 1}
}

func checkPrepare(t *testing.T, rng *rand.Rand, p ir.Problem, k *schedule.PreparationKernel, kind, size int, run func([]vir.Arg) error) {
	t.Helper()
	x := ir.NewArray(1, size)
	for i := range x.V {
		v := float32(rng.NormFloat64())
		switch kind {
		case 1:
			v = 0
		case 2:
			v *= 1e-40
		case 3:
			if i == size/2 {
				v = float32(math.Inf(-1))
			}
		case 4:
			if i == 1 {
				v = float32(math.NaN())
			}
		}
		x.V[i] = int64(math.Float32bits(v))
	}
	want, err := ir.Eval(k.Graph, map[string]int{"N": 1, "K": size}, map[string]*ir.Array{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	pad := size
	for _, p := range append([]int{max(k.Chunk, 1)}, k.Pads...) {
		pad = max(pad, (size+p-1)/p*p)
	}
	var args []vir.Arg
	step := 0 // between the tables of chunks: with a gap
	for range len(k.Nest.Params) - len(k.CountDiv) - 1 {
		args = append(args, vir.Arg{Buf: make([]byte, 8*(pad+64))})
	}
	for i, v := range x.V {
		binary.LittleEndian.PutUint32(args[0].Buf[4*i:], uint32(v))
	}
	if k.Tables != nil {
		size, chunks := pad/k.Tables.Digits()*k.Tables.UnitBytes(), 1
		if k.Chunk > 0 {
			step, chunks = k.Chunk/k.Tables.Digits()*k.Tables.UnitBytes()+64, pad/k.Chunk
		}
		args[slices.Index(k.Nest.Params, "table")].Buf = make([]byte, size+64*chunks)
	}
	args = append(args, vir.Arg{Int: int64(step)})
	for _, d := range k.CountDiv {
		args = append(args, vir.Arg{Int: int64((size + d - 1) / d)})
	}
	if err := run(args); err != nil {
		t.Fatalf("%v\n%v", err, k.Nest)
	}
	for _, s := range k.Graph.Stages {
		b, w := k.Nest.Buffers[s.Out.Name], want[s.Out.Name]
		buf := args[slices.Index(k.Nest.Params, b.Base().Param)].Buf
		for i := range w.Shape[1] {
			at := i * s.Out.Elem.Bytes()
			if made, ok := b.(*nest.MadeTables); ok {
				p := made.Pos([]int{0, i})
				at = p.Byte + p.Steps*step
			}
			raw := int64(0)
			for j := range s.Out.Elem.Bytes() {
				raw |= int64(buf[at+j]) << (8 * j)
			}
			if got := ir.Wrap(s.Out.Elem, raw); got != w.At(0, i) {
				t.Fatalf("kind %d %s %d: %#x, want %#x", kind, s.Out.Name, i, got, w.At(0, i))
			}
		}
	}
}
