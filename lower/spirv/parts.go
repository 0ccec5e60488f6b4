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
	tile := p.m.Emit(module.OpCompositeExtract, p.uint, ids, uint32(len(p.f.Grid)-1))
	for d := len(p.f.Grid) - 2; d >= 0; d-- {
		tile = p.sum(p.word(module.OpIMul, tile, p.push[p.f.Grid[d].Count]), p.m.Emit(module.OpCompositeExtract, p.uint, ids, uint32(d)))
	}
	buffer := p.buffer(4, len(p.shader.Buffers))
	at := func(index module.ID) module.ID {
		return p.m.Emit(module.OpAccessChain, p.pointer(module.StorageClassStorageBuffer, p.uint), buffer, p.number(0), index)
	}
	done := p.times(tile, p.shader.Sums)
	lane := p.number(0) // of those around the loop
	if each > 1 {
		lane = p.word(module.OpUDiv, p.self, p.number(uint32(team)))
	}
	var places []module.ID
	for i := range words {
		places = append(places, at(p.sum(p.sum(done, p.number(uint32(1+i*each))), lane)))
	}

	const memory = module.MemorySemanticsAcquireRelease | module.MemorySemanticsUniformMemory
	device, none := p.number(module.ScopeDevice), p.number(0)
	p.firstOf(team, func() {
		for i, w := range words {
			p.m.Emit(module.OpAtomicIAdd, p.uint, places[i], device, none, w)
		}
	})
	wait := func() {
		p.m.Do(module.OpControlBarrier, p.number(module.ScopeWorkgroup), device, p.number(memory|module.MemorySemanticsWorkgroupMemory))
	}
	count := func() module.ID {
		return p.m.Emit(module.OpAtomicIAdd, p.uint, at(done), device, p.number(memory), p.number(1))
	}
	turn := p.variable(p.uint, module.StorageClassWorkgroup)
	wait()
	p.firstOf(each*team, func() { p.m.Do(module.OpStore, turn, count()) })
	wait()
	p.endUnless(p.equal(p.m.Emit(module.OpLoad, p.uint, turn), p.number(uint32(p.dealt.n-1))))
	p.m.Do(module.OpMemoryBarrier, device, p.number(memory))
	for _, x := range places {
		sums = append(sums, p.m.Emit(module.OpAtomicLoad, p.uint, x, device, none))
	}
	wait()
	clear := func(x module.ID) { p.m.Do(module.OpAtomicStore, x, device, none, p.number(0)) }
	p.firstOf(team, func() {
		for _, x := range places {
			clear(x)
		}
	})
	p.firstOf(each*team, func() { clear(at(done)) })
	return sums
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
