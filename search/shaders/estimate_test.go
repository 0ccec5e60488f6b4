package shaders

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/drawn"
)

// timed is a line of docs/lab/card.jsonl: what a schedule took on a device, in ns, by the shape of the product, MxKxN.
type timed struct {
	Device, Product, Name string
	Ns                    map[string]float64
	Trace                 schedule.Trace
	selected              *Selected
}

// readTimed reads the lines of products, of all if there are none.
func readTimed(t *testing.T, products ...string) (all []*timed) {
	f, err := os.Open("../../docs/lab/card.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		x := new(timed)
		if err := json.Unmarshal(lines.Bytes(), x); err != nil {
			t.Fatal(err)
		}
		if len(products) == 0 || slices.Contains(products, x.Product) {
			all = append(all, x)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	room := make(chan bool, runtime.GOMAXPROCS(0))
	for _, x := range all {
		wait.Go(func() {
			room <- true
			defer func() { <-room }()
			var err error
			if x.selected, err = selectTimed(t.Context(), x); err != nil {
				t.Errorf("%s %s: %v", x.Product, x.Name, err)
			}
		})
	}
	wait.Wait()
	return all
}

func selectTimed(ctx context.Context, x *timed) (s *Selected, err error) {
	p, err := ir.Named(x.Product)
	if err != nil {
		return nil, err
	}
	k, err := schedule.Compile(p, x.Trace)
	if err != nil {
		return nil, err
	}
	speeds, _ := spirv.SpeedsCalled(x.Device)
	for _, name := range []string{"spirv/dot", "spirv/coop"} {
		target, _ := spirv.ByName(name)
		if s, err = Select(ctx, target.With(speeds), k); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// large is the shape of the most schedules.
const large = "16384x16384x1"

// at is a product of a shape, MxKxN.
type at struct{ product, shape string }

func (x at) purpose(t *testing.T) (p tune.Purpose) {
	if _, err := fmt.Sscanf(x.shape, "%dx%dx%d", &p.M, &p.K, &p.N); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRanking holds the model against the times of schedules on a card: of two schedules of a product of one shape, where one took at
// least a tenth longer, the estimates must say which one. The schedule that the model finds fastest may take little longer than the best.
func TestRanking(t *testing.T) {
	const decided, least, factor, regret = 1.1, 0.8, 1.15, 1.1
	some := map[at][]*timed{}
	for _, x := range readTimed(t) {
		for shape := range x.Ns {
			some[at{x.Product, shape}] = append(some[at{x.Product, shape}], x)
		}
	}
	var right, pairs, chosen int
	var off, lost float64
	for where, xs := range some {
		p, best := where.purpose(t), xs[0]
		estimate := map[*timed]float64{}
		for _, x := range xs {
			estimate[x] = x.selected.Estimate(p)
			if off += math.Abs(math.Log(estimate[x] / x.Ns[where.shape])); estimate[x] < estimate[best] {
				best = x
			}
		}
		for _, x := range xs {
			for _, y := range xs {
				if x.Ns[where.shape] >= decided*y.Ns[where.shape] {
					if pairs++; estimate[x] > estimate[y] {
						right++
					}
				}
			}
		}
		chosen += len(xs)
		fastest := slices.MinFunc(xs, func(a, b *timed) int { return cmp.Compare(a.Ns[where.shape], b.Ns[where.shape]) })
		lost += math.Log(best.Ns[where.shape] / fastest.Ns[where.shape])
		if testing.Verbose() {
			t.Logf("%v: of %d, %s takes %.2f times as long as %s", where, len(xs), best.Name, best.Ns[where.shape]/fastest.Ns[where.shape], fastest.Name)
		}
	}
	share := float64(right) / float64(pairs)
	off, lost = math.Exp(off/float64(chosen)), math.Exp(lost/float64(len(some)))
	t.Logf("%d of %d pairs are right, %.3f; estimates are off by a factor of %.2f; chosen schedules take %.3f of the best", right, pairs, share, off, lost)
	if pairs < 1000 || share < least || off > factor || lost > regret {
		t.Errorf("want %.2f right, a factor of %.2f and %.2f of the best", least, factor, regret)
	}
}

// TestDefaultOnCard: by the speeds of the card, the model finds the default schedule of one column about as fast as the fastest schedule
// that was measured there.
func TestDefaultOnCard(t *testing.T) {
	const most = 1.1
	target, _ := spirv.ByName("spirv")
	for _, product := range drawn.Some(drawn.New(t), 3, []string{"w1", "w2", "w4", "w2-g64", "w4-g128", "w4-g32"}) {
		all := readTimed(t, product)
		speeds, _ := spirv.SpeedsCalled(all[0].Device)
		p, err := ir.Named(product)
		if err != nil {
			t.Fatal(err)
		}
		uses, err := Default(t.Context(), p, target.With(speeds))
		if err != nil {
			t.Fatal(err)
		}
		chosen, err := selectTimed(t.Context(), &timed{Device: all[0].Device, Product: product, Trace: schedule.Unquantized(uses[0].Trace)})
		if err != nil {
			t.Fatal(err)
		}
		fastest := slices.MinFunc(slices.DeleteFunc(all, func(x *timed) bool { return x.Ns[large] == 0 }), func(a, b *timed) int { return cmp.Compare(a.Ns[large], b.Ns[large]) })
		x := at{product, large}.purpose(t)
		if have, want := chosen.Estimate(x), fastest.selected.Estimate(x); have > most*want {
			t.Errorf("%s: the default takes %.0f ns by the model, %s %.0f", product, have, fastest.Name, want)
		}
	}
}

// TestTilesOnCard: by many columns, a target with cooperative matrices has a default schedule by these, which the model finds as fast as the
// fastest schedule that was measured on the card.
func TestTilesOnCard(t *testing.T) {
	const product, shape = "w4", "4096x14336x512"
	target, _ := spirv.ByName("spirv/coop")
	var fastest *timed
	for _, x := range readTimed(t, product) {
		if ns := x.Ns[shape]; ns > 0 && (fastest == nil || ns < fastest.Ns[shape]) {
			fastest = x
		}
	}
	speeds, _ := spirv.SpeedsCalled(fastest.Device)
	x, p := at{product, shape}.purpose(t), fastest.selected.Problem
	uses, err := Default(t.Context(), p, target.With(speeds), x.N)
	if err != nil || len(uses) != 1 {
		t.Fatalf("%d schedules, %v", len(uses), err)
	}
	chosen, err := selectTimed(t.Context(), &timed{Device: fastest.Device, Product: product, Trace: schedule.Unquantized(uses[0].Trace)})
	if err != nil {
		t.Fatal(err)
	}
	if have, want := chosen.Estimate(x), fastest.selected.Estimate(x); have > want || chosen.Cols < fewestOfTiles {
		t.Errorf("the default takes %.0f ns by the model, %s %.0f: %v", have, fastest.Name, want, uses[0].Trace)
	}
	if uses, err := Default(t.Context(), p, target.With(speeds), 1, x.N); err != nil || uses[0].Cols != 1 {
		t.Errorf("products of one column and of many have %v, %v", uses, err)
	}
}
