package shaders

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
)

// named is the problem of a file of testdata: FORMAT.NAME.json, or FORMAT@GROUP.NAME.json if activations have scales by groups.
func named(t *testing.T, file string) ir.Problem {
	t.Helper()
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	weight, group, grouped := strings.Cut(name, "@")
	p, err := ir.Named(weight)
	if err == nil && grouped {
		p.Act.Group, err = strconv.Atoi(group)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// traceOf is the schedule in a file.
func traceOf(t *testing.T, path string) schedule.Trace {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return traceIn(t, data)
}

// traceIn is the schedule in a text.
func traceIn(t *testing.T, text []byte) (trace schedule.Trace) {
	t.Helper()
	if err := json.Unmarshal(text, &trace); err != nil {
		t.Fatal(err)
	}
	return trace
}

// TestProducts compares products by the schedules of testdata with the definition: what
// vector IR says they are, before and after its passes, and what the device makes of them.
func TestProducts(t *testing.T) { schedules(t, "testdata/*.json") }

// schedules compares the products of files. It counts the ones by tiles that the device runs.
func schedules(t *testing.T, pattern string) (ran int) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal("no schedules", err)
	}
	for _, path := range paths {
		if strings.Contains(path, ".tiles") != strings.Contains(pattern, ".tiles") {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) { ran += product(t, traceOf(t, path), named(t, path)) })
	}
	return ran
}

// TestTileProducts is TestProducts of the schedules with tiles, on a device that must have cooperative matrices if TMACC_TILES is 1.
func TestTileProducts(t *testing.T) {
	if d := Device(t); os.Getenv("TMACC_TILES") == "1" && len(d.Cooperative) == 0 {
		t.Fatalf("%v has no cooperative matrices", d)
	}
	mustRun(t, schedules(t, "testdata/*.tiles*.json"))
}

// TestPage does the same with the schedule of docs/gpu.md.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/gpu.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```json\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/gpu.md has no schedule")
	}
	product(t, traceIn(t, []byte(text)), named(t, "w4-g32"))
}

// product compares a product. It counts the targets whose tiles the device runs.
func product(t *testing.T, trace schedule.Trace, p ir.Problem) (ran int) {
	k, err := schedule.Compile(p, trace)
	if err != nil {
		t.Fatal(err)
	}
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range Targets(k.Nest.Holders > 0) {
		t.Run(target.Machine().ShortName(), func(t *testing.T) {
			d := Device(t)
			if sh := Compiled(t, target, f, spirv.Controls{}); len(sh.Shapes) > 0 {
				if byTiles(t, d, sh, p, k, f); Runs(d, sh) {
					ran++
				}
				return
			}
			Accepted(t, Compiled(t, target, f, spirv.Controls{}))
			sh := Compiled(t, target, f, Controls(d))
			Accepted(t, sh)
			byMemory := Compiled(t, target, f, spirv.Controls{})
			rng := rand.New(rand.NewSource(1))
			for kind := check.Uniform; kind <= check.NotFinite; kind++ {
				for _, shape := range [][3]int{{k.Rows, k.Cols, wholeK(p, k.StepK)}, {3*k.Rows + 1, k.Cols + 1, wholeK(p, 2*k.StepK+7)}} {
					c := check.New(rng, p, shape[0], shape[1], shape[2], kind)
					compare(t, fmt.Sprint("vir ", kind, shape), c, k, func(args []vir.Arg) error { return vir.Eval(f, args) })
					compare(t, fmt.Sprint("device ", kind, shape), c, k, func(args []vir.Arg) error { return Run(d, sh, f, args) })
					if kind == check.Uniform && sh.Subgroup > 0 {
						compare(t, fmt.Sprint("without subgroups ", shape), c, k, func(args []vir.Arg) error { return Run(d, byMemory, f, args) })
					}
				}
			}
		})
	}
	return ran
}

// byTiles compares a product by cooperative matrices with the definition: by vector IR, and by the device if that has the matrices.
func byTiles(t *testing.T, d *vulkan.Device, sh *spirv.Shader, p ir.Problem, k *schedule.Kernel, f *vir.Func) {
	rng := rand.New(rand.NewSource(1))
	for kind := check.Uniform; kind <= check.NotFinite; kind++ {
		for _, shape := range [][3]int{{k.Rows, k.Cols, wholeK(p, k.StepK)}, {2*k.Rows + 1, k.Cols + 1, wholeK(p, k.StepK+7)}} {
			c := check.New(rng, p, shape[0], shape[1], shape[2], kind)
			compare(t, fmt.Sprint("vir ", kind, shape), c, k, func(args []vir.Arg) error { return vir.Eval(f, args) })
			if Runs(d, sh) && (kind == check.Uniform || kind == check.NotFinite) { // it compiles for seconds
				compare(t, fmt.Sprint("device ", kind, shape), c, k, func(args []vir.Arg) error { return Run(d, sh, f, args) })
			}
		}
	}
	Accepted(t, sh)
}

// wholeK is n elements of K or a few more, in whole groups if the format wants that.
func wholeK(p ir.Problem, n int) int {
	unit := p.Weight.Unit()
	return (n + unit - 1) / unit * unit
}

func compare(t *testing.T, what string, c *check.Case, k *schedule.Kernel, call check.Call) {
	t.Helper()
	have, err := c.Run(k, call)
	if err == nil {
		err = check.Equal(k, have, c.Naive(), c.M)
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
