package spirv

import (
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv/module"
)

// dealt are the iterations of a run-time loop that a workgroup has: every n-th, from the number of its part on.
type dealt struct {
	part module.ID
	n    int
}

// inTurn are floats that are kept for each iteration of the dealt loop, until the last workgroup adds them in order: vir.Func.Ordered.
type inTurn struct {
	of    *vir.Loop // the loop of parts
	dealt *vir.Loop
	lanes []*vir.Loop
	tile  module.ID // the word of the buffer where the tile's begin
	words int       // of a lane
}

// part writes the body of a loop of parts for the workgroup that has one of them. The workgroups add their parts up in a buffer, and
// the last one goes on with the sums.
func (p *printer) part(l *vir.Loop) {
	if p.vulkan {
		p.refuse(p.f.Name, "workgroups add up no sums of tiles")
		return
	}
	ids := p.m.Emit(module.OpLoad, p.m.Type(module.OpTypeVector, p.uint, 3), p.inputs[0])
	p.dealt = dealt{p.m.Emit(module.OpCompositeExtract, p.uint, ids, uint32(len(p.f.Grid))), l.Count.Const}
	p.numbers[l.ID] = p.dealt.part
	if dealt, lanes := p.f.Ordered(l); dealt != nil {
		p.inOrderOfParts(ids, &inTurn{of: l, dealt: dealt, lanes: lanes})
		return
	}
	outer, values := p.sums, make([][]module.ID, len(l.Carried))
	p.sums = maps.Clone(outer)
	for i, r := range l.Carried {
		values[i] = p.regs[r]
		p.regs[r] = slices.Repeat([]module.ID{p.number(0)}, len(values[i]))
	}
	p.body(l.Body)
	var words []module.ID
	for _, r := range l.Carried {
		words = append(words, p.regs[r]...)
	}
	if len(l.Carried) > 0 {
		defer p.m.For(p.m.For(carriedFor(l, l.Carried[0])))
	}
	words = p.ofAll(ids, words)
	p.sums = outer
	for i, r := range l.Carried {
		p.regs[r] = nil
		for n, x := range values[i] {
			p.regs[r] = append(p.regs[r], p.sum(x, words[n]))
		}
		words = words[len(values[i]):]
	}
}

// ofAll adds lanes' words up over all parts, atomically, in a buffer that is zero before and after. For each tile of the output it has a word that counts the
// workgroups that are done, and then the words, each of all lanes. All workgroups end here, except the last one of each tile.
func (p *printer) ofAll(ids module.ID, words []module.ID) (sums []module.ID) {
	team := vir.Product(p.shader.Lanes[p.depth:]) // which has the same words
	each := vir.Product(p.shader.Lanes) / team
	p.shader.Parts, p.shader.Sums = p.dealt.n, 1+each*len(words)
	done := p.times(p.tileNumber(ids), p.shader.Sums)
	lane := p.number(0) // of those around the loop
	if each > 1 {
		lane = p.word(module.OpUDiv, p.self, p.number(uint32(team)))
	}
	var places []module.ID
	for i := range words {
		places = append(places, p.shared(p.sum(p.sum(done, p.number(uint32(1+i*each))), lane)))
	}

	device, none := p.number(module.ScopeDevice), p.number(0)
	p.firstOf(team, func() {
		for i, w := range words {
			p.m.Emit(module.OpAtomicIAdd, p.uint, places[i], device, none, w)
		}
	})
	p.last(done)
	for _, x := range places {
		sums = append(sums, p.m.Emit(module.OpAtomicLoad, p.uint, x, device, none))
	}
	p.waitForMemory()
	p.firstOf(team, func() {
		for _, x := range places {
			p.keep(x, none)
		}
	})
	p.firstOf(each*team, func() { p.keep(p.shared(done), none) })
	return sums
}

// tileNumber is the number of the tile of the output that the workgroup is of.
func (p *printer) tileNumber(ids module.ID) module.ID {
	tile := p.m.Emit(module.OpCompositeExtract, p.uint, ids, uint32(len(p.f.Grid)-1))
	for d := len(p.f.Grid) - 2; d >= 0; d-- {
		tile = p.sum(p.word(module.OpIMul, tile, p.push[p.f.Grid[d].Count]), p.m.Emit(module.OpCompositeExtract, p.uint, ids, uint32(d)))
	}
	return tile
}

