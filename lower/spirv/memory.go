package spirv

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv/module"
)

// view is a buffer as an array of elements of some bytes: 1, 4, 8 or 16. There are variables of no buffer, too.
type view struct{ param, bytes int }

// variable of a view: all views of a buffer have its binding.
func (p *printer) view(param, bytes int) module.ID {
	key := view{param, bytes}
	if p.f.Params[param].Shared > 0 {
		key.bytes = 0
	}
	if v, ok := p.views[key]; ok {
		return v
	}
	var v module.ID
	if n, unit := p.f.Params[param].Shared, p.sharedUnit(param); n > 0 {
		v = p.m.Variable(p.pointer(module.StorageClassWorkgroup, p.m.Type(module.OpTypeArray, p.vector(unit/4), p.number(uint32((n+unit-1)/unit)))), module.StorageClassWorkgroup)
	} else {
		v = p.storage(param, bytes)
	}
	p.views[key] = v
	return v
}

func (p *printer) pointer(class uint32, t module.ID) module.ID {
	return p.m.Type(module.OpTypePointer, class, t)
}

// storage declares a view of a storage buffer.
func (p *printer) storage(param, bytes int) module.ID {
	v := p.buffer(bytes, slices.Index(p.shader.Buffers, param))
	if p.stored[param] {
		p.m.Declare(module.OpDecorate, v, module.DecorationAliased)
	} else {
		p.m.Declare(module.OpDecorate, v, module.DecorationNonWritable)
	}
	return v
}

// buffer declares the storage buffer of a binding as an array of elements of some bytes.
func (p *printer) buffer(bytes, binding int) module.ID {
	array := p.m.NewType(module.OpTypeRuntimeArray, p.element(bytes))
	p.m.Declare(module.OpDecorate, array, module.DecorationArrayStride, uint32(bytes))
	block := p.m.NewType(module.OpTypeStruct, array)
	p.m.Declare(module.OpDecorate, block, module.DecorationBlock)
	p.m.Declare(module.OpMemberDecorate, block, 0, module.DecorationOffset, 0)
	v := p.m.Variable(p.pointer(module.StorageClassStorageBuffer, block), module.StorageClassStorageBuffer)
	p.m.Declare(module.OpDecorate, v, module.DecorationBinding, uint32(binding))
	p.m.Declare(module.OpDecorate, v, module.DecorationDescriptorSet, 0)
	return v
}

// element is the type of elements of some bytes.
func (p *printer) element(bytes int) module.ID {
	if bytes > 1 {
		return p.vector(bytes / 4)
	}
	p.shader.Bytes = true
	p.m.Declare(module.OpCapability, module.CapabilityStorageBuffer8BitAccess)
	p.m.Declare(module.OpCapability, module.CapabilityInt8)
	return p.m.Type(module.OpTypeInt, 8, 0)
}

// at is the pointer to the element of some bytes of a buffer at a byte address that is a multiple of them.
func (p *printer) at(param, bytes int, a address) module.ID {
	v, element := p.view(param, bytes), p.element(bytes)
	if p.f.Params[param].Shared > 0 {
		return p.sharedAt(param, bytes, p.index(a, bytes))
	}
	return p.m.Emit(module.OpAccessChain, p.pointer(module.StorageClassStorageBuffer, element), v, p.number(0), p.index(a, bytes))
}

// sharedUnit is the number of bytes of an element of a shared buffer: of one with tiles, whose rows are aligned.
func (p *printer) sharedUnit(param int) int {
	if p.vulkan && p.f.Params[param].Shared%16 == 0 {
		return 16
	}
	return 4
}

// sharedAt is the pointer to an element of some bytes, a word or a unit, of a shared buffer.
func (p *printer) sharedAt(param, bytes int, number module.ID) module.ID {
	v, pointer := p.view(param, bytes), p.pointer(module.StorageClassWorkgroup, p.element(bytes))
	if bytes == p.sharedUnit(param) {
		return p.m.Emit(module.OpAccessChain, pointer, v, number)
	}
	return p.m.Emit(module.OpAccessChain, pointer, v, p.word(module.OpShiftRightLogical, number, p.number(2)), p.and(number, 3))
}

// address is a byte address: a sum that is known at run time, 0 nothing, and a number.
type address struct {
	sum   module.ID
	align int // of sum
	off   int
}

// aligned is the largest power of two up to 16 that a is a multiple of.
func (a address) aligned() int { return lowest(16 | a.align | a.off) }

// lowest is the lowest bit of n.
func lowest(n int) int { return n & -n }

// index is the number of the element of some bytes at a.
func (p *printer) index(a address, bytes int) module.ID {
	if a.sum == 0 {
		return p.number(uint32(a.off / bytes))
	}
	shift := func(w module.ID) module.ID {
		if bytes == 1 {
			return w
		}
		return p.once(fmt.Sprint("/", w, bytes), func() module.ID { return p.word(module.OpShiftRightLogical, w, p.number(log2(bytes))) })
	}
	if a.align%bytes == 0 && a.off%bytes == 0 {
		if a.off == 0 {
			return shift(a.sum)
		}
		return p.sum(shift(a.sum), p.number(uint32(a.off/bytes)))
	}
	return shift(p.whole(a))
}

