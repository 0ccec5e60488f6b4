package lower

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/tests/virgen"
)

// run evaluates f on random buffers made from seed with trip count n and returns
// all buffers.
func run(t *testing.T, f *vir.Func, seed int64, n int) []byte {
	t.Helper()
	args := virgen.Args(rand.New(rand.NewSource(seed)), f, n)
	if err := vir.Eval(f, args); err != nil {
		t.Fatalf("%v\n%s", err, f)
	}
	var out []byte
	for _, a := range args {
		out = append(out, a.Buf...)
	}
	return out
}

// Every pass keeps the meaning of random functions, on machines with few
// instructions and with many.
func TestPassesKeepMeaning(t *testing.T) {
	for seed := range int64(150) {
		f := virgen.Func(rand.New(rand.NewSource(seed)), 10+int(seed)%40)
		if err := vir.Verify(f); err != nil {
			t.Fatal(err)
		}
		text := f.String()
		machines := toys()
		for i := range int64(2) {
			checkCompile(t, machines[(seed+i)%int64(len(machines))], f, seed)
		}
		if f.String() != text {
			t.Fatalf("seed %d: a pass changed its input", seed)
		}
	}
}

func checkCompile(t *testing.T, target toy, f *vir.Func, seed int64) {
	t.Helper()
	target.m.NumVec, target.m.NumGP = 1000, 1000
	want := [2][]byte{run(t, f, seed, 0), run(t, f, seed, virgen.MaxTrips)}
	before := f
	same := func(pass string, g *vir.Func) {
		for i, n := range []int{0, virgen.MaxTrips} {
			if !bytes.Equal(run(t, g, seed, n), want[i]) {
				t.Fatalf("seed %d, features %b: pass %s changes the meaning of\n%s\nto\n%s", seed, target.m.Has, pass, before, g)
			}
		}
		before = g
	}
	x := newTable(target)
	legal, err := x.run(t.Context(), x.front(), f, []Watch{same})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for _, p := range []plan{{}, {sink: sinkLeaves}, {sink: sinkLeaves, place: 2}, {sink: sinkAll, foldAll: true, place: 2}, {sink: sinkAll, reload: true}, {sink: sinkAll, reload: true, repeat: 3, place: 100}} {
		before = legal
		g, err := x.run(t.Context(), x.back(p), legal, []Watch{same})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		k, err := x.kernel(g)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkReplay(t, k, seed)
	}
}

func checkReplay(t *testing.T, k *Kernel, seed int64) {
	t.Helper()
	for _, n := range []int{0, virgen.MaxTrips} {
		if err := replay(k, n); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, Dump(k))
		}
	}
}

