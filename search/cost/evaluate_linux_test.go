package cost_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// BenchmarkEvaluation says what CPU time a search by the model takes for each neighbour of the first points of a space with some columns: on average by
// stage, and the median and the slowest in ten of all stages together. TMACC_HASHES names a file that gets a line for each point, with
// hashes of its selected code and of its estimate: equal before and after a change that only makes things faster.
func BenchmarkEvaluation(b *testing.B) {
	for _, on := range []string{"amd64/avx2", "amd64/avx512vbmi"} {
		for _, name := range []string{"w2", "w4-g32", "q4_k", "ternary", "iq4_nl"} {
			b.Run(on+"/"+name, func(b *testing.B) {
				p, err := ir.Named(name)
				if err != nil {
					b.Fatal(err)
				}
				e := evaluation{target: targets.ByName(on), b: b}
				if e.sp, err = space.For(p, e.target); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					for _, columns := range []int{1, 4, 8} {
						e.all(b, columns)
					}
				}
				e.report()
			})
		}
	}
}

// stages are what an evaluation takes time for.
var stages = []string{"point", "kernel", "vectorize", "select", "estimate"}

type evaluation struct {
	b      *testing.B
	sp     *space.Space
	target lower.Target
	last   time.Duration
	now    []time.Duration // of the stages of a point
	points [][]time.Duration
	instrs []int
}

// all evaluates all neighbours of the first point of some columns.
func (e *evaluation) all(b *testing.B, columns int) {
	first, err := e.sp.Columns(columns).First()
	if err != nil && columns > 1 {
		return // the registers are too few
	}
	if err != nil {
		b.Fatal(err)
	}
	e.last, e.now = used(), nil
	err = e.sp.Neighbours(first, func(rule string, x space.Point) bool {
		e.lap()
		note := e.point(x)
		e.points, e.now = append(e.points, e.now), nil
		if note != "" {
			note = fmt.Sprint(b.Name(), " ", rule, " ", hash(x.Trace().String()), " ", note, "\n")
			if _, err := hashes.WriteString(note); err != nil {
				b.Fatal(err)
			}
		}
		e.last = used()
		return true
	})
	if err != nil {
		b.Fatal(err)
	}
}

// hashes is the file of hashes.
var hashes, _ = os.OpenFile(os.Getenv("TMACC_HASHES"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)

func (e *evaluation) point(x space.Point) string {
	k, err := e.sp.Kernel(x)
	if e.lap(); err != nil {
		return said(err)
	}
	f, err := lower.Vectorize(k.Nest, "f")
	if e.lap(); err != nil {
		return said(err)
	}
	s, err := lower.SelectShort(e.b.Context(), e.target, f, cost.MostInstrs)
	if e.lap(); err != nil {
		return said(err)
	}
	p := cost.Run(context.Background(), k, s)
	e.lap()
	e.instrs = append(e.instrs, instructions(s))
	if hashes == nil {
		return ""
	}
	for i := range p.Stretches {
		p.Stretches[i].Loop = nil
	}
	return fmt.Sprintf("%d vectorized %s selected %s estimated %v %s", instructions(s), hash(f.String()), hash(s.Func.String()), p.Cycles, hash(fmt.Sprintf("%+v", p)))
}

// said is a line about an error, if lines are wanted.
func said(err error) string {
	if hashes == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

func hash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}

// lap ends a stage.
func (e *evaluation) lap() {
	now := used()
	e.now, e.last = append(e.now, now-e.last), now
}

// used is the CPU time of the process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report gives the benchmark its numbers.
func (e *evaluation) report() {
	var sums []time.Duration
	for i, stage := range stages {
		sum := time.Duration(0)
		for _, x := range e.points {
			if i < len(x) {
				sum += x[i]
			}
		}
		e.b.ReportMetric(milli(sum)/float64(len(e.points)), stage+"-ms")
	}
	for _, x := range e.points {
		sum := time.Duration(0)
		for _, t := range x {
			sum += t
		}
		sums = append(sums, sum)
	}
	slices.SortFunc(sums, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	slices.Sort(e.instrs)
	e.b.ReportMetric(milli(sums[len(sums)/2]), "median-ms")
	e.b.ReportMetric(milli(sums[len(sums)*9/10]), "most-ms")
	e.b.ReportMetric(float64(e.instrs[len(e.instrs)/2]), "instrs")
	e.b.ReportMetric(float64(e.instrs[len(e.instrs)*9/10]), "most-instrs")
	e.b.ReportMetric(float64(len(e.points)), "points")
}

func milli(d time.Duration) float64 { return d.Seconds() * 1000 }
