package device

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
)

// open waits long: a software device compiles a shader when it first runs.
var open = sync.OnceValues(func() (*vulkan.Device, error) { return vulkan.Open(vulkan.Options{Timeout: 10 * time.Minute}) })

func opened(t testing.TB) *vulkan.Device {
	t.Helper()
	d, err := open()
	if none := (*vulkan.Unavailable)(nil); errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// traceOf is a schedule of tests/shaders/testdata.
func traceOf(t testing.TB, name string) (trace schedule.Trace) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../tests/shaders/testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &trace); err != nil {
		t.Fatal(err)
	}
	return trace
}

// product compiles a schedule of tests/shaders/testdata, which is called by its format.
func product(t testing.TB, d *vulkan.Device, name string) *Product {
	t.Helper()
	p, err := ir.Named(strings.Split(name, ".")[0])
	if err != nil {
		t.Fatal(err)
	}
	target, _ := spirv.ByName("spirv")
	k, err := Compile(t.Context(), p, traceOf(t, name), target, Controls(d))
	if err != nil {
		t.Fatal(err)
	}
	x, err := New(d, p, k)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSelfTest: products of schedules have the bits of the definition, for odd shapes, parts of the rows and all kinds of activations.
func TestSelfTest(t *testing.T) {
	d := opened(t)
	for _, name := range []string{"w2.gemm", "w2.gemv", "w2.lanes", "w2.shared", "w2.split", "w2.shared.split", "w1.split", "w4-g32.gemv", "w4-g32.lanes", "w4-g32.gemv.split"} {
		t.Run(name, func(t *testing.T) {
			x := product(t, d, name)
			if err := runtime.SelfTest(x.Product, rand.New(rand.NewPCG(1, 1))); err != nil {
				t.Error(err)
			}
			if err := x.Check(333, 5, 2048, 1); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSplitK: workgroups that share sums give the bits of the definition, for few rows, few columns, numbers of elements of K that no number of parts divides, fewer
// iterations than parts, and one call after the other on the same sums.
func TestSplitK(t *testing.T) {
	d := opened(t)
	for _, name := range []string{"w2.split", "w1.split", "w2.shared.split", "w4-g32.split", "q4_k.split"} {
		x := product(t, d, name)
		unit := x.Kernels[0].Schedule.Problem.Weight.Unit()
		for _, n := range []int{1, 3} {
			for _, shape := range [][2]int{{64, 14336}, {64, 14336 - 1}, {5, 3 * 512}, {1, 1}} {
				for round := range 2 {
					if err := x.Check(shape[0], n, (shape[1]+unit-1)/unit*unit, uint64(round)); err != nil {
						t.Errorf("%s, %d columns, %v, round %d: %v", name, n, shape, round, err)
					}
				}
			}
		}
	}
}

// TestSplitKDivided: products are divided so that their shared sums fit a buffer, which are more bytes than the results.
func TestSplitKDivided(t *testing.T) {
	opened(t)
	d, err := vulkan.Open(vulkan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Limits.Allocation = 8 << 10
	for _, name := range []string{"w2.split", "w4-g32.split"} {
		x := product(t, d, name)
		k := &x.Kernels[0]
		words := k.Shader.Sums + k.Shader.EachSums*512/k.Schedule.StepK
		if bytes := 4 * words * 333 / k.Schedule.Rows * 5; int64(bytes) < d.Limits.Allocation {
			t.Fatalf("%d bytes of sums fit a buffer", bytes)
		}
		if err := x.Check(333, 5, 512, 1); err != nil {
			t.Error(err)
		}
	}
}

// TestSplitKRecorded: two products at once, in a recording that runs twice, have sums of their own.
func TestSplitKRecorded(t *testing.T) {
	const rows, k = 64, 5 * 512
	x := product(t, opened(t), "w2.split")
	rng := rand.New(rand.NewPCG(1, 1))
	on := x.on.Runner
	var steps []abi.Step
	var outs []abi.Memory
	var want [][]float32
	for i := range 2 {
		w, err := x.Random(rows, k, rng)
		if err == nil {
			err = w.Copies(1)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.Free()
		_, act, err := w.activations(1, rng)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, make([]float32, rows))
		if err := x.Gemm(want[i], w.packed, act, 0, rows, runtime.Options{}); err != nil {
			t.Fatal(err)
		}
		acts, runs, err := x.DeviceActs(act)
		if err != nil {
			t.Fatal(err)
		}
		in, err := on.Memory(int64(len(acts)))
		if err == nil {
			err = in.Write(0, acts)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer in.Free()
		out, err := on.Memory(4 * rows)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Free()
		outs = append(outs, out)
		steps = append(steps, &abi.Multiplying{Beside: i > 0, Matrix: w.copies[0], Runs: runs[:1], Column: 4 * rows,
			Act: abi.Place{Memory: in, Bytes: int64(len(acts))}, Out: abi.Place{Memory: out, Bytes: 4 * rows}})
	}
	recorded, err := on.Record(steps)
	if err != nil {
		t.Fatal(err)
	}
	defer recorded.Free()
	for range 2 {
		if err := on.Run(recorded); err != nil {
			t.Fatal(err)
		}
		for i, out := range outs {
			have := make([]byte, 4*rows)
			if err := out.Read(0, have); err != nil {
				t.Fatal(err)
			}
			for row, v := range want[i] {
				if got := binary.LittleEndian.Uint32(have[4*row:]); got != math.Float32bits(v) {
					t.Fatalf("product %d: row %d is %08x, want %08x", i, row, got, math.Float32bits(v))
				}
			}
			if err := out.Write(0, make([]byte, 4*rows)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTime(t *testing.T) {
	timed(t, "w2.lanes")
	timed(t, "w2.split")
}

func timed(t *testing.T, schedule string) {
	x := product(t, opened(t), schedule)
	w, err := x.Random(256, 1024, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Free()
	if err := w.Copies(3); err != nil {
		t.Fatal(err)
	}
	times, err := w.Time(2, 4, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if len(times.Each) != 3*4 || times.Median() <= 0 || times.GBps() <= 0 {
		t.Errorf("%v", times)
	}
}

// TestFused: a schedule that ends with quantize is a kernel that takes floats, besides one for prepared activations. Products have the same bits by both, and Info says
// which runs.
func TestFused(t *testing.T) {
	d := opened(t)
	for _, name := range []string{"w2", "w4"} {
		trace := traceOf(t, "quantize/"+name)
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		target, _ := spirv.ByName("spirv")
		v, err := build.Shaders(t.Context(), p, target, []search.Use{{Cols: 1, Trace: trace}}, Controls(d))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := v.Spec(p)
		if err != nil {
			t.Fatal(err)
		}
		x, err := Of(d, spec)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Free()
		if want := "floats, " + fmt.Sprint(v.Fused.Schedule.Rows) + " rows by 1 columns of up to " + fmt.Sprint(v.Fused.Schedule.Room) + " floats: runs for n = 1 in Multiply"; !strings.Contains(x.Info(), want) {
			t.Errorf("no %q in\n%s", want, x.Info())
		}
		if err := runtime.SelfTest(x.Product, rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Error(err)
		}
		for _, k := range []int{4096, 4100} { // the second has no room
			in := make([]float32, k)
			if _, runs, ok := x.DeviceFloats(in, 100); ok != (k <= 4096) || ok && len(runs) != 1 {
				t.Errorf("%d floats: %v, %v", k, ok, runs)
			}
			if err := x.Check(100, 1, k, 1); err != nil {
				t.Error(err)
			}
		}
		w, err := x.Random(64, 1000, rand.New(rand.NewPCG(2, 2)))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Free()
		if times, err := w.Time(1, 2, rand.New(rand.NewPCG(3, 3))); err != nil || len(times.Each) != 2 {
			t.Error(times, err)
		}
	}
}
