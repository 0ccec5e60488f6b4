package nest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// The tests build nests of one small product, out[m] = sum over k of
// w[m, k]*a[k], in the ways a schedule can arrange it.
var (
	tw   = &ir.Tensor{Name: "w", Elem: format.I8, Dims: []string{"m", "k"}}
	ta   = &ir.Tensor{Name: "a", Elem: format.I8, Dims: []string{"k"}}
	tout = &ir.Tensor{Name: "out", Elem: format.I32, Dims: []string{"m"}}
	acc  = &ir.Tensor{Name: "acc", Elem: format.I32}
	part = &ir.Tensor{Name: "part", Elem: format.I32}
	tmpA = &ir.Tensor{Name: "x", Elem: format.I32}
)

func axis(name string) ir.Expr { return ir.Axis{Name: name} }

func i32(t *ir.Tensor, index ...ir.Expr) ir.Expr {
	return ir.Cast{T: format.I32, X: ir.Read{T: t, Index: index}}
}

// dot is a plan of the product with one accumulator around loop at.
func dot(at string, loops ...Loop) *Plan {
	return &Plan{Name: "out", Loops: loops, Reduce: map[string]bool{"k": true},
		Body:         ir.Binary{Op: ir.Mul, X: i32(tw, axis("m"), axis("k")), Y: i32(ta, axis("k"))},
		Accumulators: []Accumulator{{Temp: acc, Op: ir.Add, At: at}},
		Out:          tout, Index: []ir.Expr{axis("m")}, Final: ir.Read{T: acc}}
}

// below adds an accumulator under the lowest.
func (p *Plan) below(at string, keep ...Keep) *Plan {
	p.Accumulators = append(p.Accumulators, Accumulator{Temp: part, Op: ir.Add, At: at, Flush: ir.Read{T: part}, Keep: keep})
	return p
}

// beside counts the flushes into the first accumulator in another one, and adds the count
// times 0 to the result.
func (p *Plan) beside() *Plan {
	count := &ir.Tensor{Name: "count", Elem: format.I32}
	p.Accumulators[0].Beside = &Beside{Temp: count, Each: ir.I32(1)}
	p.Final = ir.Binary{Op: ir.Add, X: p.Final, Y: ir.Binary{Op: ir.Mul, X: ir.Read{T: count}, Y: ir.I32(0)}}
	return p
}

// apart is beside with a copy of a loop.
func (p *Plan) apart(loop string) *Plan {
	p.beside().Accumulators[0].Beside.Apart = loop
	return p
}

// inMemory keeps the first accumulator in memory.
func (p *Plan) inMemory() *Plan {
	p.Accumulators[0].InMemory = true
	return p
}

func m(n int, k Kind) Loop { return Loop{Name: "m", Root: "m", Coef: 1, N: n, Kind: k} }
func k(n int, k Kind) Loop { return Loop{Name: "k", Root: "k", Coef: 1, N: n, Kind: k} }
func ko(by, n int) Loop    { return Loop{Name: "ko", Root: "k", Coef: by, N: n} }
func ki(n int, k Kind) Loop {
	return Loop{Name: "ki", Root: "k", Coef: 1, N: n, Kind: k}
}

// nestOf builds p for matrices of columns columns.
func nestOf(t *testing.T, p *Plan, columns int) *Nest {
	t.Helper()
	body, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	n := &Nest{Name: p.Name, Loops: p.Loops, Params: []string{"w", "a", "out"}, Body: body, Buffers: map[string]Buffer{
		"w":   &Array{Memory: Memory{Tensor: tw, Param: "w"}, Strides: []int{columns, 1}},
		"a":   &Array{Memory: Memory{Tensor: ta, Param: "a"}, Strides: []int{1}},
		"out": &Array{Memory: Memory{Tensor: tout, Param: "out"}, Strides: []int{4}},
	}}
	for _, l := range p.Loops {
		if l.N == 0 {
			n.Counts = append(n.Counts, l.Name)
			n.Params = append(n.Params, CountParam(l))
		}
	}
	return n
}