// shared is a word of the buffer that workgroups with parts of a sum share.
func (p *printer) shared(index module.ID) module.ID {
	return p.m.Emit(module.OpAccessChain, p.pointer(module.StorageClassStorageBuffer, p.uint), p.buffer(4, len(p.shader.Buffers)), p.number(0), index)
}

// keep stores a word that other workgroups may read.
func (p *printer) keep(at, word module.ID) {
	p.m.Do(module.OpAtomicStore, at, p.number(module.ScopeDevice), p.number(0), word)
}

// ofAllMemory is how accesses of memory that workgroups share are ordered.
const ofAllMemory = module.MemorySemanticsAcquireRelease | module.MemorySemanticsUniformMemory

// waitForMemory waits for the lanes of the workgroup, and for what they have stored.
func (p *printer) waitForMemory() {
	p.m.Do(module.OpControlBarrier, p.number(module.ScopeWorkgroup), p.number(module.ScopeDevice), p.number(ofAllMemory|module.MemorySemanticsWorkgroupMemory))
}

// last ends the workgroup unless all others of its tile are done, which the word done counts. Then it sees what they have stored.
func (p *printer) last(done module.ID) {
	turn := p.variable(p.uint, module.StorageClassWorkgroup)
	p.waitForMemory()
	p.firstOf(vir.Product(p.shader.Lanes), func() {
		p.m.Do(module.OpStore, turn, p.m.Emit(module.OpAtomicIAdd, p.uint, p.shared(done), p.number(module.ScopeDevice), p.number(ofAllMemory), p.number(1)))
	})
	p.waitForMemory()
	p.endUnless(p.equal(p.m.Emit(module.OpLoad, p.uint, turn), p.number(uint32(p.dealt.n-1))))
	p.m.Do(module.OpMemoryBarrier, p.number(module.ScopeDevice), p.number(ofAllMemory))
}

// inOrderOfParts writes the body of a loop of parts that add floats. For each iteration of the dealt loop, a lane keeps its words in a buffer that is zero before and after.
// The workgroup of a tile that comes last adds them in the order of iterations, and of lanes.
func (p *printer) inOrderOfParts(ids module.ID, t *inTurn) {
	all := vir.Product(p.shader.Lanes)
	for _, r := range t.of.Carried {
		t.words += size(p.f.Regs[r])
	}
	p.shader.Parts, p.shader.Sums, p.shader.EachSums, p.shader.Iterations = p.dealt.n, 1, t.words*all, t.dealt.Count.Param
	t.tile = p.word(module.OpIMul, p.tileNumber(ids), p.sum(p.times(p.count(t.dealt.Count), p.shader.EachSums), p.number(1)))
	var sums []module.ID
	for _, r := range t.of.Carried {
		sums = append(sums, p.regs[r]...)
	}
	outer := p.sums
	p.sums, p.turn = maps.Clone(outer), t
	p.body(t.of.Body)
	p.sums = outer
	defer p.m.For(p.m.For(carriedFor(t.of, t.of.Carried[0])))
	p.last(t.tile)
	sums = p.inTurns(t, sums)
	p.firstOf(all, func() { p.keep(p.shared(t.tile), p.number(0)) })
	for _, r := range t.of.Carried {
		n := size(p.f.Regs[r])
		p.regs[r], sums = sums[:n:n], sums[n:]
	}
}

// nothing makes what loop l carries what adds nothing, if it is the one whose iterations' floats are kept.
func (t *inTurn) nothing(p *printer, l *vir.Loop) {
	if t == nil || t.dealt != l {
		return
	}
	for _, r := range l.Carried {
		p.regs[r] = slices.Repeat([]module.ID{p.number(1 << 31)}, size(p.f.Regs[r])) // -0
	}
}

// keep keeps a lane's words of the iteration.
func (t *inTurn) keep(p *printer) {
	n := 0
	for _, r := range t.of.Carried {
		for _, w := range p.regs[r] {
			p.keep(p.shared(t.place(p, p.numbers[t.dealt.ID], n)), w)
			n++
		}
	}
}

// place is the word of the buffer for a word of the lane in an iteration.
func (t *inTurn) place(p *printer, iteration module.ID, word int) module.ID {
	of := p.sum(t.tile, p.times(iteration, p.shader.EachSums))
	return p.sum(of, p.sum(p.self, p.number(uint32(1+word*vir.Product(p.shader.Lanes)))))
}

