package runtime

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// threadTest is two products that several threads can share, with their results.
type threadTest struct {
	p, q         *Product
	m, n, k      int
	packed       [2][]byte
	act          []byte
	want         [2][]float32
	bias, before []float32
}

func newThreadTest(t *testing.T, target string) *threadTest {
	t.Helper()
	const m, n, k = 16*9 + 5, 3, 2048
	x := &threadTest{m: m, n: n, k: k}
	in := testActivations(n, k, newRand())[2]
	for i, name := range []string{"w4-g32", "w2-g32"} {
		p, err := New(*fakeSpec(t, name, 32, 16, 32, []int{1, 4})).On(target)
		if err != nil {
			t.Fatal(err)
		}
		src := randomWeights(p.Weight(), m, k, newRand())
		x.packed[i], x.want[i] = mustPack(t, p, src, m, k), make([]float32, n*m)
		define(x.want[i], p.spec, src, in, m, n, k)
		if i == 0 {
			x.p, x.act = p, mustPrepare(t, p, in, n, k)
		} else {
			x.q = p
		}
	}
	return x
}

// wantChunks demands that the product of x really is divided.
func (x *threadTest) wantChunks(t *testing.T) {
	t.Helper()
	r := &region{}
	if err := r.add(x.p).open(make([]float32, x.n*x.m), x.packed[0], x.act, &Options{}); err != nil {
		t.Fatal(err)
	}
	if chunks := r.cut(2); chunks < 4 {
		t.Fatalf("%d chunks: the matrix is too small for this test", chunks)
	}
}

// threadTargets are what threads are tested with; with the race detector only pure
// Go is fast enough.
func threadTargets() []string {
	if raceEnabled {
		return []string{cpu.PureGo}
	}
	return []string{"fake/a", cpu.PureGo}
}

// TestThreads: products do not depend on the number of threads, nor on how many
// goroutines multiply the same packed matrix at once.
func TestThreads(t *testing.T) {
	for _, target := range threadTargets() {
		x := newThreadTest(t, target)
		x.wantChunks(t)
		for _, threads := range []int{0, 1, 2, 3, AllThreads, 1000} {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					dst, dst2 := make([]float32, x.n*x.m), make([]float32, x.n*x.m)
					if err := x.p.Gemm(dst, x.packed[0], x.act, 0, x.m, Options{Threads: threads}); err != nil {
						t.Error(err)
					}
					if err := sameBits(dst, x.want[0], x.m); err != nil {
						t.Errorf("%s, %d threads: %v", target, threads, err)
					}
					clear(dst)
					err := GemmAll(threads,
						Call{Product: x.p, Dst: dst, Packed: x.packed[0], Act: x.act},
						Call{Product: x.q, Dst: dst2, Packed: x.packed[1], Act: x.act})
					for i, d := range [][]float32{dst, dst2} {
						if err := sameBits(d, x.want[i], x.m); err != nil {
							t.Errorf("%s, %d threads, call %d: %v", target, threads, i, err)
						}
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
	}
}

// TestPrepareThreads: prepared activations do not depend on the number of threads.
func TestPrepareThreads(t *testing.T) {
	for _, target := range threadTargets() {
		x := newThreadTest(t, target)
		for _, n := range []int{1, 4, 5, 100, 301} {
			in := testActivations(n, x.k, newRand())[2]
			want := mustPrepare(t, x.p, in, n, x.k)
			for _, threads := range []int{0, 2, 3, AllThreads, 1000} {
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						act := bytes.Repeat([]byte{0xee}, len(want)) // all of it is written
						if err := x.p.PrepareActThreads(act, in, n, x.k, threads); err != nil || !bytes.Equal(act, want) {
							t.Errorf("%s, %d rows, %d threads: other bytes than PrepareAct's, %v", target, n, threads, err)
						}
					})
				}
				wg.Wait()
			}
			for _, short := range [][]byte{nil, want[1:]} {
				one, several := x.p.PrepareAct(short, in, n, x.k), x.p.PrepareActThreads(short, in, n, x.k, 2)
				if one == nil || several == nil || one.Error() != several.Error() {
					t.Errorf("%v, and with threads %v", one, several)
				}
			}
		}
	}
}