// replay runs the machine operations of k with the number of a value in the place
// of each value: a result gets a new number, a copy has that of its original. It
// checks that every operation finds its arguments and its address where k says.
func replay(k *Kernel, n int) error {
	m := &symbols{k: k, n: n, dropped: dropped(k), vec: map[int]int{}, reg: map[vir.Reg]int{}, gp: map[int]place{}, iter: map[int]int{}}
	for at := 0; at < len(k.Ops); {
		for _, in := range m.dropped[at] {
			m.reg[in.Dst] = m.reg[in.Args[0]]
		}
		next, err := m.step(at)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// dropped lists, by operation, the bitcasts before it that needed none.
func dropped(k *Kernel) map[int][]*vir.Instr {
	out := map[int][]*vir.Instr{}
	at := 0
	for _, s := range steps(k.Func.Body) {
		for at < len(k.Ops) && (k.Ops[at].Kind == MLoadParam || k.Ops[at].Kind == MScale) {
			at++
		}
		if s.in != nil && (at == len(k.Ops) || k.Ops[at].In != s.in) {
			out[at] = append(out[at], s.in)
		} else {
			at++
		}
	}
	return out
}

type symbols struct {
	k       *Kernel
	n       int
	dropped map[int][]*vir.Instr
	values  int
	vec     map[int]int     // value by vector register
	reg     map[vir.Reg]int // value by virtual register
	gp      map[int]place
	iter    map[int]int // by loop
	begin   []int       // operations that opened the loops around
}

// place is what a general register holds: an address, or a counter.
type place struct{ param, off int }

const counter = -1

func (m *symbols) step(at int) (int, error) {
	op := &m.k.Ops[at]
	switch op.Kind {
	case MInstr:
		return at + 1, m.instr(op)
	case MLoadParam:
		m.gp[op.GP] = place{op.Param, 0}
		if m.k.Func.Params[op.Param].Int {
			m.gp[op.GP] = place{counter, m.number(op.Param)}
		}
	case MScale:
		n := m.gp[op.GP]
		p := place{counter, 0}
		if op.Scale.Src >= 0 {
			p = m.gp[op.Scale.Src]
		}
		if n.param != counter {
			return 0, fmt.Errorf("g%d is no number", op.GP)
		}
		m.gp[op.Scale.Dst] = place{p.param, p.off + n.off*op.Scale.Bytes}
	case MLoopBegin:
		return m.loop(at)
	case MLoopEnd:
		for _, a := range op.Adds {
			p, by := m.gp[a.GP], a.Bytes
			if a.By >= 0 {
				if m.gp[a.By].param != counter {
					return 0, fmt.Errorf("g%d is no number", a.By)
				}
				by = m.gp[a.By].off
			}
			m.gp[a.GP] = place{p.param, p.off + by}
		}
		m.iter[op.Loop]++
		c := m.gp[op.GP]
		m.gp[op.GP] = place{counter, c.off - 1}
		if c.param != counter {
			return 0, fmt.Errorf("loop l%d lost its counter", op.Loop)
		}
		if c.off > 1 {
			begin := m.begin[len(m.begin)-1]
			return begin + 1, m.listed(&m.k.Ops[begin])
		}
		m.begin = m.begin[:len(m.begin)-1]
	}
	return at + 1, nil
}

// number is the value of an integer parameter that addresses depend on, each another one.
func (m *symbols) number(param int) int { return 100*m.n + param }

func (m *symbols) loop(at int) (int, error) {
	op := &m.k.Ops[at]
	count := op.Count.Const
	if op.Count.Param >= 0 {
		count = m.n
	}
	m.gp[op.GP] = place{counter, count}
	if count <= 0 {
		for m.k.Ops[at].Kind != MLoopEnd || m.k.Ops[at].Loop != op.Loop {
			at++
		}
		return at + 1, nil
	}
	for _, c := range op.Copy {
		m.gp[c.Dst] = m.gp[c.Src]
	}
	m.iter[op.Loop] = 0
	m.begin = append(m.begin, at)
	if l := op.List; l != nil {
		m.gp[l.GP] = place{l.Param, 0}
	}
	return at + 1, m.listed(op)
}

// listedNumber is what stands at place i of every list.
func listedNumber(i int) int { return (2*i + 1) % virgen.MaxTrips }

// listed begins an iteration of a loop over a list: it has the number that its list's
// pointer is at.
func (m *symbols) listed(op *MOp) error {
	l := op.List
	if l == nil {
		return nil
	}
	at := m.gp[l.GP]
	if at.param != l.Param || at.off%4 != 0 {
		return fmt.Errorf("loop l%d lost its list", op.Loop)
	}
	n := listedNumber(at.off / 4)
	m.iter[op.Loop] = n
	m.gp[l.Number] = place{counter, n}
	for _, s := range l.At {
		p := m.gp[s.Src]
		m.gp[s.Dst] = place{p.param, p.off + n*s.Bytes}
	}
	return nil
}

func (m *symbols) instr(op *MOp) error {
	text := m.k.Func.Format(op.In)
	for i, r := range op.In.Args {
		if r != vir.NoReg && m.vec[op.Args[i]] != m.reg[r] {
			return fmt.Errorf("%s: r%d does not hold %v", text, op.Args[i], r)
		}
	}
	if op.Row.Tied > 0 && op.Args[op.Row.Tied-1] != op.Dst {
		return fmt.Errorf("%s: tied argument in another register", text)
	}
	if op.Base >= 0 {
		want := place{op.In.Mem.Buf, op.In.Mem.Off}
		for _, s := range op.In.Mem.Stride {
			want.off += (s.Bytes + s.Times*m.number(s.By)) * m.iter[s.Loop]
		}
		for _, x := range op.In.Mem.Plus {
			want.off += x.Times * m.number(x.By)
		}
		have := m.gp[op.Base]
		have.off += op.Disp
		if op.Plus > 0 {
			plus := m.gp[op.Plus-1]
			if plus.param != counter {
				return fmt.Errorf("%s: g%d is no number", text, op.Plus-1)
			}
			have.off += plus.off
		}
		if have != want {
			return fmt.Errorf("%s: address is %v, want %v", text, have, want)
		}
	}
	if op.Dst >= 0 {
		m.define(op)
	}
	return nil
}

func (m *symbols) define(op *MOp) {
	m.values++
	v := m.values
	if op.In.Op == vir.OpBitcast {
		v = m.vec[op.Args[0]]
	}
	m.vec[op.Dst], m.reg[op.In.Dst] = v, v
}

// With few registers a function compiles to code within them or is refused.
func TestPressure(t *testing.T) {
	fits := 0
	for seed := range int64(150) {
		f := virgen.Func(rand.New(rand.NewSource(seed)), 12)
		k, err := Compile(newToy(toyAll), f)
		var p *Pressure
		switch {
		case errors.As(err, &p):
			if p.Need <= p.Have || p.At == "" {
				t.Errorf("seed %d: %v", seed, err)
			}
			s, err := Select(t.Context(), newToy(toyAll), f)
			if err != nil {
				t.Fatal(err)
			}
			h, err := s.Held(t.Context())
			if err != nil || h == nil || len(h.Values) != h.Need {
				t.Errorf("seed %d: %+v, %v: want what the registers hold", seed, h, err)
			}
			continue
		case err != nil:
			t.Fatal(err)
		}
		fits++
		if err := replay(k, virgen.MaxTrips); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, Dump(k))
		}
		if !bytes.Equal(run(t, f, seed, 2), run(t, k.Func, seed, 2)) {
			t.Fatalf("seed %d: another result", seed)
		}
	}
	if fits < 10 {
		t.Errorf("only %d functions fit", fits)
	}
}

