package lower

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
)

// columnWriter writes functions with products of rows and columns that columns may pair, and such that it must not.
type columnWriter struct {
	rng                         *rand.Rand
	text                        strings.Builder
	next, loops                 int
	off                         int   // of the next store
	rows, columns, zeros, fresh []int // registers of one value
}

func (w *columnWriter) line(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

// define writes a new register.
func (w *columnWriter) define(format string, args ...any) int {
	w.next++
	w.line("v%d:%s", w.next-1, fmt.Sprintf(format, args...))
	return w.next - 1
}

func (w *columnWriter) pick(regs ...int) int { return regs[w.rng.Intn(len(regs))] }

func (w *columnWriter) store(r int, strides string) {
	w.line("store out+%d%s v%d", w.off, strides, r)
	w.off += 16
}

// body is of a loop that carries these sums; strides are for stores in it.
func (w *columnWriter) body(depth int, carried []int, strides string) {
	rows, columns, fresh := w.rows, w.columns, w.fresh
	var own []int // sums that loops in this body may carry
	for range 3 + w.rng.Intn(10) {
		sums := slices.Concat(carried, own, w.fresh)
		switch w.rng.Intn(9) {
		case 0:
			w.rows = append(slices.Clone(w.rows), w.define("i8x16 = load w+%d", 16*w.rng.Intn(4)))
		case 1:
			half := w.define("i8x8 = load x+%d", 8*w.rng.Intn(4))
			w.columns = append(slices.Clone(w.columns), w.define("i8x16 = join v%d v%[1]d", half))
		case 2, 3:
			own = append(own, w.define("i32x4 = splat %d", w.rng.Intn(5)/4))
		case 4:
			if len(sums) > 0 {
				from := append(slices.Clone(sums), w.zeros...)
				w.fresh = append(slices.Clone(w.fresh), w.define("i32x4 = dot4 v%d v%d v%d", w.pick(from...), w.pick(w.rows...), w.pick(w.columns...)))
			}
		case 5:
			if len(sums) > 1 {
				w.store(w.define("i32x4 = addpairs v%d v%d", w.pick(sums...), w.pick(sums...)), strides)
			}
		case 6:
			if all := append(slices.Clone(carried), own...); depth < 2 && len(all) >= 4 {
				some := slices.DeleteFunc(all, func(int) bool { return w.rng.Intn(6) == 0 })
				names := ""
				if len(some) > 0 {
					names = " carry"
				}
				for _, r := range some {
					names += fmt.Sprintf(" v%d", r)
				}
				l := w.loops
				w.loops++
				w.line("loop l%d %s%s", l, []string{"2", "n"}[w.rng.Intn(2)], names)
				w.body(depth+1, some, strides+fmt.Sprintf(" l%d*%d", l, 4096>>(5*depth)))
				w.line("end")
			}
		default:
			w.columnsOf(carried, strides)
		}
	}
	for i := 0; i+1 < len(own) && w.rng.Intn(3) > 0; i += 2 {
		w.store(w.define("i32x4 = addpairs v%d v%d", own[i], own[i+1]), strides)
	}
	w.rows, w.columns, w.fresh = rows, columns, fresh
}

// columnsOf is products of two columns, in sums that the loop carries or of their own.
func (w *columnWriter) columnsOf(carried []int, strides string) {
	sums := []int{w.pick(w.zeros...), w.pick(w.zeros...), w.pick(w.zeros...), w.pick(w.zeros...)}
	in := len(carried) >= 4 && w.rng.Intn(3) > 0
	if in {
		sums = slices.Clone(carried[:4])
	} else if len(carried) > 0 && w.rng.Intn(6) == 0 {
		sums[w.rng.Intn(4)] = w.pick(carried...)
	}
	rows := []int{w.pick(w.rows...), w.pick(w.rows...)}
	columns := []int{w.pick(w.columns...), w.pick(w.columns...)}
	for range 1 + w.rng.Intn(2) {
		order := []int{0, 1, 2, 3}
		if w.rng.Intn(2) == 0 {
			order = w.rng.Perm(4)
		}
		for _, i := range order {
			if text := fmt.Sprintf("i32x4 = dot4 v%d v%d v%d", sums[i], rows[i%2], columns[i/2]); in && w.rng.Intn(20) > 0 {
				w.line("v%d:%s", sums[i], text)
			} else {
				sums[i] = w.define("%s", text)
			}
		}
		slices.Reverse(rows)
	}
	if in && w.rng.Intn(3) > 0 {
		return // read behind the loop
	}
	for i := 0; i < 4; i += 2 {
		if w.rng.Intn(4) == 0 {
			sums[i] = w.define("i32x4 = bitcast v%d", sums[i])
		}
		w.store(w.define("i32x4 = addpairs v%d v%d", sums[i], sums[i+1]), strides)
	}
}

// Random functions mean the same after columns, which changes many.
func TestColumnsRandom(t *testing.T) {
	x := newTable(newToy(toyProducts | toyDotI))
	changed := 0
	for seed := range int64(500) {
		w := &columnWriter{rng: rand.New(rand.NewSource(seed)), next: 13, zeros: []int{0}, rows: []int{1, 2}, columns: []int{4, 6}, loops: 1}
		w.line("func f(w ptr, x ptr, out ptr, n int)\nv0:i32x4 = splat 0\nv1:i8x16 = load w+0\nv2:i8x16 = load w+16")
		w.line("v3:i8x8 = load x+0\nv4:i8x16 = join v3 v3\nv5:i8x8 = load x+8\nv6:i8x16 = join v5 v5")
		for r := 7; r < 11; r++ {
			w.line("v%d:i32x4 = splat 0", r)
		}
		w.line("loop l0 n carry v7 v8 v9 v10")
		w.body(1, []int{7, 8, 9, 10}, " l0*4096")
		w.line("end")
		w.store(w.define("i32x4 = addpairs v7 v8"), "")
		w.store(w.define("i32x4 = addpairs v9 v10"), "")
		w.body(0, nil, "")
		f, err := vir.Parse(w.text.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, w.text.String())
		}
		if vir.Verify(f) != nil {
			continue // a sum that a loop around should carry too
		}
		g, err := x.columns(f)
		if err != nil {
			t.Fatal(err)
		}
		if g.String() == f.String() {
			continue
		}
		changed++
		for _, n := range []int64{0, 3} {
			want, got := evalColumns(t, f, n), evalColumns(t, g, n)
			if !bytes.Equal(want, got) {
				t.Fatalf("seed %d, n %d: another result of\n%s\nafter columns\n%s", seed, n, f, g)
			}
		}
	}
	if changed < 100 {
		t.Errorf("%d functions changed", changed)
	}
	t.Logf("%d functions changed", changed)
}

func evalColumns(t *testing.T, f *vir.Func, n int64) []byte {
	t.Helper()
	rng := rand.New(rand.NewSource(1))
	w, x, out := make([]byte, 64), make([]byte, 32), make([]byte, 1<<15)
	rng.Read(w)
	rng.Read(x)
	if err := vir.Eval(f, []vir.Arg{{Buf: w}, {Buf: x}, {Buf: out}, {Int: n}}); err != nil {
		t.Fatalf("%v\n%s", err, f)
	}
	return out
}
