package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

type threadsFlags struct {
	format, target        string
	m, k, n               int
	threads, busy, rounds int
}

// threads measures three ways to share a product, and prints a table: one thread; several threads, among which runtime.Options.Threads
// shares rows; and the same number of equal parts of the rows, each on a thread that spins until all are done. It measures them alone, on
// CPUs of their own, then beside processes that keep CPUs busy. Weights come out of memory. The ways take short turns. Times
// are of single products.
func (x *lab) threads(ctx context.Context, args []string) error {
	var o threadsFlags
	f := x.flags("threads")
	f.StringVar(&o.format, "format", "w4-g32", "weight format")
	f.StringVar(&o.target, "target", "host", "target")
	f.IntVar(&o.m, "m", 4096, "rows of the matrix")
	f.IntVar(&o.k, "k", 4096, "columns of the matrix")
	f.IntVar(&o.n, "n", 1, "rows of activations")
	f.IntVar(&o.threads, "threads", goruntime.GOMAXPROCS(0), "threads")
	f.IntVar(&o.busy, "busy", 1, "busy processes")
	f.IntVar(&o.rounds, "rounds", 20, "turns of 0.2 s of each way")
	if err := x.parse(f, args, 0); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := jit.Mappable(); err != nil {
		return err
	}
	return x.measureThreads(ctx, o)
}

func (o threadsFlags) check() error {
	const side = 1 << 24
	err := cmp.Or(between("m", o.m, 1, side), between("k", o.k, 1, side), between("n", o.n, 1, 1<<12),
		between("threads", o.threads, 1, 1<<10), between("rounds", o.rounds, 1, 1<<10), between("busy", o.busy, 0, 1<<10))
	if err == nil && o.m > timing.MaxMatrix/o.k {
		err = fmt.Errorf("-m %d -k %d: at most %d weights are measured", o.m, o.k, timing.MaxMatrix)
	}
	return err
}

// busy keeps a CPU busy until its input ends.
func (x *lab) busy(context.Context, []string) error {
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, x.in)
		over.Store(true)
	}()
	for !over.Load() {
	}
	return nil
}

// way is a way to share a product, and the times of products.
type way struct {
	name  string
	run   func(i int) error
	times []time.Duration
}

func (x *lab) measureThreads(ctx context.Context, o threadsFlags) error {
	s := &bench.Suite{}
	defer s.Close()
	p, err := addThreadsProduct(ctx, s, o)
	if err != nil {
		return err
	}
	b, err := newThreadsBench(p, o)
	if err != nil {
		return err
	}
	defer b.close()
	var rows []string
	for _, busy := range slices.Compact([]int{0, o.busy}) {
		ways := b.ways(o)
		if err := x.takeTurns(ctx, b, ways, busy, o.rounds); err != nil {
			return err
		}
		one := mean(ways[0].times)
		for i, w := range ways {
			slices.Sort(w.times)
			threads := o.threads
			if i == 0 {
				threads = 1
			}
			n := len(w.times)
			rows = append(rows, fmt.Sprintf("| %d | %s | %d | %s | %s | %s | %.2f |\n", busy, w.name, threads,
				micros(mean(w.times)), micros(w.times[n/2]), micros(w.times[n*99/100]), float64(mean(w.times))/float64(one)))
		}
	}
	fmt.Fprint(x.out, "| busy processes | sharing | threads | mean us | median us | 99 % us | times one thread |\n| ---: | --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, row := range rows {
		fmt.Fprint(x.out, row)
	}
	return nil
}

func mean(times []time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, t := range times {
		sum += t
	}
	return sum / time.Duration(max(len(times), 1))
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/1000) }

// addThreadsProduct compiles the product to measure.
func addThreadsProduct(ctx context.Context, s *bench.Suite, o threadsFlags) (*runtime.Product, error) {
	p, err := problem(o.format)
	if err != nil {
		return nil, err
	}
	t, err := targetHere(o.target)
	if err != nil {
		return nil, err
	}
	uses, err := beam.Product(ctx, p, t)
	if err != nil {
		return nil, err
	}
	if err := s.Add(ctx, p, t, uses, false); err != nil {
		return nil, err
	}
	return s.Subjects[0].Product, nil
}

// threadsBench is a matrix in many copies, and the activations that it is multiplied by.
type threadsBench struct {
	p      *runtime.Product
	copies []*runtime.Buffer
	act    []byte
	dst    []float32
	halves *halves
}