// upcomingTurns is how many iterations before its turn a word is read.
const upcomingTurns = 4

// inTurns adds the words of all iterations to sums. A lane reads its own words, some iterations before they are added, and leaves zeros.
func (p *printer) inTurns(t *inTurn, sums []module.ID) []module.ID {
	count := p.count(t.dealt.Count)
	end := p.word(module.OpISub, count, p.number(1))
	read := func(iteration module.ID) (words []module.ID) {
		iteration = p.choose(p.m.Emit(module.OpSLessThan, p.bool, iteration, count), iteration, end)
		for i := range t.words {
			words = append(words, p.m.Emit(module.OpAtomicLoad, p.uint, p.shared(t.place(p, iteration, i)), p.number(module.ScopeDevice), p.number(0)))
		}
		return words
	}
	var ahead []module.ID
	for i := range upcomingTurns {
		ahead = append(ahead, read(p.number(uint32(i)))...)
	}
	head, body, next, after := p.m.NewID(), p.m.NewID(), p.m.NewID(), p.m.NewID()
	before, outer := p.label, p.sums
	p.m.Do(module.OpBranch, head)
	p.begins(head)
	number, patch := p.phi(p.number(0), before, next)
	phis := func(first []module.ID) (ids []module.ID, patches []int) {
		for _, w := range first {
			id, at := p.phi(w, before, next)
			ids, patches = append(ids, id), append(patches, at)
		}
		return ids, patches
	}
	sums, patchSums := phis(sums)
	ahead, patchAhead := phis(ahead)
	more := p.m.Emit(module.OpSLessThan, p.bool, number, count)
	p.m.Do(module.OpLoopMerge, after, next, module.LoopControlNone)
	p.m.Do(module.OpBranchConditional, more, body, after)
	p.begins(body)
	p.sums = maps.Clone(outer)
	words := ahead[:t.words]
	ahead = append(slices.Clone(ahead[t.words:]), read(p.sum(number, p.number(upcomingTurns)))...)
	for i := range t.words {
		p.keep(p.shared(t.place(p, number, i)), p.number(0))
	}
	added := make([]module.ID, len(sums))
	if n := vir.Product(lanesIn(t.lanes)); n > 1 {
		inner := vir.Product(p.shader.Lanes[p.depth+len(t.lanes):])
		added = p.inOrder(words, sums, n, inner, func(a, b module.ID) module.ID { return p.float(module.OpFAdd, a, b) })
	} else {
		for i, x := range sums {
			added[i] = p.float(module.OpFAdd, x, words[i])
		}
	}
	p.m.Do(module.OpBranch, next)
	p.begins(next)
	p.m.Patch(patch, p.word(module.OpIAdd, number, p.number(1)))
	for i, at := range patchSums {
		p.m.Patch(at, added[i])
	}
	for i, at := range patchAhead {
		p.m.Patch(at, ahead[i])
	}
	p.m.Do(module.OpBranch, head)
	p.begins(after)
	p.sums = outer
	return sums
}

// lanesIn are the numbers of lanes of loops.
func lanesIn(loops []*vir.Loop) (all []int) {
	for _, l := range loops {
		all = append(all, l.Count.Const)
	}
	return all
}

// firstOf writes code that the first of every n lanes runs.
func (p *printer) firstOf(n int, code func()) {
	if n == 1 {
		code()
		return
	}
	first := p.equal(p.word(module.OpUMod, p.self, p.number(uint32(n))), p.number(0))
	yes, end := p.m.NewID(), p.m.NewID()
	p.m.Do(module.OpSelectionMerge, end, module.SelectionControlNone)
	p.m.Do(module.OpBranchConditional, first, yes, end)
	outer := p.sums
	p.sums = maps.Clone(outer)
	p.begins(yes)
	code()
	p.m.Do(module.OpBranch, end)
	p.begins(end)
	p.sums = outer
}

// endUnless ends the workgroup unless a condition holds, which is the same in all of its lanes.
func (p *printer) endUnless(on module.ID) {
	end, more := p.m.NewID(), p.m.NewID()
	p.m.Do(module.OpSelectionMerge, more, module.SelectionControlNone)
	p.m.Do(module.OpBranchConditional, on, more, end)
	p.begins(end)
	p.m.Do(module.OpReturn)
	p.begins(more)
}
