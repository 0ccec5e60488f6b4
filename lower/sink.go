package lower

import (
	"cmp"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// sinking says which instructions move down to where their results are first needed.
type sinking int

const (
	sinkNone sinking = iota
	sinkLeaves
	sinkAll
)

// sink moves every instruction down to where its result is first needed, so that
// few values are live at once: each store and each update of a carried register
// comes right after what only it needs. Where that is two values, the one that
// takes more registers to compute comes first. A prefetch goes on following the load that it followed, so that
// a loop does not ask for all its lines at once, while the few misses that a core has in flight are taken.
//
//	v1 = load x+0             v1 = load x+0
//	v2 = load x+16            v3 = shl v1 2
//	v3 = shl v1 2       ->    v0 = add v0 v3
//	v4 = shl v2 4             v2 = load x+16
//	v0 = add v0 v3            v4 = shl v2 4
//	v0 = add v0 v4            v0 = add v0 v4
func sink(f *vir.Func) (*vir.Func, error) { return sunk(f, true), nil }

// leaves moves down only what has no arguments, loads and constants. All else keeps its
// order, in which a core finds more to do at once than in that of sink, one sum after the
// other.
//
//	v1 = load x+0             v1 = load x+0
//	v2 = load x+16            v3 = shl v1 2
//	v3 = shl v1 2       ->    v2 = load x+16
//	v4 = shl v2 4             v4 = shl v2 4
//	v0 = add v0 v3            v0 = add v0 v3
//	v0 = add v0 v4            v0 = add v0 v4
func leaves(f *vir.Func) (*vir.Func, error) { return sunk(f, false), nil }

func sunk(f *vir.Func, all bool) *vir.Func {
	g := *f
	g.Body = (&sinker{all: all, mut: mutable(f), outer: make([]bool, len(f.Regs))}).body(f.Body)
	return &g
}

// sinker works on one body at a time.
type sinker struct {
	all   bool // all instructions move, not only leaves
	mut   []bool
	outer []bool     // registers that bodies around define
	def   []*waiting // by register, nil if this body does not define it
	queue []*waiting // in their order
	load  *waiting   // the last one that reads memory
	out   []vir.Node
}

// waiting is an instruction that nothing has needed yet.
type waiting struct {
	in    *vir.Instr
	need  int          // registers it takes to compute
	after []*vir.Instr // prefetches that follow it
	done  bool
}

func (s *sinker) body(body []vir.Node) []vir.Node {
	inner := &sinker{all: s.all, mut: s.mut, outer: s.outer, def: make([]*waiting, len(s.mut))}
	var mine []vir.Reg
	for _, n := range body {
		in, ok := n.(*vir.Instr)
		if ok && in.Dst != vir.NoReg && !s.outer[in.Dst] && (s.all || len(in.Args) == 0) {
			mine = append(mine, in.Dst)
			s.outer[in.Dst] = true
			inner.wait(in)
			continue
		}
		if ok && inner.follows(in) {
			inner.load.after = append(inner.load.after, in)
			continue
		}
		inner.place(n)
	}
	for _, w := range inner.queue {
		inner.emit(w)
	}
	for _, r := range mine {
		s.outer[r] = false
	}
	return inner.out
}

// wait puts off an instruction that only defines a register of this body.
func (s *sinker) wait(in *vir.Instr) {
	w := &waiting{in: in}
	needs := make([]int, 0, 4)
	for _, r := range in.Args {
		if d := s.of(r); d != nil {
			needs = append(needs, d.need)
		}
	}
	w.need = 1
	slices.SortFunc(needs, func(a, b int) int { return cmp.Compare(b, a) })
	for i, n := range needs {
		w.need = max(w.need, n+i)
	}
	s.def[in.Dst] = w
	s.queue = append(s.queue, w)
	if in.HasMem() {
		s.load = w
	}
}

// follows reports whether in is a prefetch of what the last load reads that nothing has needed yet.
func (s *sinker) follows(in *vir.Instr) bool {
	return (in.Op == vir.OpPrefetch || in.Op == vir.OpPrefetch2) && s.load != nil && !s.load.done && s.load.in.Mem.Buf == in.Mem.Buf
}

// place appends a node that keeps its place, after what it needs and what must not
// come after it.
func (s *sinker) place(n vir.Node) {
	nodes := []vir.Node{n}
	var defines map[vir.Reg]bool
	var stores map[int]bool
	each(nodes, func(in *vir.Instr) {
		if in.Dst != vir.NoReg && s.mut[in.Dst] {
			if defines == nil {
				defines = map[vir.Reg]bool{}
			}
			defines[in.Dst] = true
		}
		if in.Op == vir.OpStore {
			if stores == nil {
				stores = map[int]bool{}
			}
			stores[in.Mem.Buf] = true
		}
	})
	if defines != nil || stores != nil {
		s.flush(defines, stores)
	}
	each(nodes, func(in *vir.Instr) { s.needAll(in) })
	if l, ok := n.(*vir.Loop); ok {
		for _, r := range l.Carried {
			s.need(r)
		}
		c := *l
		c.Body = s.body(l.Body)
		n = &c
	}
	s.out = append(s.out, n)
}

// flush emits what reads a register or a buffer that is about to change.
func (s *sinker) flush(defines map[vir.Reg]bool, stores map[int]bool) {
	kept := s.queue[:0]
	for _, w := range s.queue {
		if w.done {
			continue
		}
		reads := w.in.HasMem() && stores[w.in.Mem.Buf]
		for _, r := range w.in.Args {
			reads = reads || defines[r]
		}
		if reads {
			s.emit(w)
		} else {
			kept = append(kept, w)
		}
	}
	s.queue = kept
}

func (s *sinker) need(r vir.Reg) {
	if w := s.of(r); w != nil {
		s.emit(w)
	}
}

// of is what this body defines r by.
func (s *sinker) of(r vir.Reg) *waiting {
	if r == vir.NoReg {
		return nil
	}
	return s.def[r]
}

// needAll emits what defines the arguments and the old value of the result of in,
// the costliest first.
func (s *sinker) needAll(in *vir.Instr) {
	args := make([]*waiting, 0, 4)
	note := func(r vir.Reg) {
		if w := s.of(r); w != nil && !w.done && w.in != in {
			args = append(args, w)
		}
	}
	for _, r := range in.Args {
		note(r)
	}
	note(in.Dst)
	slices.SortStableFunc(args, func(a, b *waiting) int { return cmp.Compare(b.need, a.need) })
	for _, w := range args {
		s.emit(w)
	}
}

func (s *sinker) emit(w *waiting) {
	if w.done {
		return
	}
	w.done = true
	s.needAll(w.in)
	s.out = append(s.out, w.in)
	for _, in := range w.after {
		s.out = append(s.out, in)
	}
}