func newThreadsBench(p *runtime.Product, o threadsFlags) (*threadsBench, error) {
	b := &threadsBench{p: p, dst: make([]float32, o.n*o.m)}
	size, err := p.PackedSize(o.m, o.k)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	src, err := timing.Random(p.Weight(), o.m, o.k, rng)
	if err != nil {
		return nil, err
	}
	for range max(2, measure.WorkingSet(bench.DRAMBytes(timing.ThisHost()), measure.ModeDRAM, size)/size) {
		buffer, err := runtime.NewBuffer(size)
		if err != nil {
			return nil, err
		}
		b.copies = append(b.copies, buffer)
		if len(b.copies) > 1 {
			copy(buffer.Bytes(), b.copies[0].Bytes())
		} else if err := p.Pack(buffer.Bytes(), src, o.m, o.k); err != nil {
			return nil, err
		}
	}
	if size, err = p.ActSize(o.n, o.k); err != nil {
		return nil, err
	}
	in := make([]float32, o.n*o.k)
	for i := range in {
		in[i] = timing.Normal(rng)
	}
	b.act, b.halves = make([]byte, size), newHalves(p, o)
	return b, p.PrepareAct(b.act, in, o.n, o.k)
}

func (b *threadsBench) close() {
	b.halves.end()
	for _, c := range b.copies {
		c.Close()
	}
}

func (b *threadsBench) packed(i int) []byte { return b.copies[i%len(b.copies)].Bytes() }

func (b *threadsBench) ways(o threadsFlags) []*way {
	gemm := func(threads int) func(int) error {
		return func(i int) error {
			return b.p.Gemm(b.dst, b.packed(i), b.act, 0, o.m, runtime.Options{Threads: threads})
		}
	}
	return []*way{
		{name: "none", run: gemm(1)},
		{name: "runtime", run: gemm(o.threads)},
		{name: "equal parts, spinning", run: func(i int) error { return b.halves.gemm(b.dst, b.packed(i), b.act) }},
	}
}

// takeTurns lets ways take turns, beside busy processes.
func (x *lab) takeTurns(ctx context.Context, b *threadsBench, ways []*way, busy, rounds int) error {
	stop, err := startBusy(busy)
	if err != nil {
		return err
	}
	defer stop()
	if busy == 0 { // on CPUs of their own: else two threads may stay on one, beside background tasks
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		defer timing.Spread()()
	}
	for round := range rounds {
		x.step("beside %d busy processes: turn %d of %d", busy, round+1, rounds)
		for _, w := range ways {
			for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
				began := time.Now()
				if err := w.run(len(w.times)); err != nil {
					return err
				}
				w.times = append(w.times, time.Since(began))
			}
			b.halves.rest()
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// startBusy starts processes that each keep a CPU busy until stop.
func startBusy(n int) (stop func(), err error) {
	var ends []io.Closer
	var all []*exec.Cmd
	stop = func() {
		for i, end := range ends {
			end.Close()
			_ = all[i].Wait()
		}
	}
	for range n {
		self, err := os.Executable()
		if err != nil {
			return stop, err
		}
		cmd := exec.Command(self, "busy")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
		end, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			stop()
			return func() {}, err
		}
		ends, all = append(ends, end), append(all, cmd)
	}
	return stop, nil
}

// halves is the simplest way to share a product, for comparison. Each thread has an equal part of the rows. It spins until there is
// work, and spins at the end until all parts are done.
type halves struct {
	p      *runtime.Product
	cuts   []int // rows where parts begin, and the end
	dst    []float32
	packed []byte
	act    []byte
	number atomic.Int64 // of the product; negative: none comes for a while; over: no more
	done   atomic.Int64 // parts
}

const over = -1 << 62

func newHalves(p *runtime.Product, o threadsFlags) *halves {
	h := &halves{p: p}
	for i := range o.threads {
		h.cuts = append(h.cuts, o.m*i/o.threads/p.Step()*p.Step())
	}
	h.cuts = append(h.cuts, o.m)
	h.number.Store(-1)
	for i := 1; i < o.threads; i++ {
		go h.work(i)
	}
	return h
}

func (h *halves) work(part int) {
	for last := int64(0); ; {
		switch n := h.number.Load(); {
		case n == over:
			return
		case n < 0:
			time.Sleep(time.Millisecond)
		case n != last:
			last = n
			_ = h.p.Gemm(h.dst, h.packed, h.act, h.cuts[part], h.cuts[part+1], runtime.Options{})
			h.done.Add(1)
		}
	}
}

// gemm does the first part and waits for the others.
func (h *halves) gemm(dst []float32, packed, act []byte) error {
	h.dst, h.packed, h.act = dst, packed, act
	h.done.Store(0)
	n := h.number.Load()
	if n < 0 {
		n = -n
	}
	h.number.Store(n + 1)
	err := h.p.Gemm(dst, packed, act, h.cuts[0], h.cuts[1], runtime.Options{})
	for h.done.Load() != int64(len(h.cuts)-2) {
	}
	return err
}

// rest lets the threads sleep until the next product.
func (h *halves) rest() { h.number.Store(-max(h.number.Load(), 1)) }

func (h *halves) end() { h.number.Store(over) }
