package random

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/template"
)

// TestRandomFormats runs the default schedules, for all widths of column blocks,
// of formats that no table has, on a target each. TMACC_SEED replays a run,
// TMACC_FORMATS says how many formats to try.
func TestRandomFormats(t *testing.T) { testFormats(t, native.All(t), 4) }

// TestRandomFormatsArm does the same on emulated CPUs.
func TestRandomFormatsArm(t *testing.T) { testFormats(t, native.Arms(t), 1) }

// testFormats tries n formats, or the number in TMACC_FORMATS.
func testFormats(t *testing.T, targets []lower.Target, n int) {
	if testing.Short() {
		n /= 10
	}
	n = drawn.Env(t, "TMACC_FORMATS", n)
	seed := drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	fmt.Fprintf(os.Stderr, "%s: TMACC_SEED=%d TMACC_FORMATS=%d\n", t.Name(), seed, n)
	rng := rand.New(rand.NewSource(int64(seed)))
	type work struct {
		p      ir.Problem
		target lower.Target
	}
	problems := make(chan work)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for x := range problems {
				if err := runDefault(x.target, x.p); err != nil {
					t.Errorf("%s: %v\n%+v", x.target.Machine().Name, err, x.p)
				}
			}
		})
	}
	for i := range n {
		problems <- work{ownFormat(rng, i), targets[rng.Intn(len(targets))]}
	}
	close(problems)
	wg.Wait()
}

// TestRandomFloatLayouts: the layout of any format that f32 activations have a usual sum for is one.
func TestRandomFloatLayouts(t *testing.T) {
	seed := drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("TMACC_SEED=%d", seed)
	rng := rand.New(rand.NewSource(int64(seed)))
	machine := amd64.ByName("avx2").Machine()
	for i := range 2000 {
		p, err := ir.Floats(ownFormat(rng, i%floatBits).Weight)
		if err != nil {
			continue
		}
		if _, err := schedule.Compile(p, template.Floats(p, machine.VecBits/32).Trace(p)); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// floatBits are the most bits of ownFormat with which f32 activations may have a usual sum.
const floatBits = 5

// ownFormat is a format with random levels.
func ownFormat(rng *rand.Rand, i int) ir.Problem {
	pick := func(xs ...int) int { return xs[rng.Intn(len(xs))] }
	w := format.Weight{Name: fmt.Sprintf("random%d", i), Bits: 1 + i%8, Scale: []format.DType{format.F16, format.F32, format.BF16}[rng.Intn(3)]}
	n := 1 << w.Bits
	if rng.Intn(2) == 0 {
		n = 2 + rng.Intn(n-1)
	}
	step := 1
	if n < 128 {
		step = pick(1, 1, 1, 2)
	}
	base := rng.Intn(256-step*(n-1)) - 128
	for c := range n {
		w.Levels = append(w.Levels, base+step*c)
	}
	switch rng.Intn(4) {
	case 0: // a codebook
		for c := range w.Levels {
			w.Levels[c] = rng.Intn(256) - 128
		}
	case 1: // falling
		for c := range w.Levels {
			w.Levels[c] = base + step*(n-1-c)
		}
	case 2: // two codes of one value
		w.Levels[rng.Intn(n)] = w.Levels[rng.Intn(n)]
	}
	w.Per = format.Per(rng.Intn(3))
	p := ir.Problem{}
	if w.Per == format.PerGroup {
		w.Group = pick(16, 32, 48, 64, 80, 96, 112, 128, 160, 256)
		w.Zero = rng.Intn(3) == 0
		w.Min = !w.Zero && rng.Intn(3) == 0
		if rng.Intn(3) == 0 {
			w.Super = w.Group * pick(1, 2, 3, 4, 8, 16)
			w.Scale = []format.DType{format.U8, format.I8}[rng.Intn(2)]
		}
		p.Act.Group = pick(0, 0, w.Group, 16, w.Unit(), 2*w.Unit())
	} else {
		p.Act.Group = pick(0, 0, 16, 48, 128)
	}
	if w.Bits <= 4 && rng.Intn(3) == 0 {
		addBooks(rng, &w, p.Act.Group)
	}
	p.Weight = w
	if f, err := ir.Floats(w); err == nil && rng.Intn(3) == 0 {
		return f
	}
	return p
}

// addBooks makes the levels of w the first of several books, each of random levels.
func addBooks(rng *rand.Rand, w *format.Weight, actGroup int) {
	codes := len(w.Levels)
	w.Books = 2 + rng.Intn(format.MaxBooks-1)
	for len(w.Levels) < w.Books*codes {
		w.Levels = append(w.Levels, rng.Intn(256)-128)
	}
	for {
		w.BookGroup = 16 * (1 + rng.Intn(16))
		alike := actGroup == 0 || actGroup%w.BookGroup == 0 || w.BookGroup%actGroup == 0
		if w.Group%w.BookGroup == 0 && alike {
			return
		}
	}
}

// runDefault runs the default schedules of p on one packed buffer's layout.
func runDefault(target lower.Target, p ir.Problem) error {
	uses, err := beam.Product(context.Background(), p, target)
	if err != nil {
		return err
	}
	var ks []*native.Kernel
	for _, u := range uses {
		k, err := native.Compile(target, p, u.Trace)
		if err != nil {
			return fmt.Errorf("%d columns: %w", u.Cols, err)
		}
		if len(ks) > 0 && k.Weights.Hash() != ks[0].Weights.Hash() {
			return fmt.Errorf("%d columns: another layout than %d columns", u.Cols, uses[0].Cols)
		}
		ks = append(ks, k)
	}
	unload, err := native.LoadAll(target, ks)
	if err != nil {
		return err
	}
	defer unload()
	rng := rand.New(rand.NewSource(1))
	for _, k := range ks {
		a := &attempt{Replay: check.Replay{Problem: p, Trace: k.Trace}, target: target, k: k}
		for _, kind := range []check.Kind{check.Uniform, check.Extreme, check.NotFinite} {
			c := a.shape(rng, kind)
			if err := k.Check(c); err != nil {
				return fmt.Errorf("%d columns, m %d n %d k %d, inputs of kind %d: %w\n%s", k.Cols, c.M, c.N, c.K, kind, err, a)
			}
		}
	}
	return nil
}
