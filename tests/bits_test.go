package tests

import (
	"errors"
	"fmt"
	"math/rand"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/qemu"
	"github.com/tmacc/tmacc/tests/template"
)

// rows8 is a schedule that every CPU target has registers for.
var rows8 = template.Choice{Lanes: 8, Rows: 2, Block: 2, RowFields: 1, Cells: 1, Flush: 1, Map: "dense",
	Value: "affine", Hoist: "flush", Dot: 4, Below: 4, Cols: 1, Order: 1, Scale: "end"}

// sameBits are schedules that give the same bits on every target.
var sameBits = []struct {
	format string
	group  int // of activations
	change func(c *template.Choice)
	arm64  bool // in the slice of formats for arm64
}{
	{"w2-g32", 32, nil, true},
	{"w4-g32", 0, func(c *template.Choice) { c.Below = 8 }, true},
	{"w4-g32-z", 32, func(c *template.Choice) { c.Below, c.Cols, c.Rows, c.Block = 0, 2, 1, 1 }, false},
	{"w1", 0, func(c *template.Choice) { c.Map, c.Below = "planes", 4 }, false},
	{"w3", 0, func(c *template.Choice) { c.Cols = 2 }, false},
	{"ternary", 16, func(c *template.Choice) { c.Dot, c.Rows, c.Block = 2, 1, 1 }, false},
	{"ternary", 0, func(c *template.Choice) { c.Map, c.Join, c.Mirror, c.Rows, c.Block, c.Order = "words", 5, 4, 1, 1, 0 }, true},
	{"ternary", 0, func(c *template.Choice) {
		c.Map, c.Join, c.Head, c.Rows, c.Block, c.Below, c.Factor = "words", 5, 2, 1, 1, 0, "f"
	}, true},
	{"ternary-g144", 0, func(c *template.Choice) { c.Map, c.Join, c.Below, c.Rows, c.Block = "words", 3, 0, 1, 1 }, false},
	{"iq4nl-tensor-f16", 0, func(c *template.Choice) { c.Value, c.Below = "lookup", 0 }, false},
	{"w4-g32-s128-m", 32, func(c *template.Choice) { c.AtGroup, c.Super = true, true }, true},
	{"w2-g16-s64-i8", 0, func(c *template.Choice) { c.RowFields, c.Below, c.Rows, c.Block = 4, 0, 1, 1 }, true},
	{"w4-g32-bf16-m", 0, nil, true},
	{"w8-g128", 32, func(c *template.Choice) { c.Hoist, c.Below = "none", 0 }, false},
	{"cb2x4-g64", 32, func(c *template.Choice) { c.Value, c.Hoist, c.Below = "lookup", "none", 0 }, true},
	{"cb2x4-g32-s64-m", 128, func(c *template.Choice) { c.Value, c.Below, c.Rows, c.Block = "lookup", 0, 1, 1 }, false},
	{"w1-f32act", 0, byFloats("codes", 4), true},
	{"ternary-f32act", 0, byFloats("levels", 3), false},
	{"w4-g32-s64-f32act", 0, byFloats("codes", 1), false},
	{"w4", 0, func(c *template.Choice) { c.Dot, c.Below, c.Rows, c.Block = 1, 0, 1, 1 }, true},
	{"w2", 0, func(c *template.Choice) { c.Octets, c.Cols, c.Below, c.Rows, c.Block = true, 2, 0, 1, 1 }, true},
}

// byFloats looks up sums of `by` f32 activations at once.
func byFloats(digits string, by int) func(c *template.Choice) {
	return func(c *template.Choice) {
		c.Hoist, c.Below, c.Table = "none", 0, &template.Tables{Digits: digits, Parts: []int{by}, Float: true, Along: 1}
	}
}

// bitShapes are rows and columns; unit stands for one group, or one weight.
func bitShapes(unit int) [][2]int {
	up := func(k int) int { return (k + unit - 1) / unit * unit }
	short := []int{unit, up(63)}
	var out [][2]int
	for _, m := range []int{1, 37, 4097} {
		for _, k := range append(short, up(4099)) {
			out = append(out, [2]int{m, k})
		}
	}
	return out
}