// TestRefilled: products are of what a buffer of activations holds now, on workers too, which keep
// what they have made of it until the product is done.
func TestRefilled(t *testing.T) {
	x := newThreadTest(t, threadTargets()[0])
	ins := testActivations(x.n, x.k, newRand())[1:3]
	var want [2][]float32
	for i, in := range ins {
		want[i] = make([]float32, x.n*x.m)
		if err := x.p.Gemm(want[i], x.packed[0], mustPrepare(t, x.p, in, x.n, x.k), 0, x.m, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if sameBits(want[0], want[1], x.m) == nil {
		t.Fatal("both activations have the same product")
	}
	dst := make([]float32, x.n*x.m)
	for i := range 10 {
		if err := x.p.PrepareAct(x.act, ins[i%2], x.n, x.k); err != nil {
			t.Fatal(err)
		}
		if err := x.p.Gemm(dst, x.packed[0], x.act, 0, x.m, Options{Threads: 2}); err != nil {
			t.Fatal(err)
		}
		if err := sameBits(dst, want[i%2], x.m); err != nil {
			t.Fatalf("filled %d times: %v", i+1, err)
		}
	}
}

// TestThreadsShare: another goroutine does some of the chunks, also after it slept.
func TestThreadsShare(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	x := newThreadTest(t, "fake/a")
	var inside, most atomic.Int32
	fn := x.p.variant.Kernels[1].Fn
	x.p.variant.Kernels[1].Fn = func(a *abi.GemmArgs) {
		most.Store(max(most.Load(), inside.Add(1)))
		time.Sleep(time.Millisecond)
		fn(a)
		inside.Add(-1)
	}
	for range 2 {
		most.Store(0)
		for range 100 { // a worker may not get a CPU at once
			if err := x.p.Gemm(make([]float32, x.n*x.m), x.packed[0], x.act, 0, x.m, Options{Threads: 2}); err != nil {
				t.Fatal(err)
			}
			if most.Load() > 1 {
				break
			}
		}
		if got := most.Load(); got != 2 {
			t.Errorf("%d threads at once, not 2", got)
		}
		time.Sleep(time.Millisecond) // workers sleep by then
	}
}

// TestThreadsAllocateNothing counts what a program allocates while several threads
// multiply; testing.AllocsPerRun would leave them one CPU.
func TestThreadsAllocateNothing(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented code allocates")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties pools
	x := newThreadTest(t, cpu.PureGo)
	dst, dst2 := make([]float32, x.n*x.m), make([]float32, x.n*x.m)
	const rows = 64
	in := make([]float32, rows*x.k)
	act := mustPrepare(t, x.p, in, rows, x.k)
	run := func() {
		err := x.p.PrepareActThreads(act, in, rows, x.k, 2)
		if err != nil {
			t.Fatal(err)
		}
		err = x.p.Gemm(dst, x.packed[0], x.act, 0, x.m, Options{Threads: 2})
		if err == nil {
			err = GemmAll(2, Call{Product: x.p, Dst: dst, Packed: x.packed[0], Act: x.act},
				Call{Product: x.q, Dst: dst2, Packed: x.packed[1], Act: x.act})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	const runs = 200
	for range runs {
		run()
	}
	runtime.ReadMemStats(&before)
	for range runs {
		run()
	}
	runtime.ReadMemStats(&after)
	if got := (after.Mallocs - before.Mallocs) / runs; got != 0 {
		t.Errorf("%d allocations per call", got)
	}
}

// TestGemmAllRefusals: all calls are checked before any begins.
func TestGemmAllRefusals(t *testing.T) {
	x := newThreadTest(t, cpu.PureGo)
	dst := make([]float32, x.n*x.m)
	good := Call{Product: x.p, Dst: dst, Packed: x.packed[0], Act: x.act}
	short, none := good, good
	short.Dst, none.Product = dst[1:], nil
	for _, c := range []struct {
		call Call
		want string
	}{{short, "GemmAll: call 2 of 2: w4-g32: argument dst: has"}, {none, "GemmAll: call 2 of 2: runtime: product: is nil or a zero Product"}} {
		if err := GemmAll(2, good, c.call); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %s", err, c.want)
		}
	}
	if fmt.Sprint(dst) != fmt.Sprint(make([]float32, len(dst))) {
		t.Error("a call ran although another was refused")
	}
	if err := GemmAll(2); err != nil {
		t.Error(err)
	}
}

// Tiles that a kernel has side by side stay in one chunk where there are enough of them, but no thread goes without for that,
// and other widths are cut as ever.
func TestCutSideBySide(t *testing.T) {
	const rows, k = 4, 16 << 10 // a tile is a chunk
	s := fakeSpec(t, "w8", 0, rows, 32, []int{1, 4})
	v := s.Variants[0]
	v.Kernels[0].Rows = 2 * rows
	v.Kernels[0].Fn = fakeKernel(s, v, v.Kernels[0])
	p := New(*s)
	for _, c := range []struct{ tiles, n, chunks, each int }{
		{2, 1, 2, 1}, {8, 1, 8, 1}, {3 * 2 * chunksPerThread, 1, 96, 4}, {3 * 2 * chunksPerThread, 4, 128, 3},
	} {
		m := c.tiles * rows
		packed := mustPack(t, p, randomWeights(p.Weight(), m, k, newRand()), m, k)
		act := mustPrepare(t, p, testActivations(c.n, k, newRand())[0], c.n, k)
		r := &region{}
		if err := r.add(p).open(make([]float32, c.n*m), packed, act, &Options{}); err != nil {
			t.Fatal(err)
		}
		if chunks := r.cut(2); chunks != c.chunks || r.tasks[0].rows != c.each*rows {
			t.Errorf("%d tiles, %d columns: %d chunks of %d rows, want %d of %d", c.tiles, c.n, chunks, r.tasks[0].rows, c.chunks, c.each*rows)
		}
	}
}