// Where general registers do not suffice, addresses are sums of two, if the machine has such, and only then.
func TestSums(t *testing.T) {
	sums := func(k *Kernel) bool {
		return slices.ContainsFunc(k.Ops, func(o MOp) bool { return o.Plus > 0 })
	}
	fits := 0
	for seed := range int64(400) {
		f := virgen.Func(rand.New(rand.NewSource(seed)), 40)
		target := newToy(toyAll)
		target.m.NumVec, target.m.NumGP = 200, 1
		_, err := Compile(target, f)
		var p *Pressure
		if !errors.As(err, &p) {
			continue // without addresses
		}
		target.m.NumGP, target.m.Indexed = p.Need, true
		if k, err := Compile(target, f); err != nil || sums(k) {
			t.Fatalf("seed %d: %v, or sums that %d registers do not need", seed, err, p.Need)
		}
		target.m.NumGP--
		k, err := Compile(target, f)
		if errors.As(err, &p) { // which says the fewest
			if p.Need != target.m.NumGP+1 {
				t.Errorf("seed %d: %v", seed, err)
			}
			continue
		}
		if !sums(k) {
			t.Fatalf("seed %d: %d registers, no sums", seed, target.m.NumGP)
		}
		fits++
		checkReplay(t, k, seed)
	}
	if fits < 5 {
		t.Errorf("only %d functions fit by sums", fits)
	}
}

// Compiling is a function of its input.
func TestDeterminism(t *testing.T) {
	for seed := range int64(20) {
		f := virgen.Func(rand.New(rand.NewSource(seed)), 40)
		target := newToy(toyAll)
		target.m.NumVec, target.m.NumGP = 200, 50
		a, err := Compile(target, f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compile(target, f)
		if err != nil {
			t.Fatal(err)
		}
		if Dump(a) != Dump(b) {
			t.Fatalf("seed %d: two results", seed)
		}
	}
}

// BenchmarkCompile compiles a kernel of some 1,500 operations, with registers for
// all values and without.
func BenchmarkCompile(b *testing.B) {
	f := virgen.Func(rand.New(rand.NewSource(5)), 500)
	for _, numVec := range []int{1000, 20} {
		b.Run(fmt.Sprint(numVec), func(b *testing.B) {
			target := newToy(toyAll)
			target.m.NumVec, target.m.NumGP = numVec, 1000
			var err error
			for b.Loop() {
				_, err = Compile(target, f)
			}
			b.Log(err)
		})
	}
}

// With few registers loads alone come later if that suffices, and two sums stay side by side; with more,
// all values do, one sum after the other.
func TestLeavesFirst(t *testing.T) {
	const loads = 24 // of each sum, more than registers
	text := "func f(x ptr, out ptr)\n\tv0:i32x4 = splat 0\n\tv1:i32x4 = splat 0\n"
	for i := range 2 * loads {
		text += fmt.Sprintf("\tv%d:i32x4 = load x+%d\n", 2+i, 16*i)
	}
	sum, next := [2]int{0, 1}, 2+2*loads
	for i := range 2 * loads {
		for range 2 { // an operand of one use is no load of its own
			text += fmt.Sprintf("\tv%d:i32x4 = %s v%d v%d\n", next, []string{"add", "sub"}[i%2], sum[i%2], 2+i)
			sum[i%2], next = next, next+1
		}
	}
	text += fmt.Sprintf("\tstore out+0 v%d\n\tstore out+16 v%d\n", sum[0], sum[1])
	f, err := vir.Parse(text)
	if err != nil {
		t.Fatal(err, text)
	}
	for _, c := range []struct {
		registers int
		together  bool
	}{{16, true}, {17, false}} {
		target := newToy(toyAll)
		target.m.NumVec = c.registers
		k, err := Compile(target, f)
		if err != nil {
			t.Fatal(err)
		}
		firstSub, lastAdd := len(k.Ops), 0
		for at, op := range k.Ops {
			switch {
			case op.Kind == MInstr && op.In.Op == vir.OpAdd:
				lastAdd = at
			case op.Kind == MInstr && op.In.Op == vir.OpSub:
				firstSub = min(firstSub, at)
			}
		}
		if together := firstSub < lastAdd; together != c.together {
			t.Errorf("%d registers: sums side by side %v, want %v\n%s", c.registers, together, c.together, Dump(k))
		}
	}
}