// TestSameBits runs one trace on every amd64 target (of those for other CPUs the product, of prepared activations), in pure Go and, for a slice
// of formats, on an emulated Arm CPU, each target's in turn, from activations in float32 to the product:
// all equal the definition bit for bit. Where Go is compiled for another level of amd64, only kernels that this CPU runs are multiplied with, as emulated CPUs run the
// same machine code again. One schedule in four, drawn by TMACC_SEED, multiplies the largest matrix too, or all with TMACC_LONG=1.
func TestSameBits(t *testing.T) {
	numbers := make([]int, len(sameBits))
	for i := range numbers {
		numbers[i] = i
	}
	largest := drawn.Some(drawn.New(t), 4, numbers)
	for i, s := range sameBits {
		t.Run(fmt.Sprintf("%s act %d", s.format, s.group), func(t *testing.T) {
			t.Parallel()
			p, err := ir.Named(s.format)
			if err != nil {
				t.Fatal(err)
			}
			if s.group > 0 {
				p.Act.Group = s.group
			}
			c := rows8
			if s.change != nil {
				s.change(&c)
			}
			trace := c.Trace(p)
			products := map[string]*runtime.Product{}
			elsewhere := map[string]*native.Kernel{} // by targets that this CPU does not run
			for _, target := range native.Targets(t) {
				name := target.Machine().Name
				if !native.Here(target) {
					if !usualLevel() {
						continue
					}
					if elsewhere[name], err = native.Compile(target, p, trace); err != nil {
						t.Fatal(err)
					}
					native.Load(t, target, elsewhere[name])
					continue
				}
				products[name] = product(t, target, p, trace)
				if products["purego"], err = products[name].On("purego"); err != nil {
					t.Fatal(err)
				}
			}
			arm := arm64.Targets()[i%len(arm64.Targets())]
			var onArm *native.Kernel
			if s.arm64 && usualLevel() {
				if onArm, err = native.Compile(arm, p, trace); err != nil {
					t.Fatal(err)
				}
				qemu.Start(t, arm)
				native.Load(t, arm, onArm)
			}
			rng := rand.New(rand.NewSource(1))
			for _, shape := range bitShapes(max(p.Weight.Unit(), s.group)) {
				if shape[0]*shape[1] > 1<<22 && !slices.Contains(largest, i) {
					continue
				}
				for i, in := range check.Inputs {
					m, k := shape[0], shape[1]
					if testing.Short() && m*k > 1<<20 || m*k > 1<<22 && i%4 != 0 {
						continue
					}
					c := check.Quantize(rng, p, m, 3, k, in.Fill)
					want := c.Naive()
					for target, x := range products {
						got, err := c.Multiply(x)
						if err == nil {
							err = check.Compare(got, want, m)
						}
						if err != nil {
							t.Errorf("%s: m %d k %d, %s: %v", target, m, k, in.Name, err)
						}
					}
					for target, x := range elsewhere {
						if m*k > 1<<19 {
							continue // takes long
						}
						got, err := x.Run(c.Case)
						if err == nil {
							err = check.Compare(got, want, m)
						}
						if err != nil {
							t.Errorf("%s, emulated: m %d k %d, %s: %v", target, m, k, in.Name, err)
						}
					}
					if onArm != nil && m*k < 1<<22 {
						got, err := onArm.Run(c.Case)
						if err == nil {
							err = check.Compare(got, want, m)
						}
						if err != nil {
							t.Errorf("%s: m %d k %d, %s: %v", arm.Machine().Name, m, k, in.Name, err)
						}
					}
				}
			}
		})
	}
}

// usualLevel says that this program is compiled for CPUs of any level.
func usualLevel() bool {
	info, ok := debug.ReadBuildInfo()
	return !ok || !slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "GOAMD64" && s.Value != "v1" })
}

// product is p with one kernel, and activations prepared by default, on target.
func product(t *testing.T, target lower.Target, p ir.Problem, trace schedule.Trace) *runtime.Product {
	t.Helper()
	v, err := build.Variant(t.Context(), p, target, []search.Use{{Trace: trace}})
	if err != nil {
		t.Fatal(err)
	}
	live, err := live.Assemble(p, v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { live.Close() })
	x, err := live.Product()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestLargestK runs schedules at the largest K they are proven for, with the
// smallest and the largest code everywhere and every activation 127; schedules
// that could lose bits there are refused.
func TestLargestK(t *testing.T) {
	for _, c := range []struct {
		format  string
		maxK    int
		change  func(c *template.Choice)
		refused bool
	}{
		{"w1", 0, func(c *template.Choice) { c.Below = 4 }, false},
		{"w2", 0, func(c *template.Choice) { c.Below = 8 }, false},
		{"w3", 0, func(c *template.Choice) { c.Below = 8 }, false},
		{"w4", 0, func(c *template.Choice) { c.Below = 8 }, false},
		{"w4", 1 << 18, func(c *template.Choice) { c.Below = 8 }, true},
		{"w4", 1 << 18, func(c *template.Choice) { c.Below = 0 }, false},
		{"w8", 0, func(c *template.Choice) { c.Hoist, c.Below = "none", 0 }, false},
		{"w8", 0, func(c *template.Choice) { c.Hoist, c.Below = "init", 0 }, false},
		{"w8", 1 << 18, func(c *template.Choice) { c.Hoist, c.Below = "none", 0 }, true},
		{"iq4nl", 0, func(c *template.Choice) { c.Value, c.Below = "lookup", 0 }, false},
		{"w2", 0, func(c *template.Choice) { c.Dot, c.Below, c.Rows, c.Block = 2, 4, 1, 1 }, false},
		{"w4", 0, func(c *template.Choice) { c.Dot, c.Below, c.Rows, c.Block = 2, 4, 1, 1 }, false},
		{"w4", 0, func(c *template.Choice) { c.Dot, c.Below, c.Rows, c.Block = 2, 8, 1, 1 }, true},
		{"w8", 0, func(c *template.Choice) { c.Dot, c.Below, c.Rows, c.Block = 2, 0, 1, 1 }, true},
	} {
		w, err := format.Lookup(c.format)
		if err != nil {
			t.Fatal(err)
		}
		choice := rows8
		c.change(&choice)
		p := ir.Problem{Weight: w, MaxK: c.maxK}
		trace := choice.Trace(p)
		for _, target := range native.Targets(t) {
			k, err := native.Compile(target, p, trace)
			var overflow *schedule.Overflow
			switch {
			case c.refused && !errors.As(err, &overflow):
				t.Errorf("%s, K up to %d, %v: want an overflow, have %v", w, p.LimitK(), choice, err)
				continue
			case c.refused:
				continue
			case err != nil:
				t.Errorf("%s, K up to %d, %v: %v", w, p.LimitK(), choice, err)
				continue
			}
			native.Load(t, target, k)
			rng := rand.New(rand.NewSource(1))
			for _, code := range []int{0, len(w.Levels) - 1} {
				x := check.New(rng, p, 3, 2, p.LimitK(), check.Extreme)
				for i := range x.Source.Codes {
					x.Source.Codes[i] = byte(code)
				}
				if err := k.Check(x); err != nil {
					t.Errorf("%s: %s, K %d, %v, all codes %d: %v", target.Machine().Name, w, x.K, choice, code, err)
				}
			}
		}
	}
}
