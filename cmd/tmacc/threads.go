package main

import (
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

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

type threadsFlags struct {
	format, target string
	sizeFlags
	n               int
	threads, busy   int
	rounds          int
	markdown, quiet bool
}

func (c *cli) threads() *cobra.Command {
	var x threadsFlags
	cmd := &cobra.Command{
		Use: "threads", Args: between(0, 0),
		Short: "measure how threads share products, also beside busy processes",
		Long: `Measure products of one thread, of several as runtime.Options.Threads shares rows among
them, and of as many halves, thirds, ... of the rows, each on a thread that spins until
all are done: first alone, on CPUs of their own, then beside processes that keep CPUs busy. Weights come out of
memory. The ways alternate in short turns; times are of single products.`,
		Example: "  tmacc threads -busy 1\n  tmacc threads -format w2 -n 64 -markdown",
	}
	f := cmd.Flags()
	f.StringVar(&x.format, "format", "w4-g32", "weight format")
	f.StringVar(&x.target, "target", "host", "target")
	x.sizeFlags.add(f, 4096, 4096)
	f.IntVarP(&x.n, "n", "n", 1, "rows of activations")
	f.IntVar(&x.threads, "threads", goruntime.GOMAXPROCS(0), "threads")
	f.IntVar(&x.busy, "busy", 1, "busy processes")
	f.IntVar(&x.rounds, "rounds", 20, "turns of 0.2 s of each way")
	f.BoolVar(&x.markdown, "markdown", false, "print a table for a page")
	f.BoolVarP(&x.quiet, "quiet", "q", false, "no progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := x.sizeFlags.check(cmd.Flags()); err != nil {
			return err
		}
		return c.measureThreads(cmd.Context(), x)
	}
	return cmd
}

// busyProcess is the command that keeps a CPU busy until its input ends.
func (c *cli) busyProcess() *cobra.Command {
	return &cobra.Command{Use: "busy", Hidden: true, Args: between(0, 0), RunE: func(*cobra.Command, []string) error {
		var over atomic.Bool
		go func() {
			_, _ = io.Copy(io.Discard, c.in)
			over.Store(true)
		}()
		for !over.Load() {
		}
		return nil
	}}
}

// way is a way to share a product, and how long products took.
type way struct {
	name  string
	run   func(i int) error
	times []time.Duration
}

func (c *cli) measureThreads(ctx context.Context, x threadsFlags) error {
	for _, v := range []struct {
		flag        string
		value, most int
	}{{"n", x.n, 1 << 12}, {"threads", x.threads, 1 << 10}, {"rounds", x.rounds, 1 << 10}} {
		if v.value < 1 || v.value > v.most {
			return fmt.Errorf("-%s %d: want 1 to %d", v.flag, v.value, v.most)
		}
	}
	if x.busy < 0 || x.busy > 1<<10 {
		return fmt.Errorf("-busy %d: want 0 to %d", x.busy, 1<<10)
	}
	if err := mapping("threads"); err != nil {
		return err
	}
	p, done, err := c.threadsProduct(ctx, x)
	if err != nil {
		return err
	}
	defer done()
	bench, err := newThreadsBench(p, x)
	if err != nil {
		return err
	}
	defer bench.close()
	bar := newProgress(c.err, x.quiet)
	defer bar.done()
	t := table{head: []string{"busy processes", "sharing", "threads", "mean us", "median us", "99 % us", "times one thread"}, wide: -1}
	for _, busy := range slices.Compact([]int{0, x.busy}) {
		ways := bench.ways(x)
		if err := bench.measure(ctx, ways, busy, x.rounds, bar); err != nil {
			return err
		}
		one := mean(ways[0].times)
		for i, w := range ways {
			slices.Sort(w.times)
			threads := x.threads
			if i == 0 {
				threads = 1
			}
			n := len(w.times)
			t.add(busy, w.name, threads, micros(mean(w.times)), micros(w.times[n/2]), micros(w.times[n*99/100]), fmt.Sprintf("%.2f", float64(mean(w.times))/float64(one)))
		}
	}
	bar.done()
	if x.markdown {
		t.markdown(c.out)
		return nil
	}
	t.print(c.out, widthOf(c.out))
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

// threadsProduct compiles the product to measure.
func (c *cli) threadsProduct(ctx context.Context, x threadsFlags) (*runtime.Product, func(), error) {
	problem, err := c.product(x.format, actFlags{actInt8, usualGroup})
	if err != nil {
		return nil, nil, err
	}
	t, err := targetHere(x.target)
	if err != nil {
		return nil, nil, err
	}
	built, err := buildTarget(ctx, problem, t, nil)
	if err != nil {
		return nil, nil, err
	}
	code, err := live.Assemble(problem, built)
	if err != nil {
		return nil, nil, err
	}
	p, err := code.Product()
	if err != nil {
		code.Close()
		return nil, nil, err
	}
	return p, func() { code.Close() }, nil
}

// threadsBench is a matrix in many copies, and what it is multiplied by.
type threadsBench struct {
	p      *runtime.Product
	copies []*runtime.Buffer
	act    []byte
	dst    []float32
	halves *halves
}

func newThreadsBench(p *runtime.Product, x threadsFlags) (*threadsBench, error) {
	b := &threadsBench{p: p, dst: make([]float32, x.n*x.m)}
	size, err := p.PackedSize(x.m, x.k)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	src, err := timing.Random(p.Weight(), x.m, x.k, rng)
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
		} else if err := p.Pack(buffer.Bytes(), src, x.m, x.k); err != nil {
			return nil, err
		}
	}
	if size, err = p.ActSize(x.n, x.k); err != nil {
		return nil, err
	}
	in := make([]float32, x.n*x.k)
	for i := range in {
		in[i] = timing.Normal(rng)
	}
	b.act, b.halves = make([]byte, size), newHalves(p, x)
	return b, p.PrepareAct(b.act, in, x.n, x.k)
}

func (b *threadsBench) close() {
	b.halves.end()
	for _, c := range b.copies {
		c.Close()
	}
}

func (b *threadsBench) packed(i int) []byte { return b.copies[i%len(b.copies)].Bytes() }

func (b *threadsBench) ways(x threadsFlags) []*way {
	gemm := func(threads int) func(int) error {
		return func(i int) error {
			return b.p.Gemm(b.dst, b.packed(i), b.act, 0, x.m, runtime.Options{Threads: threads})
		}
	}
	return []*way{
		{name: "none", run: gemm(1)},
		{name: "runtime", run: gemm(x.threads)},
		{name: "equal parts, spinning", run: func(i int) error { return b.halves.gemm(b.dst, b.packed(i), b.act) }},
	}
}

// measure lets ways take turns, beside busy processes.
func (b *threadsBench) measure(ctx context.Context, ways []*way, busy, rounds int, bar *progress) error {
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
		bar.step("beside %d busy processes: turn %d of %d", busy, round+1, rounds)
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

// halves is the simplest way to share a product, for comparison: as many equal parts
// as threads, which spin until there is work and, for its end, until all are done.
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

func newHalves(p *runtime.Product, x threadsFlags) *halves {
	h := &halves{p: p}
	for i := range x.threads {
		h.cuts = append(h.cuts, x.m*i/x.threads/p.Step()*p.Step())
	}
	h.cuts = append(h.cuts, x.m)
	h.number.Store(-1)
	for i := 1; i < x.threads; i++ {
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