// whole is a as one word.
func (p *printer) whole(a address) module.ID {
	switch {
	case a.sum == 0:
		return p.number(uint32(a.off))
	case a.off == 0:
		return a.sum
	}
	return p.sum(a.sum, p.number(uint32(a.off)))
}

// once is what make makes, if it is not there already.
func (p *printer) once(key string, make func() module.ID) module.ID {
	id, ok := p.sums[key]
	if !ok {
		id = make()
		p.sums[key] = id
	}
	return id
}

// address is that of m. Sums of what moves with the same outer loops are there once.
func (p *printer) address(m vir.Mem) address {
	a := address{align: 1 << 12, off: m.Off}
	key := fmt.Sprint(m.Buf)
	add := func(align int, what string, term func() module.ID) {
		a.align = min(a.align, lowest(align))
		key += what
		before := a.sum
		a.sum = p.once(key, func() module.ID {
			if before == 0 {
				return term()
			}
			return p.sum(before, term())
		})
	}
	if q := p.f.Params[m.Buf]; q.Shared == 0 {
		add(p.base(m.Buf), "", func() module.ID { return p.push[m.Buf] })
	}
	for _, x := range m.Plus {
		if x.Times != 0 {
			add(x.Times*p.align(x.By), fmt.Sprint("+", x), func() module.ID { return p.times(p.push[x.By], x.Times) })
		}
	}
	for _, s := range m.Stride {
		number := p.numbers[s.Loop]
		if s.Bytes != 0 {
			add(s.Bytes, fmt.Sprint("s", s.Loop, "*", s.Bytes), func() module.ID { return p.times(number, s.Bytes) })
		}
		if s.Times != 0 {
			add(s.Times*p.align(s.By), fmt.Sprint("s", s.Loop, s.Multiple), func() module.ID {
				return p.word(module.OpIMul, number, p.times(p.push[s.By], s.Times))
			})
		}
	}
	return a
}

// align is what parameter i is a multiple of.
func (p *printer) align(i int) int {
	if n := p.f.Params[i].Align; n > 0 {
		return n
	}
	return 4
}

// base is how a pointer is aligned, in every workgroup.
func (p *printer) base(i int) int {
	n := p.align(i)
	for _, g := range p.f.Grid {
		for _, m := range g.Moves {
			if m.Param == i && p.f.Params[m.By].Int { // numbers in lists are as aligned as the pointer
				n = min(n, p.align(m.By))
			}
		}
	}
	return n
}

// times is n*w.
func (p *printer) times(w module.ID, n int) module.ID {
	switch {
	case n == 1:
		return w
	case n > 0 && lowest(n) == n:
		return p.word(module.OpShiftLeftLogical, w, p.number(log2(n)))
	}
	return p.word(module.OpIMul, w, p.number(uint32(n)))
}

// ahead computes what addresses in a loop are sums of and the loop does not change.
func (p *printer) ahead(l *vir.Loop) {
	open := func(loop int) bool { _, ok := p.numbers[loop]; return ok }
	vir.Walk(l.Body, func(in *vir.Instr, _ []*vir.Loop) {
		if !in.HasMem() || in.Op == vir.OpPrefetch || in.Op == vir.OpPrefetch2 {
			return
		}
		m := in.Mem
		for n, s := range m.Stride {
			if !open(s.Loop) {
				m.Stride = m.Stride[:n]
				break
			}
		}
		p.address(m)
	})
}

// listed is the number of a loop over a list in iteration i.
func (p *printer) listed(l *vir.Loop, i module.ID) module.ID { return p.inList(l.List-1, i) }

// inList is number i of the list that a parameter points to.
func (p *printer) inList(param int, i module.ID) module.ID {
	a := address{sum: p.sum(p.push[param], p.times(i, 4)), align: 4}
	return p.m.Emit(module.OpLoad, p.uint, p.at(param, 4, a))
}

// load reads a register's bytes in accesses as wide as its address allows.
func (p *printer) load(in *vir.Instr) []module.ID {
	defer p.m.For(p.m.For(in.From))
	t, a := p.f.Regs[in.Dst], p.address(in.Mem)
	if in.Op == vir.OpLoadSplat {
		return slices.Repeat(p.loadBytes(in.Mem.Buf, a, t.Elem.Bytes()), size(t))
	}
	return p.loadBytes(in.Mem.Buf, a, t.Bytes())
}

// loadBytes reads bytes at a.
func (p *printer) loadBytes(param int, a address, bytes int) (out []module.ID) {
	if bytes < 4 || a.aligned() < 4 {
		return p.loadParts(param, a, bytes)
	}
	unit := p.unit(param, a, bytes)
	for ; bytes > 0; bytes -= unit {
		x := p.loadAt(param, p.vector(unit/4), p.at(param, unit, a))
		if unit == 4 {
			out = append(out, x)
		}
		for i := 0; unit > 4 && i < unit/4; i++ {
			out = append(out, p.m.Emit(module.OpCompositeExtract, p.uint, x, uint32(i)))
		}
		a.off += unit
	}
	return out
}