func TestBuild(t *testing.T) {
	scaled := dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Unrolled)).below("ko",
		Keep{Name: "class", N: 2, Value: ir.Binary{Op: ir.And, X: axis("ki"), Y: ir.I32(1)}})
	staged := dot("ko", m(4, Vector), ko(2, 3), ki(2, Unrolled))
	staged.Body = ir.Binary{Op: ir.Mul, X: i32(tw, axis("m"), axis("k")), Y: ir.Read{T: tmpA}}
	staged.Staged = []Staged{{Temp: tmpA, At: "ko", Value: i32(ta, axis("k"))}}
	largest := dot("k", m(2, Serial), k(5, Serial))
	largest.Accumulators[0].Op, largest.Accumulators[0].Init = ir.MaxS, ir.I32(-1<<31)

	for _, c := range []struct {
		name string
		p    *Plan
		rows int
		cols int
		max  bool
		want string
	}{
		{"plain", dot("k", m(3, Serial), k(5, Serial)), 3, 5, false, `
nest out(w, a, out)
  for m 3
    acc[] = 0
    for k 5
      acc[] += (i32(w[m, k]) * i32(a[k]))
    out[m] = acc[]
`},
		// The output loop inside the reduction: an accumulator for each lane.
		{"vector", dot("k", k(0, Serial), m(4, Vector)), 4, 6, false, `
nest out(w, a, out, count.k)
  vector m 4
    acc[m] = 0
  for k K/1
    vector m 4
      acc[m] += (i32(w[m, k]) * i32(a[k]))
  vector m 4
    out[m] = acc[m]
`},
		{"outer", dot("k", m(0, Outer), k(5, Serial)), 1, 5, false, `
nest out(w, a, out, count.m)
  outer m M/1
    acc[] = 0
    for k 5
      acc[] += (i32(w[m, k]) * i32(a[k]))
    out[m] = acc[]
`},
		{"split", dot("ko", m(2, Unrolled), ko(4, 0), ki(4, Dot)), 2, 8, false, `
nest out(w, a, out, count.ko)
where k = 4*ko + 1*ki
  unroll m 2
    acc[] = 0
    for ko K/4
      dot ki 4
        acc[] += (i32(w[m, k]) * i32(a[k]))
    out[m] = acc[]
`},
		{"beside", dot("ko", m(2, Vector), ko(4, 2), ki(4, Serial)).below("ki").beside(), 2, 8, false, `
nest out(w, a, out)
where k = 4*ko + 1*ki
  vector m 2
    acc[] = 0
    count[] = 0
    for ko 2
      part[] = 0
      for ki 4
        part[] += (i32(w[m, k]) * i32(a[k]))
      acc[] += part[]
      count[] += 1
    out[m] = (acc[] + (count[] * 0))
`},
		// rfactor: an accumulator for each lane of the reduction.
		{"rfactor", dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Vector)).below("ko", Keep{Name: "ki"}), 2, 8, false, `
nest out(w, a, out)
where k = 4*ko + 1*ki
  unroll m 2
    acc[] = 0
    vector ki 4
      part[ki] = 0
    for ko 2
      vector ki 4
        part[ki] += (i32(w[m, k]) * i32(a[k]))
    vector ki 4
      acc[] += part[ki]
    out[m] = acc[]
`},
		// widen_every: the lower accumulator is flushed after every run of ki.
		{"widen", dot("ko", ko(3, 2), m(2, Vector), ki(3, Serial)).below("ki"), 2, 6, false, `
nest out(w, a, out)
where k = 3*ko + 1*ki
  vector m 2
    acc[m] = 0
  for ko 2
    vector m 2
      part[] = 0
      for ki 3
        part[] += (i32(w[m, k]) * i32(a[k]))
      acc[m] += part[]
  vector m 2
    out[m] = acc[m]
`},
		// One accumulator for each class of ki.
		{"classes", scaled, 2, 8, false, `
nest out(w, a, out)
where k = 4*ko + 1*ki
  unroll m 2
    acc[] = 0
    unroll class 2
      part[class] = 0
    for ko 2
      unroll ki 4
        part[(ki & 1)] += (i32(w[m, k]) * i32(a[k]))
    unroll class 2
      acc[] += part[class]
    out[m] = acc[]
`},
		// A staged value is indexed by the loops below it that it depends on.
		{"staged", func() *Plan { staged.Loops = []Loop{ko(2, 3), m(4, Vector), ki(2, Unrolled)}; return staged }(), 4, 6, false, `
nest out(w, a, out)
where k = 2*ko + 1*ki
  vector m 4
    acc[m] = 0
  for ko 3
    unroll ki 2
      x[ki] = i32(a[k])
    vector m 4
      unroll ki 2
        acc[m] += (i32(w[m, k]) * x[ki])
  vector m 4
    out[m] = acc[m]
`},
		{"largest", largest, 2, 5, true, `
nest out(w, a, out)
  for m 2
    acc[] = -2147483648
    for k 5
      acc[] max= (i32(w[m, k]) * i32(a[k]))
    out[m] = acc[]
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := nestOf(t, c.p, c.cols)
			if have := n.String(); have != c.want[1:] {
				t.Errorf("prints\n%s", have)
			}
			checkDot(t, n, c.rows, c.cols, c.max)
		})
	}
}

// checkDot runs n on a random matrix and compares it with the definition.
func checkDot(t *testing.T, n *Nest, rows, cols int, largest bool) {
	t.Helper()
	rng := rand.New(rand.NewSource(1))
	w, a, out := make([]byte, rows*cols), make([]byte, cols), make([]byte, rows*4)
	rng.Read(w)
	rng.Read(a)
	rng.Read(out)
	args := []Arg{{Buf: w}, {Buf: a}, {Buf: out}}
	for _, name := range n.Counts {
		l, _ := n.Loop(name)
		args = append(args, Arg{Int: map[string]int{"m": rows, "k": cols}[l.Root] / l.Coef})
	}
	if err := Eval(n, args); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		want := int32(0)
		if largest {
			want = -1 << 31
		}
		for j := range cols {
			p := int32(int8(w[i*cols+j])) * int32(int8(a[j]))
			if largest {
				want = max(want, p)
			} else {
				want += p
			}
		}
		if have := int32(binary.LittleEndian.Uint32(out[4*i:])); have != want {
			t.Errorf("out[%d] is %d, want %d", i, have, want)
		}
	}
}

// A stage without a reduction stores at every point.
func TestBuildPointwise(t *testing.T) {
	p := &Plan{Name: "out", Loops: []Loop{{Name: "mo", Root: "m", Coef: 2, N: 3}, {Name: "mi", Root: "m", Coef: 1, N: 2, Kind: Vector}},
		Out: tout, Index: []ir.Expr{axis("m")},
		Final: ir.Binary{Op: ir.Add, X: i32(ta, axis("m")), Y: ir.Read{T: tmpA}}}
	p.Staged = []Staged{{Temp: tmpA, Value: ir.I32(7)}}
	n := nestOf(t, p, 1)
	const want = `
nest out(w, a, out)
where m = 2*mo + 1*mi
  x[] = 7
  for mo 3
    vector mi 2
      out[m] = (i32(a[m]) + x[])
`
	if have := n.String(); have != want[1:] {
		t.Errorf("prints\n%s", have)
	}
	out := make([]byte, 24)
	if err := Eval(n, []Arg{{}, {Buf: []byte{1, 2, 3, 4, 5, 255}}, {Buf: out}}); err != nil {
		t.Fatal(err)
	}
	for i, v := range []uint32{8, 9, 10, 11, 12, 6} {
		if have := binary.LittleEndian.Uint32(out[4*i:]); have != v {
			t.Errorf("out[%d] is %d, want %d", i, have, v)
		}
	}
}

// Two accumulators of different types: the sum of a group flushes, scaled, into
// a float one, and f32 results are stored as their bits.
func TestBuildGroups(t *testing.T) {
	fout := &ir.Tensor{Name: "fout", Elem: format.F32, Dims: []string{"m"}}
	facc := &ir.Tensor{Name: "facc", Elem: format.F32}
	half := ir.Const{T: format.F32, V: 0x3f000000}
	p := dot("g", m(2, Vector), Loop{Name: "g", Root: "g", Coef: 1, N: 2}, k(3, Serial))
	p.Reduce["g"] = true
	gk := ir.Binary{Op: ir.Add, X: ir.Binary{Op: ir.Mul, X: axis("g"), Y: ir.I32(3)}, Y: axis("k")}
	p.Body = ir.Binary{Op: ir.Mul, X: i32(tw, axis("m"), gk), Y: i32(ta, gk)}
	p.Accumulators = []Accumulator{{Temp: facc, Op: ir.Add, At: "g"}, {Temp: part, Op: ir.Add, At: "k",
		Flush: ir.Binary{Op: ir.Mul, X: ir.Unary{Op: ir.CvtF32, X: ir.Read{T: part}}, Y: half}}}
	p.Out, p.Final = fout, ir.Unary{Op: ir.CanonNaN, X: ir.Read{T: facc}}
	p.Loops[0], p.Loops[1] = p.Loops[1], p.Loops[0]
	n := nestOf(t, p, 6)
	n.Buffers["fout"] = &Array{Memory: Memory{Tensor: fout, Param: "out"}, Strides: []int{4}}
	const want = `
nest out(w, a, out)
  vector m 2
    facc[m] = f32:0x00000000
  for g 2
    vector m 2
      part[] = 0
      for k 3
        part[] += (i32(w[m, ((g * 3) + k)]) * i32(a[((g * 3) + k)]))
      facc[m] += (f32(part[]) * f32:0x3f000000)
  vector m 2
    fout[m] = canonnan(facc[m])
`
	if have := n.String(); have != want[1:] {
		t.Errorf("prints\n%s", have)
	}
	w := []byte{1, 2, 3, 4, 5, 6, 255, 0, 0, 0, 0, 2}
	out := make([]byte, 8)
	if err := Eval(n, []Arg{{Buf: w}, {Buf: []byte{1, 1, 1, 1, 1, 1}}, {Buf: out}}); err != nil {
		t.Fatal(err)
	}
	if a, b := binary.LittleEndian.Uint32(out), binary.LittleEndian.Uint32(out[4:]); a != 0x41280000 || b != 0x3f000000 {
		t.Errorf("out is %#x %#x, want 10.5 and 0.5", a, b)
	}
}

// Sums in memory may be indexed by a serial loop that is inside the reduction.
func TestInMemory(t *testing.T) {
	n := nestOf(t, dot("ko", ko(4, 2), m(3, Serial), ki(4, Serial)).below("ki").inMemory(), 8)
	n.Params = append(n.Params, "sums")
	n.Buffers["acc"] = &Array{Memory: Memory{Tensor: acc, Param: "sums"}, Strides: []int{4}}
	const want = `
nest out(w, a, out, sums)
where k = 4*ko + 1*ki
  unroll m 3
    acc[m] = 0
  for ko 2
    for m 3
      part[] = 0
      for ki 4
        part[] += (i32(w[m, k]) * i32(a[k]))
      acc[m] = (acc[m] + part[])
  unroll m 3
    out[m] = acc[m]
`
	if have := n.String(); have != want[1:] {
		t.Errorf("prints\n%s", have)
	}
	w, sums := bytes.Repeat([]byte{1, 2, 3}, 8), bytes.Repeat([]byte{0xa5}, 12)
	out := make([]byte, 12)
	if err := Eval(n, []Arg{{Buf: w}, {Buf: []byte{1, 1, 1, 1, 1, 1, 1, 1}}, {Buf: out}, {Buf: sums}}); err != nil {
		t.Fatal(err)
	}
	for i, v := range []uint32{15, 16, 17} {
		if have := binary.LittleEndian.Uint32(out[4*i:]); have != v {
			t.Errorf("out[%d] is %d, want %d", i, have, v)
		}
	}
}

// A listed loop runs over all of K, then, under the loop that lists it, over the numbers
// of the list: twice over some, never over others.
func TestListed(t *testing.T) {
	twice := Loop{Name: "again", Root: "again", Coef: 1, N: 2, Kind: Unrolled}
	blocks := ko(2, 0)
	blocks.ListedBy = "again"
	p := dot("again", m(2, Vector), twice, blocks, ki(2, Unrolled))
	p.Loops = []Loop{twice, blocks, ki(2, Unrolled), m(2, Vector)}
	p.Reduce["again"] = true
	n := nestOf(t, p, 6)
	n.Params = []string{"w", "a", "out", ListParam, ListCountParam, "count.ko"}
	const want = `
nest out(w, a, out, list, count.list, count.ko)
where k = 2*ko + 1*ki
  vector m 2
    acc[m] = 0
  unroll again 2
    for ko K/2, listed if again
      unroll ki 2
        vector m 2
          acc[m] += (i32(w[m, k]) * i32(a[k]))
  vector m 2
    out[m] = acc[m]
`
	if have := n.String(); have != want[1:] {
		t.Errorf("prints\n%s", have)
	}
	args := func(list []byte, count int) []Arg {
		return []Arg{{Buf: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, {Buf: []byte{1, 1, 1, 1, 1, 1}}, {Buf: make([]byte, 8)}, {Buf: list}, {Int: count}, {Int: 3}}
	}
	for _, c := range []struct {
		list []byte
		a, b uint32
	}{
		{nil, 21, 57},
		{[]byte{2, 0, 0, 0}, 21 + 11, 57 + 23},
		{[]byte{2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, 21 + 11 + 3 + 11, 57 + 23 + 15 + 23},
	} {
		in := args(c.list, len(c.list)/4)
		if err := Eval(n, in); err != nil {
			t.Fatal(err)
		}
		if a, b := binary.LittleEndian.Uint32(in[2].Buf), binary.LittleEndian.Uint32(in[2].Buf[4:]); a != c.a || b != c.b {
			t.Errorf("list %v: out is %d %d, want %d %d", c.list, a, b, c.a, c.b)
		}
	}
	for _, c := range []struct {
		in   []Arg
		want string
	}{
		{args([]byte{0, 0, 0, 0}, 2), "nest out: loop ko has a list of 4 bytes for 2 values"},
		{args([]byte{3, 0, 0, 0}, 1), "a[6]: byte 6 of 6"},
	} {
		if err := Eval(n, c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	n.Params = []string{"w", "a", "out", ListParam, "other", "count.ko"}
	if err := Eval(n, args(nil, 0)); err == nil || err.Error() != "nest out: no parameter count.list" {
		t.Errorf("%v", err)
	}
}

func TestBuildRefusals(t *testing.T) {
	classes := Keep{Name: "ki"}
	stagedOutside := dot("ko", m(2, Unrolled), ko(2, 3), ki(2, Unrolled))
	stagedOutside.Staged = []Staged{{Temp: tmpA, Value: i32(ta, axis("k"))}}
	noAccumulators := dot("k", m(2, Serial), k(5, Serial))
	noAccumulators.Accumulators = nil
	keepFirst := dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Vector))
	keepFirst.Accumulators[0].Keep = []Keep{classes}
	for _, c := range []struct {
		name string
		p    *Plan
		want string
	}{
		{"no loop", dot("kx", k(5, Serial)), `acc: no loop "kx"`},
		{"not a reduction", dot("m", m(2, Serial), k(5, Serial)), "acc: loop m is not a reduction"},
		{"order", dot("ki", m(2, Unrolled), ko(4, 2), ki(4, Serial)).below("ko"), "part: loop ko is outside loop ki of the accumulator above"},
		{"outside", dot("ki", m(2, Unrolled), ko(4, 2), ki(4, Serial)), "ko: this reduction loop is outside the accumulator acc"},
		{"calls", dot("ko", Loop{Name: "ko", Root: "k", Coef: 4, Kind: Outer}, ki(4, Serial)), "ko: a reduction cannot be split over calls"},
		{"serial output", dot("k", k(5, Serial), m(2, Serial)), "m: accumulators cannot be indexed by a serial loop; unroll it or move it outside k"},
		{"serial output of memory", dot("ko", ko(4, 2), ki(4, Serial), m(2, Serial)).below("ki").inMemory(), "m: accumulators cannot be indexed by a serial loop; unroll it or move it outside ki"},
		{"in memory alone", dot("k", k(5, Serial)).inMemory(), "acc: only the last accumulator can be in memory, if it adds up others and has no sum beside it"},
		{"in memory beside", dot("ko", ko(4, 2), ki(4, Serial)).below("ki").beside().inMemory(), "acc: only the last accumulator can be in memory, if it adds up others and has no sum beside it"},
		{"in memory of workgroups", dot("ko", m(2, Group), ko(4, 2), ki(4, Serial)).below("ki").inMemory(), "m: workgroups have sums in registers only: they run at once, and a call has one memory for sums"},
		{"in memory of lanes", dot("ko", ko(4, 2), ki(4, Lane)).below("ki").inMemory(), "ki: lanes have sums in registers only"},
		{"lanes", dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Vector)), "ki: lanes of a reduction need an accumulator each: rfactor it"},
		{"staged", stagedOutside, "x: staged outside the serial loop ko it depends on"},
		{"no accumulators", noAccumulators, "k: a reduction needs an accumulator"},
		{"keep first", keepFirst, "acc: the last accumulator has one sum to store; it cannot keep ki apart"},
		{"keep beside", dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Vector)).below("ko", Keep{Name: "ki"}).beside(), "part: it cannot keep ki apart: count is added when it is flushed, once"},
		{"apart, unknown", dot("ko", m(2, Vector), ko(4, 2), ki(4, Serial)).below("ki").apart("kz"), "count: kz is no loop over what acc adds up: it cannot have a copy"},
		{"apart, below", dot("ko", m(2, Vector), ko(4, 2), ki(4, Serial)).below("ki").apart("ki"), "count: ki is no loop over what acc adds up: it cannot have a copy"},
		{"apart, no reduction", dot("ko", ko(4, 2), m(2, Unrolled), ki(4, Serial)).below("ki").apart("m"), "count: m is no loop over what acc adds up: it cannot have a copy"},
		{"apart, outside", dot("ko", m(2, Vector), ko(4, 2), ki(4, Serial)).below("ki").apart("m"), "count: m is no loop over what acc adds up: it cannot have a copy"},
		{"keep outside", dot("ko", ko(4, 2), m(2, Unrolled), ki(4, Serial)).below("ki", Keep{Name: "ko"}), "part: loop ko is outside ki: its sums are apart already"},
		{"keep unknown", dot("ko", ko(4, 2), ki(4, Serial)).below("ki", Keep{Name: "kz"}), `part: no loop "kz" to keep apart`},
		{"pair", dot("k", m(2, Pair), k(5, Serial)), "m: a pair needs an accumulator around it, in lanes, and another one above that"},
		{"pair outside", dot("ko", m(2, Pair), ko(4, 2), ki(4, Serial)).below("ki"), "m: a pair needs an accumulator around it, in lanes, and another one above that"},
		{"listed", dot("k", Loop{Name: "k", Root: "k", Coef: 1, ListedBy: "m"}, m(2, Unrolled)), "k: a listed loop is counted at run time, inside the unrolled loop m"},
		{"scale of a group", scaled(dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Serial)).below("ko"), axis("k")),
			"part: its factor differs from one iteration of ko to the next, which it adds up: begin it inside that loop"},
		{"scale of a loop", scaled(dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Serial)).below("ko"), axis("ko")),
			"part: its factor differs from one iteration of ko to the next, which it adds up: begin it inside that loop"},
		{"staged scale", stagedScale(dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Serial)).below("ko")),
			"part: its factor differs from one iteration of ko to the next, which it adds up: begin it inside that loop"},
		{"scale beside", countedBy(dot("ko", m(2, Vector), ko(4, 2), ki(4, Serial)).below("ki").beside(), axis("ki")),
			"part: its factor differs from one iteration of ki to the next, which it adds up: begin it inside that loop"},
		{"scale at the end", finalBy(dot("ko", m(2, Vector), ko(4, 2), ki(4, Serial)), axis("ko")),
			"acc: its factor differs from one iteration of ko to the next, which it adds up: begin it inside that loop"},
		{"one name", dot("k", k(2, Serial), m(2, Unrolled), m(2, Unrolled)), "m: two loops have this name"},
	} {
		_, err := Build(c.p)
		var refused *Refused
		if !errors.As(err, &refused) || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// scaled multiplies sums of the second accumulator by the activation at an index.
func scaled(p *Plan, at ir.Expr) *Plan {
	p.Accumulators[1].Flush = ir.Binary{Op: ir.Mul, X: ir.Read{T: part}, Y: i32(ta, at)}
	return p
}

// stagedScale multiplies them by a staged activation.
func stagedScale(p *Plan) *Plan {
	p.Accumulators[1].Flush = ir.Binary{Op: ir.Mul, X: ir.Read{T: part}, Y: ir.Read{T: tmpA}}
	p.Staged = []Staged{{Temp: tmpA, At: "ko", Value: i32(ta, axis("k"))}}
	return p
}

// countedBy adds up activations at an index beside the first accumulator.
func countedBy(p *Plan, at ir.Expr) *Plan {
	p.Accumulators[0].Beside.Each = i32(ta, at)
	return p
}

// finalBy adds the activation at an index to the result.
func finalBy(p *Plan, at ir.Expr) *Plan {
	p.Final = ir.Binary{Op: ir.Add, X: p.Final, Y: i32(ta, at)}
	return p
}

// A sum is multiplied by what a loop around it counts, and by what it keeps apart.
func TestScaledSums(t *testing.T) {
	for _, p := range []*Plan{
		scaled(dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Serial)).below("ki"), axis("ko")),
		scaled(dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Vector)).below("ko", Keep{Name: "ki"}), axis("ki")),
		scaled(dot("ko", m(2, Unrolled), ko(4, 2), ki(4, Serial)).below("ko"), axis("m")),
	} {
		if _, err := Build(p); err != nil {
			t.Errorf("%v: %v", p.Accumulators[1].Flush, err)
		}
	}
}

// A repeated nest runs at least once; its pointers move in between.
func TestRepeat(t *testing.T) {
	n := nestOf(t, dot("k", m(2, Serial), k(0, Serial)), 4)
	n.Params = append(n.Params, "count.tiles", "step.w", "step.out")
	n.Repeat = &Repeat{Count: "count.tiles", Moves: []Move{{"w", "step.w"}, {"out", "step.out"}}}
	if want := "repeat count.tiles, w += step.w, out += step.out\n"; !strings.Contains(n.String(), want) {
		t.Errorf("prints\n%s", n)
	}
	w, a := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, []byte{1, 1, 1, 1}
	for tiles, want := range [][]byte{{10, 26, 0, 0}, {10, 26, 0, 0}, {10, 26, 42, 58}} {
		out := make([]byte, 16)
		if err := Eval(n, []Arg{{Buf: w}, {Buf: a}, {Buf: out}, {Int: 4}, {Int: tiles}, {Int: 8}, {Int: 8}}); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if out[4*i] != want[i] {
				t.Errorf("%d tiles: %v", tiles, out)
			}
		}
	}
	err := Eval(n, []Arg{{Buf: w}, {Buf: a}, {Buf: make([]byte, 16)}, {Int: 4}, {Int: 2}, {Int: 17}, {Int: 8}})
	if err == nil || !strings.Contains(err.Error(), "w moves by 17 bytes of 16") {
		t.Error(err)
	}
}

func TestEvalRefusals(t *testing.T) {
	n := nestOf(t, dot("k", m(2, Serial), k(0, Serial)), 4)
	bytes := func(n int) Arg { return Arg{Buf: make([]byte, n)} }
	good := []Arg{bytes(8), bytes(4), bytes(8), {Int: 4}}
	if err := Eval(n, good); err != nil {
		t.Fatal(err)
	}
	unset := *n
	unset.Body = []Stmt{&Assign{tout, []ir.Expr{ir.I32(0)}, Set, 0, ir.Read{T: acc, Index: []ir.Expr{ir.I32(3)}}}}
	count := *n
	count.Params = n.Params[:3]
	for _, c := range []struct {
		n    *Nest
		args []Arg
		want string
	}{
		{n, good[:3], "nest out: 3 arguments for 4 parameters"},
		{n, []Arg{bytes(7), bytes(4), bytes(8), {Int: 4}}, "w[1 3]: byte 7 of 7"},
		{n, []Arg{bytes(8), bytes(4), bytes(7), {Int: 4}}, "out[m]: byte 4 of 7"},
		{n, []Arg{bytes(8), bytes(4), bytes(8), {Int: 5}}, "a[4]: byte 4 of 4"},
		{&unset, good, "acc,3 is read before it is set"},
		{&count, good[:3], "nest out: no parameter count.k"},
	} {
		if err := Eval(c.n, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Codes of a packed part are put together from their bits.
func TestEvalCodes(t *testing.T) {
	layout := &format.Layout{TileM: 2, RecordK: 4, RecordBytes: 2, Parts: []format.Part{{
		Name: format.Codes, Map: [][]format.BitPos{{{Bit: 0}, {Bit: 4}}, {{Bit: 1}, {Bit: 5}}, {{Bit: 2}, {Bit: 6}}, {{Bit: 3}, {Bit: 7}}},
		Digits: []format.Digit{{Axis: "m", Div: 1, Mod: 2, Stride: 1}}, Fields: []format.Digit{{Axis: "k", Div: 1, Mod: 4, Stride: 1}},
	}}}
	if err := layout.Validate(); err != nil {
		t.Fatal(err)
	}
	p := dot("k", m(2, Unrolled), k(4, Serial))
	n := nestOf(t, p, 4)
	n.Buffers["w"] = &Codes{Packed{Memory: Memory{Tensor: tw, Param: "w"}, Layout: layout, Part: &layout.Parts[0]}}
	out := make([]byte, 8)
	if err := Eval(n, []Arg{{Buf: []byte{0b1010_0110, 0b0001_1111}}, {Buf: []byte{1, 10, 100, 3}}, {Buf: out}}); err != nil {
		t.Fatal(err)
	}
	// Row 0 has codes 0 3 1 2, row 1 has 3 1 1 1.
	if a, b := binary.LittleEndian.Uint32(out), binary.LittleEndian.Uint32(out[4:]); a != 136 || b != 116 {
		t.Errorf("out is %d %d, want 136 116", a, b)
	}
}
