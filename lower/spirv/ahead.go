package spirv

import (
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv/module"
)

// advance is a load of a loop that is made an iteration before its words are used, inside some loops of lanes.
type advance struct {
	in      *vir.Instr
	loop    int // ID of the loop
	lanes   []*vir.Loop
	words   []module.ID
	patches []int
}

// inAdvance lists the loads of a loop with Ahead that no other group makes: of pointers that the first dimension of workgroups moves,
// from addresses that move with the loop.
func (p *printer) inAdvance(l *vir.Loop) (all []*advance) {
	if !l.Ahead || len(p.f.Grid) == 0 || l.List > 0 {
		return nil
	}
	vir.Walk(l.Body, func(in *vir.Instr, loops []*vir.Loop) {
		own := slices.ContainsFunc(p.f.Grid[0].Moves, func(m vir.Move) bool { return m.Param == in.Mem.Buf })
		moves := slices.ContainsFunc(in.Mem.Stride, func(s vir.Stride) bool { return s.Loop == l.ID })
		serial := slices.ContainsFunc(loops, func(l *vir.Loop) bool { return !l.Lane })
		if (in.Op == vir.OpLoad || in.Op == vir.OpLoadSplat) && own && moves && !serial && p.constantBuffer(in.Mem.Buf) {
			all = append(all, &advance{in: in, loop: l.ID, lanes: slices.Clone(loops)})
		}
	})
	return all
}

// read makes the loads of the iteration of that number.
func (p *printer) read(all []*advance, number module.ID) {
	sums, numbers := p.sums, p.numbers
	p.sums, p.numbers = maps.Clone(sums), maps.Clone(numbers)
	for _, a := range all {
		p.numbers[a.loop] = number
		for i, l := range a.lanes {
			p.numbers[l.ID] = p.ids[p.depth+i]
		}
		a.words = p.load(a.in)
	}
	p.sums, p.numbers = sums, numbers
}

// await makes the words of loads those that came before the loop, or in the iteration before.
func (p *printer) await(all []*advance, before, next module.ID) {
	for _, a := range all {
		var words []module.ID
		outer := p.m.For(a.in.From)
		for _, w := range a.words {
			id, at := p.phi(w, before, next)
			words, a.patches = append(words, id), append(a.patches, at)
		}
		p.m.For(outer)
		p.loaded[a.in] = words
	}
}

// notBehind is the number of an iteration, or of the last one if there is none of that number.
func (p *printer) notBehind(number module.ID, l *vir.Loop) module.ID {
	last := p.word(module.OpISub, p.count(l.Count), p.number(1))
	return p.extended(p.uint, module.ExtendedSMin, number, last)
}

// readFirst makes the loads of the first iteration, before the loop.
func (p *printer) readFirst(all []*advance, first module.ID, l *vir.Loop) {
	if l.Dealt && len(all) > 0 {
		first = p.notBehind(first, l)
	}
	p.read(all, first)
}

// upcoming makes the loads of the next iteration, whose number is larger by some, and the last one's again if there is none.
func (p *printer) upcoming(all []*advance, number module.ID, by int, l *vir.Loop) {
	if len(all) == 0 {
		return
	}
	p.read(all, p.notBehind(p.sum(number, p.number(uint32(by))), l))
	for _, a := range all {
		for i, at := range a.patches {
			p.m.Patch(at, a.words[i])
		}
	}
}