// unit is the widest access for some bytes at a.
func (p *printer) unit(param int, a address, bytes int) int {
	unit := min(bytes, a.aligned(), 16)
	if p.f.Params[param].Shared > 0 && unit != p.sharedUnit(param) {
		return 4
	}
	return unit
}

// loadParts reads bytes that no whole words hold: the bits of two words. The second matters only if the address is
// no multiple of the bytes.
func (p *printer) loadParts(param int, a address, bytes int) (out []module.ID) {
	crosses := a.aligned() < min(bytes, 4)
	for ; bytes > 0; bytes -= 4 {
		at := p.whole(a)
		place := p.word(module.OpShiftLeftLogical, p.word(module.OpBitwiseAnd, at, p.number(3)), p.number(3))
		low := p.word(module.OpShiftRightLogical, p.loadWord(param, at, 0), place)
		if crosses {
			high := p.word(module.OpShiftLeftLogical, p.loadWord(param, at, 4), p.number(1))
			low = p.word(module.OpBitwiseOr, low, p.word(module.OpShiftLeftLogical, high, p.word(module.OpBitwiseXor, place, p.number(31))))
		}
		out = append(out, low)
		a.off += 4
	}
	return out
}

// loadWord reads the whole word with the byte at an address, or the one that many bytes behind it.
func (p *printer) loadWord(param int, at module.ID, behind int) module.ID {
	index := p.word(module.OpShiftRightLogical, at, p.number(2))
	if behind > 0 {
		index = p.sum(index, p.number(uint32(behind/4)))
	}
	if p.f.Params[param].Shared > 0 {
		return p.loadAt(param, p.uint, p.sharedAt(param, 4, index))
	}
	v := p.view(param, 4)
	return p.loadAt(param, p.uint, p.m.Emit(module.OpAccessChain, p.pointer(module.StorageClassStorageBuffer, p.uint), v, p.number(0), index))
}

// store writes a register's bytes, by one of the lanes whose loops are not around it.
func (p *printer) store(in *vir.Instr) []module.ID {
	p.firstOf(vir.Product(p.shader.Lanes[p.depth:]), func() { p.storeHere(in) })
	return nil
}

// storeHere writes words as load reads them, other bytes one by one.
func (p *printer) storeHere(in *vir.Instr) {
	w, a, param := p.arg(in, 0), p.address(in.Mem), in.Mem.Buf
	bytes := p.f.Regs[in.Args[0]].Bytes()
	if bytes < 4 || a.aligned() < 4 {
		if p.f.Params[param].Shared > 0 {
			p.refuse(p.f.Format(in), "lanes store whole words to a buffer that they share")
			return
		}
		p.storeBytes(param, a, w, bytes)
		return
	}
	unit := p.unit(param, a, bytes)
	for ; len(w) > 0; w = w[unit/4:] {
		x := w[0]
		if unit > 4 {
			x = p.m.Emit(module.OpCompositeConstruct, p.vector(unit/4), w[:unit/4]...)
		}
		p.storeAt(param, p.at(param, unit, a), x)
		a.off += unit
	}
}

func (p *printer) storeBytes(param int, a address, w []module.ID, bytes int) {
	for i := range bytes {
		x := w[i/4]
		if i%4 > 0 {
			x = p.word(module.OpShiftRightLogical, x, p.number(uint32(8*(i%4))))
		}
		p.storeAt(param, p.at(param, 1, a), p.m.Emit(module.OpUConvert, p.element(1), x))
		a.off++
	}
}

// class is where the buffer of a parameter is.
func (p *printer) class(param int) uint32 {
	if p.f.Params[param].Shared > 0 {
		return module.StorageClassWorkgroup
	}
	return module.StorageClassStorageBuffer
}

// loadAt reads at a pointer into a buffer.
func (p *printer) loadAt(param int, t, pointer module.ID) module.ID {
	return p.m.Emit(module.OpLoad, t, append([]module.ID{pointer}, p.access(p.exchanges(param))...)...)
}

// storeAt writes at a pointer into a buffer.
func (p *printer) storeAt(param int, pointer, x module.ID) {
	p.m.Do(module.OpStore, append([]module.ID{pointer, x}, p.access(p.exchanges(param))...)...)
}

// barrier waits for the lanes of the workgroup.
func (p *printer) barrier(*vir.Instr) []module.ID {
	memory := uint32(module.MemorySemanticsWorkgroupMemory)
	for i := range p.f.Params {
		if p.f.Params[i].Shared == 0 && p.exchanges(i) {
			memory |= module.MemorySemanticsUniformMemory
		}
	}
	p.wait(module.ScopeWorkgroup, memory)
	return nil
}
