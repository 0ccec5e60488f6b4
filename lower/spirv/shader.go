package spirv

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv/module"
)

// Shader is a printed function, and how it is called. Purposes of its lines are the vir.Instr.From of what they are made for. Buffers are storage buffers of descriptor set 0, whose sizes are
// rounded up to words with another word behind them. Push constants are words: for each parameter of Params in its order,
// an integer, or how many bytes a pointer is behind the beginning of its buffer. Numbers of bytes are multiples of 4, or of
// what the parameter's Align says.
type Shader struct {
	*module.Module
	Params  []int // of the function, by push constant
	Buffers []int // the pointers among them, by binding
	Lanes   []int // of a workgroup, by the depth of their loops; along x, all of them
	// Subgroup is the size of the subgroups that it needs, all of them full; 0: any.
	Subgroup int
	Grid     []int // parameters that count workgroups, along x, y and z
	Bytes    bool  // it stores less than a word, which needs storageBuffer8BitAccess
	// Parts is how many workgroups share each sum, in the dimension behind Grid; 0: they share none. They do it in another buffer, with the binding behind
	// Buffers: Sums words for each combination of numbers in the dimensions of Grid, and EachSums more for each iteration of the loop that is dealt to them,
	// which parameter Iterations counts. Its words are 0 before and after each call.
	Parts, Sums, EachSums, Iterations int
	Shapes                            []Shape // products of cooperative matrices, which need VK_KHR_cooperative_matrix and VulkanMemoryModel
}

// Controls say what a shader asks of a device, which has it or has not.
type Controls struct {
	// Of 32-bit floats: shaderRoundingModeRTEFloat32 and so on. Without them the device chooses: results that are no numbers or
	// less than 2^-126, or all roundings, may differ.
	RoundToEven, Denormals, NotNumbers bool
	// Halves says that the device has 16-bit floats below 2^-14: shaderDenormPreserveFloat16.
	Halves bool
	// Matrices says that the device rounds each sum and each product of cooperative matrices of floats, as NoContraction asks. Mesa's
	// drivers of 2026 join them with others. Without it, lanes compute the elements that they have, one by one.
	Matrices bool
	// Subgroup is the number of lanes that exchange words without memory, by shuffles; 0: none. The pipeline asks for full
	// subgroups of this size. A function with tiles says itself how large they are. Subgroups is how many of them a workgroup may have; 0: any number.
	Subgroup, Subgroups int
}

// Print makes a shader of a function selected for t. The error is a *nest.Refused: the function has what no shader has.
func (t Target) Print(s *lower.Selected, c Controls) (*Shader, error) {
	if s.Func.Repeat != nil {
		return nil, &nest.Refused{What: s.Func.Name, Reason: "tiles follow one another: bind the tiles of rows to group"}
	}
	p := newPrinter(s)
	if n := holders(s.Func); n > 0 {
		if c.Subgroup != 0 && c.Subgroup != n {
			return nil, &nest.Refused{What: s.Func.Name, Reason: fmt.Sprintf("%d lanes hold a tile, and subgroups have %d", n, c.Subgroup)}
		}
		p.shader.Subgroup = n
	} else if n := vir.Product(p.shader.Lanes); c.Subgroup > 0 && n%c.Subgroup == 0 && (c.Subgroups == 0 || n/c.Subgroup <= c.Subgroups) {
		p.shader.Subgroup = c.Subgroup
	}
	p.declare(t.m.Has, c)
	if n := len(p.shader.Params); n > vir.MaxWords {
		return nil, &nest.Refused{What: s.Func.Name, Reason: fmt.Sprintf("%d parameters, at most %d fit the push constants of all devices", n, vir.MaxWords)}
	}
	p.one = p.oneWord()
	p.begin()
	p.body(p.early(s.Func.Body))
	p.m.Do(module.OpReturn)
	p.m.Do(module.OpFunctionEnd)
	if p.refused != nil {
		return nil, p.refused
	}
	return p.shader, nil
}

// printer writes the module of a function.
type printer struct {
	*shaderTypes
	m       *module.Module
	f       *vir.Func
	rows    map[*vir.Instr]*lower.Row
	shader  *Shader
	regs    [][]module.ID              // the words of each register
	halves  bool                       // the device reads floats of 16 bits as they are
	rounds  bool                       // it rounds each operation on matrices of floats
	one     map[vir.Reg]bool           // vectors of sums that are kept in one word
	loaded  map[*vir.Instr][]module.ID // words that the code before has loaded
	floats  map[module.ID]module.ID    // words that are floats' bits, as floats
	push    map[int]module.ID          // numbers of parameters that the function has read
	views   map[view]module.ID         // variables of buffers
	numbers map[int]module.ID          // of open loops, by ID
	sums    map[string]module.ID       // parts of addresses that are there, by what they are
	stored  map[int]bool               // parameters that the function stores to
	fetched map[int]bool               // parameters that it loads from
	main    module.ID
	block   module.ID          // the variable of the push constants
	inputs  [3]module.ID       // the variables of the workgroup and of the lane in it, or in its subgroup and of that
	label   module.ID          // of the block that is being written
	self    module.ID          // number of the lane in its workgroup
	ids     []module.ID        // of the lane in loops of lanes, by depth
	depth   int                // loops of lanes around
	joins   int                // the next loops of lanes are joined with the one around
	words   map[bool]module.ID // the shared buffers by which lanes exchange words: in subgroups, and others
	vulkan  bool               // the memory model is Vulkan's
	dealt   dealt
	turn    *inTurn // nil: workgroups add up no floats
	refused error   // the first thing that no shader has
}

// shaderTypes are the types that all shaders have.
type shaderTypes struct{ void, bool, uint, f32, byte module.ID }

func newPrinter(s *lower.Selected) *printer {
	p := &printer{m: module.New(), f: s.Func, rows: s.Rows, regs: make([][]module.ID, len(s.Func.Regs)), floats: map[module.ID]module.ID{}, words: map[bool]module.ID{},
		push: map[int]module.ID{}, views: map[view]module.ID{}, loaded: map[*vir.Instr][]module.ID{}, numbers: map[int]module.ID{}, sums: map[string]module.ID{}, stored: map[int]bool{}, fetched: map[int]bool{}}
	vir.Walk(s.Func.Body, func(in *vir.Instr, _ []*vir.Loop) {
		switch {
		case in.Op.Stores():
			p.stored[in.Mem.Buf] = true
		case in.HasMem():
			p.fetched[in.Mem.Buf] = true
		}
	})
	p.shader = &Shader{Module: p.m, Lanes: s.Func.Lanes()}
	p.shaderTypes = &shaderTypes{p.m.Type(module.OpTypeVoid), p.m.Type(module.OpTypeBool), p.m.Type(module.OpTypeInt, 32, 0), p.m.Type(module.OpTypeFloat, 32), 0}
	for _, g := range s.Func.Grid {
		p.shader.Grid = append(p.shader.Grid, g.Count)
	}
	return p
}

// declare writes what stands before all types, and the variables.
func (p *printer) declare(has lower.Features, c Controls) {
	p.m.Declare(module.OpCapability, module.CapabilityShader)
	if has&Dot != 0 {
		p.m.Declare(module.OpCapability, module.CapabilityDotProduct)
		p.m.Declare(module.OpCapability, module.CapabilityDotProductInput4x8BitPacked)
	}
	model := module.MemoryModelGLSL450
	if p.vulkan = holders(p.f) > 0; p.vulkan {
		model = module.MemoryModelVulkan
		p.m.Declare(module.OpCapability, module.CapabilityVulkanMemoryModel)
		p.m.Declare(module.OpCapability, module.CapabilityCooperativeMatrixKHR)
		p.m.Declare(module.OpExtension, module.String("SPV_KHR_cooperative_matrix")...)
	}
	p.m.Declare(module.OpMemoryModel, module.AddressingModelLogical, model)
	p.main = p.m.NewID()
	p.m.Declare(module.OpExecutionMode, p.main, module.ExecutionModeLocalSize, uint32(vir.Product(p.shader.Lanes)), 1, 1)
	p.halves, p.rounds = c.Halves, c.Matrices
	for _, x := range []struct {
		on                     bool
		capability, mode, bits uint32
	}{
		{c.RoundToEven, module.CapabilityRoundingModeRTE, module.ExecutionModeRoundingModeRTE, 32},
		{c.Denormals, module.CapabilityDenormPreserve, module.ExecutionModeDenormPreserve, 32},
		{c.Halves, module.CapabilityDenormPreserve, module.ExecutionModeDenormPreserve, 16},
		{c.NotNumbers, module.CapabilitySignedZeroInfNanPreserve, module.ExecutionModeSignedZeroInfNanPreserve, 32},
	} {
		if x.on {
			p.m.Declare(module.OpCapability, x.capability)
			p.m.Declare(module.OpExecutionMode, p.main, x.mode, x.bits)
		}
	}
	p.variables()
}

// used says which parameters the function needs.
func (p *printer) used() []bool {
	used := make([]bool, len(p.f.Params))
	multiple := func(x vir.Multiple) {
		if x.Times != 0 {
			used[x.By] = true
		}
	}
	vir.Walk(p.f.Body, func(in *vir.Instr, loops []*vir.Loop) {
		for _, l := range loops {
			if l.Count.Param >= 0 {
				used[l.Count.Param] = true
			}
			if l.List > 0 {
				used[l.List-1] = true
			}
		}
		if !in.HasMem() || in.Op == vir.OpPrefetch || in.Op == vir.OpPrefetch2 {
			return
		}
		used[in.Mem.Buf] = true
		for _, s := range in.Mem.Stride {
			multiple(s.Multiple)
		}
		for _, x := range append(in.Mem.Plus[:], in.Mem.Apart.Multiple) {
			multiple(x)
		}
	})
	for i, g := range p.f.Grid {
		for _, m := range g.Moves {
			used[m.By] = used[m.By] || used[m.Param]
		}
		if i+1 < len(p.f.Grid) && p.f.Part() != nil { // for the number of a workgroup
			used[g.Count] = true
		}
	}
	return used
}

// variables declares what the function is given: the block of push constants, and the numbers of the workgroup and of the
// lane in it. Buffers are declared when they are used.
func (p *printer) variables() {
	p.inputs[0] = p.input(p.m.Type(module.OpTypeVector, p.uint, 3), module.BuiltInWorkgroupId)
	if p.shader.Subgroup == 0 {
		p.inputs[1] = p.input(p.uint, module.BuiltInLocalInvocationIndex)
	} else {
		p.inputs[1] = p.input(p.uint, module.BuiltInSubgroupLocalInvocationId)
		p.inputs[2] = p.input(p.uint, module.BuiltInSubgroupId)
		p.m.Declare(module.OpCapability, module.CapabilityGroupNonUniform)
		p.m.Declare(module.OpCapability, module.CapabilityGroupNonUniformShuffle)
	}
	for i, used := range p.used() {
		if !used || p.f.Params[i].Shared > 0 {
			continue
		}
		p.shader.Params = append(p.shader.Params, i)
		if !p.f.Params[i].Int {
			p.shader.Buffers = append(p.shader.Buffers, i)
		}
	}
	if n := len(p.shader.Params); n > 0 {
		p.constants(n)
	}
}

// input is a variable that the device sets.
func (p *printer) input(t module.ID, builtIn uint32) module.ID {
	v := p.variable(t, module.StorageClassInput)
	p.m.Declare(module.OpDecorate, v, module.DecorationBuiltIn, builtIn)
	return v
}

// constants declares a block of n push constants.
func (p *printer) constants(n int) {
	block := p.m.NewType(module.OpTypeStruct, slices.Repeat([]uint32{p.uint}, n)...)
	p.m.Declare(module.OpDecorate, block, module.DecorationBlock)
	for i := range n {
		p.m.Declare(module.OpMemberDecorate, block, uint32(i), module.DecorationOffset, uint32(4*i))
	}
	p.block = p.variable(block, module.StorageClassPushConstant)
}

// variable is a new variable of type t.
func (p *printer) variable(t module.ID, class uint32) module.ID {
	return p.m.Variable(p.pointer(class, t), class)
}

// begin writes the head of the function and reads the parameters.
func (p *printer) begin() {
	p.m.Function(p.main, p.void, p.m.Type(module.OpTypeFunction, p.void))
	p.begins(p.m.NewID())
	pointer := p.m.Type(module.OpTypePointer, module.StorageClassPushConstant, p.uint)
	for i, param := range p.shader.Params {
		at := p.m.Emit(module.OpAccessChain, pointer, p.block, p.number(uint32(i)))
		p.push[param] = p.m.Emit(module.OpLoad, p.uint, at)
	}
	if len(p.f.Grid) > 0 {
		p.move(p.m.Emit(module.OpLoad, p.m.Type(module.OpTypeVector, p.uint, 3), p.inputs[0]))
	}
	if p.shader.Lanes != nil {
		p.digits()
	}
}

// move moves pointers to where the workgroup with these numbers begins.
func (p *printer) move(ids module.ID) {
	for d, g := range p.f.Grid {
		id := p.m.Emit(module.OpCompositeExtract, p.uint, ids, uint32(d))
		for _, m := range g.Moves {
			if base, ok := p.push[m.Param]; ok {
				p.push[m.Param] = p.sum(base, p.moved(id, m.By))
			}
		}
	}
}

// moved is how far a parameter, a number of bytes or a list of them, moves a pointer to the workgroup with number id.
func (p *printer) moved(id module.ID, by int) module.ID {
	if p.f.Params[by].Int {
		return p.word(module.OpIMul, id, p.push[by])
	}
	return p.inList(by, id)
}

// digits finds the number of the lane in each loop of lanes: digits of its number in the workgroup.
func (p *printer) digits() {
	p.self = p.m.Emit(module.OpLoad, p.uint, p.inputs[1])
	if n := p.shader.Subgroup; n > 0 {
		p.self = p.sum(p.self, p.times(p.m.Emit(module.OpLoad, p.uint, p.inputs[2]), n))
	}
	for i, n := range p.shader.Lanes {
		id := p.self
		if inner := vir.Product(p.shader.Lanes[i+1:]); inner > 1 {
			id = p.word(module.OpUDiv, id, p.number(uint32(inner)))
		}
		if i > 0 {
			id = p.word(module.OpUMod, id, p.number(uint32(n)))
		}
		p.ids = append(p.ids, id)
	}
}

// begins begins a block.
func (p *printer) begins(id module.ID) {
	p.m.Label(id)
	p.label = id
}

// body writes nodes.
func (p *printer) body(body []vir.Node) {
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			before := p.m.For(n.From)
			var words []module.ID
			if w, ok := p.loaded[n]; ok {
				words = w
			} else if p.one[n.Dst] || n.Op == vir.OpRedAdd && p.one[n.Args[0]] {
				words = p.summed(n)
			} else {
				words = p.rows[n].Code.(emit)(p, n)
			}
			if n.Dst != vir.NoReg {
				p.regs[n.Dst] = words
			}
			p.m.For(before)
		case *vir.Loop:
			switch {
			case n.Lane:
				p.lanes(n)
			case n.Part:
				p.part(n)
			default:
				p.loop(n)
			}
		}
	}
}

// lanes writes the body of a loop of lanes for the one lane that runs it.
func (p *printer) lanes(l *vir.Loop) {
	p.ahead(l)
	p.numbers[l.ID] = p.ids[p.depth]
	if p.joins > 0 { // with the loop around it
		p.joins--
		p.depth++
		p.body(l.Body)
		p.depth--
		return
	}
	joined := p.f.Joined(l)
	p.joins = len(joined)
	outer, values := p.sums, make([][]module.ID, len(l.Carried))
	p.sums = maps.Clone(outer)
	for i, r := range l.Carried {
		values[i] = p.regs[r]
		nothing := p.number(0)
		if p.f.Regs[r].Elem == format.F32 {
			nothing = p.number(1 << 31) // -0
		}
		if !l.Max {
			p.regs[r] = slices.Repeat([]module.ID{nothing}, len(values[i]))
		}
	}
	p.depth++
	p.body(l.Body)
	p.depth--
	if t := p.turn; t != nil && len(t.lanes) > 0 && t.lanes[0] == l {
		t.keep(p)
		p.sums = outer
		return
	}
	p.sums = outer
	if len(l.Carried) > 0 {
		p.across(l, values, joined)
	}
}

// across combines values with what lanes carry, of a loop and of the ones that are joined with it. It combines integers by lanes that are 1, 2, 4 and so
// on lanes of the loops apart, if their number is a power of two. Floats are added in the order of lanes.
func (p *printer) across(l *vir.Loop, values [][]module.ID, joined []*vir.Loop) {
	defer p.m.For(p.m.For(0))
	n, inner, combine := lanesOf(l, joined), vir.Product(p.shader.Lanes[p.depth+1+len(joined):]), p.sum
	if l.Max {
		combine = p.larger
	}
	for _, float := range []bool{false, true} {
		var parts, sums []module.ID
		for i, r := range l.Carried {
			if (p.f.Regs[r].Elem == format.F32) == float {
				if parts == nil {
					p.m.For(carriedFor(l, r))
				}
				parts, sums = append(parts, p.regs[r]...), append(sums, values[i]...)
			}
		}
		switch {
		case len(parts) == 0:
			continue
		case float:
			sums = p.inOrder(parts, sums, n, inner, func(a, b module.ID) module.ID { return p.float(module.OpFAdd, a, b) })
		case n&(n-1) != 0:
			sums = p.inOrder(parts, sums, n, inner, combine)
		default:
			for step := 1; step < n; step *= 2 {
				parts = p.exchange(parts, step*inner, combine)
			}
			for i, x := range parts {
				sums[i] = combine(sums[i], x)
			}
		}
		for _, r := range l.Carried {
			if k := len(p.regs[r]); (p.f.Regs[r].Elem == format.F32) == float {
				p.regs[r], sums = sums[:k:k], sums[k:]
			}
		}
	}
}

// carriedFor is what the instruction in a loop is made for that computes a register which the loop carries.
func carriedFor(l *vir.Loop, r vir.Reg) (from int) {
	vir.Walk(l.Body, func(in *vir.Instr, _ []*vir.Loop) {
		if in.Dst == r {
			from = in.From
		}
	})
	return from
}

// team is how many lanes an iteration of the loops around the lanes' loop has, and whether a subgroup holds all of them.
func (p *printer) team() (n int, together bool) {
	n = vir.Product(p.shader.Lanes[p.depth:])
	return n, p.within(n)
}

// lanesOf is the number of lanes of a loop and of the ones that are joined with it.
func lanesOf(l *vir.Loop, joined []*vir.Loop) int {
	n := l.Count.Const
	for _, x := range joined {
		n *= x.Count.Const
	}
	return n
}

// exchange combines each lane's words with the words of the lane whose number in its workgroup differs in the bit by.
func (p *printer) exchange(words []module.ID, by int, combine func(a, b module.ID) module.ID) (sums []module.ID) {
	apart := p.number(uint32(by))
	if by < p.shader.Subgroup && p.shader.Subgroup%(2*by) == 0 {
		for _, w := range words {
			sums = append(sums, combine(w, p.word(module.OpGroupNonUniformShuffleXor, p.number(module.ScopeSubgroup), w, apart)))
		}
		return sums
	}
	n, _ := p.team()
	p.put(words, p.self, vir.Product(p.shader.Lanes), n)
	other := p.word(module.OpBitwiseXor, p.self, apart)
	for i, w := range words {
		sums = append(sums, combine(w, p.get(other, i*vir.Product(p.shader.Lanes), n)))
	}
	return sums
}

// inOrder adds to sums the words of count lanes, whose numbers are inner apart, in their order. Each lane adds up one of the words, from a shared buffer, and gives
// it to the others. Rows of the buffer have an odd length, so that lanes read different banks.
func (p *printer) inOrder(words, sums []module.ID, count, inner int, add func(a, b module.ID) module.ID) (out []module.ID) {
	n, together := p.team()
	if len(words) > n {
		return append(p.inOrder(words[:n], sums[:n], count, inner, add), p.inOrder(words[n:], sums[n:], count, inner, add)...)
	}
	pitch := n | 1
	self, first := p.place(n, len(words)*pitch)
	p.put(words, p.sum(first, self), pitch, n)
	sum, mine := sums[0], p.number(0)
	if len(words) > 1 {
		mine = p.word(module.OpUMod, self, p.number(uint32(len(words))))
		for i, x := range sums[1:] {
			sum = p.choose(p.equal(mine, p.number(uint32(i+1))), x, sum)
		}
	}
	row := p.sum(first, p.times(mine, pitch))
	for i := range count {
		sum = add(sum, p.get(row, i*inner, n))
	}
	switch {
	case len(words) == 1:
		return []module.ID{sum}
	case together:
		lane := p.word(module.OpISub, p.and(p.self, uint32(p.shader.Subgroup-1)), self)
		for i := range words {
			out = append(out, p.word(module.OpGroupNonUniformShuffle, p.number(module.ScopeSubgroup), sum, p.sum(lane, p.number(uint32(i)))))
		}
		return out
	}
	p.put([]module.ID{sum}, p.sum(first, self), 0, n)
	for i := range words {
		out = append(out, p.get(first, i, n))
	}
	return out
}

// place is the number of the lane in its block of n lanes, and where the words of the block begin in the exchanged buffer, which has some words for each block.
func (p *printer) place(n, words int) (self, first module.ID) {
	if n == vir.Product(p.shader.Lanes) {
		return p.self, p.number(0)
	}
	self = p.word(module.OpUMod, p.self, p.number(uint32(n)))
	if !p.within(n) {
		return self, p.times(p.word(module.OpUDiv, p.self, p.number(uint32(n))), words)
	}
	of := p.shader.Subgroup
	first = p.times(p.word(module.OpUDiv, p.self, p.number(uint32(of))), p.room(p.f.Body, 0).subgroup)
	if n < of {
		first = p.sum(first, p.times(p.word(module.OpUDiv, p.and(p.self, uint32(of-1)), p.number(uint32(n))), words))
	}
	return self, first
}

// put stores a lane's words from a place of the exchanged buffer on, some words apart, when no lane of its block reads what was
// there before; and waits for the others.
func (p *printer) put(words []module.ID, at module.ID, apart, block int) {
	p.together(block)
	for i, w := range words {
		p.m.Do(module.OpStore, append([]module.ID{p.exchanged(p.sum(at, p.number(uint32(i*apart))), block), w}, p.access(true)...)...)
	}
	p.together(block)
}

// get reads the word that is some words behind a place of the buffer that lanes of a block exchange.
func (p *printer) get(at module.ID, behind, block int) module.ID {
	return p.m.Emit(module.OpLoad, p.uint, append([]module.ID{p.exchanged(p.sum(at, p.number(uint32(behind))), block)}, p.access(true)...)...)
}

// within says that the lanes of a block are in one subgroup, rather than anywhere in the workgroup.
func (p *printer) within(block int) bool {
	return p.shader.Subgroup > 0 && p.shader.Subgroup%block == 0
}

// together waits for the lanes of a block.
func (p *printer) together(block int) {
	scope := uint32(module.ScopeWorkgroup)
	if p.within(block) {
		scope = module.ScopeSubgroup
	}
	p.wait(scope, module.MemorySemanticsWorkgroupMemory)
}

// wait waits for the lanes of a scope, and for what they have stored in some memory. In Vulkan's memory model stores must be made available, and visible.
func (p *printer) wait(scope, memory uint32) {
	order := module.MemorySemanticsAcquireRelease | memory
	if p.vulkan {
		order |= module.MemorySemanticsMakeAvailable | module.MemorySemanticsMakeVisible
	}
	p.m.Do(module.OpControlBarrier, p.number(scope), p.number(scope), p.number(order))
}

// exchanged is a word of the shared buffer by which lanes of a block exchange words. Blocks in subgroups have another one than blocks of several subgroups,
// with a part for each subgroup: subgroups do not wait for each other there, so that none may write where another one reads.
func (p *printer) exchanged(at module.ID, block int) module.ID {
	within := p.within(block)
	if p.words[within] == 0 {
		room := p.room(p.f.Body, 0)
		n := room.workgroup
		if within {
			n = room.subgroup * (vir.Product(p.shader.Lanes) / p.shader.Subgroup)
		}
		p.words[within] = p.variable(p.m.Type(module.OpTypeArray, p.uint, p.number(uint32(n))), module.StorageClassWorkgroup)
	}
	return p.m.Emit(module.OpAccessChain, p.pointer(module.StorageClassWorkgroup, p.uint), p.words[within], at)
}

// room is how many words lanes exchange at once, at most: all blocks of several subgroups, and the blocks in a subgroup.
type room struct{ workgroup, subgroup int }

// room is that of the loops of lanes in body, with rows of an odd length.
func (p *printer) room(body []vir.Node, depth int) (most room) {
	for _, n := range body {
		l, ok := n.(*vir.Loop)
		if !ok {
			continue
		}
		inside := depth
		if l.Lane {
			inside++
			words := 0
			for _, r := range l.Carried {
				words += size(p.f.Regs[r])
			}
			block := vir.Product(p.shader.Lanes[depth:])
			if p.within(block) {
				most.subgroup = max(most.subgroup, min(words, block)*(block|1)*(p.shader.Subgroup/block))
			} else {
				most.workgroup = max(most.workgroup, words*(block|1)*(vir.Product(p.shader.Lanes)/block))
			}
		}
		in := p.room(l.Body, inside)
		most = room{max(most.workgroup, in.workgroup), max(most.subgroup, in.subgroup)}
	}
	return most
}

// loop writes a loop: a block that decides whether there is another iteration, the body, and a block that counts.
func (p *printer) loop(l *vir.Loop) {
	p.ahead(l)
	head, body, next, end := p.m.NewID(), p.m.NewID(), p.m.NewID(), p.m.NewID()
	before, loads := p.label, p.inAdvance(l)
	first, by := p.number(0), 1
	if l.Dealt {
		first, by = p.dealt.part, p.dealt.n
	}
	p.readFirst(loads, first, l)
	tiles := p.carriedTiles(l)
	p.m.Do(module.OpBranch, head)
	p.begins(head)
	number, patch := p.phi(first, before, next)
	carried := p.carried(l, before, next)
	p.await(loads, before, next)
	more := p.m.Emit(module.OpSLessThan, p.bool, number, p.count(l.Count))
	p.m.Do(module.OpLoopMerge, end, next, module.LoopControlNone)
	p.m.Do(module.OpBranchConditional, more, body, end)
	p.begins(body)
	outer := p.sums
	p.sums = maps.Clone(outer)
	p.numbers[l.ID] = number
	if l.List > 0 {
		p.numbers[l.ID] = p.listed(l, number)
	}
	p.upcoming(loads, number, by, l)
	p.loadTiles(tiles)
	if len(tiles) > 0 {
		p.loadEarly(l.Body)
	}
	p.turn.nothing(p, l)
	p.body(l.Body)
	if t := p.turn; t != nil && t.dealt == l && len(t.lanes) == 0 {
		t.keep(p)
	}
	for _, c := range tiles {
		before := p.m.For(c.from)
		p.m.Do(module.OpStore, c.variable, p.regs[c.reg][0])
		p.m.For(before)
	}
	p.m.Do(module.OpBranch, next)
	p.begins(next)
	p.m.Patch(patch, p.word(module.OpIAdd, number, p.number(uint32(by))))
	for _, c := range carried {
		for i, at := range c.patches {
			p.m.Patch(at, p.regs[c.reg][i])
		}
		p.regs[c.reg] = c.phis
	}
	p.m.Do(module.OpBranch, head)
	p.begins(end)
	p.loadTiles(tiles)
	p.sums = outer
}

// loadEarly begins with what the lanes in a body load from buffers that nobody stores to: it comes while the matrices before
// it are multiplied.
func (p *printer) loadEarly(body []vir.Node) {
	for _, n := range body {
		l, ok := n.(*vir.Loop)
		if !ok || !l.Lane {
			continue
		}
		p.numbers[l.ID] = p.ids[p.depth]
		p.depth++
		for _, n := range l.Body {
			if in, ok := n.(*vir.Instr); ok && in.Op == vir.OpLoad && p.loaded[in] == nil && p.class(in.Mem.Buf) == module.StorageClassStorageBuffer && !p.stored[in.Mem.Buf] {
				p.loaded[in] = p.load(in)
			}
		}
		p.loadEarly(l.Body)
		p.depth--
	}
}

// carriedTile is a matrix that a loop carries, in a variable of the function: drivers know these better than phis of matrices.
type carriedTile struct {
	reg      vir.Reg
	variable module.ID
	from     int // what it is for
}

// carriedTiles stores the matrices that l carries.
func (p *printer) carriedTiles(l *vir.Loop) (all []carriedTile) {
	for _, r := range l.Carried {
		if t := p.f.Regs[r]; t.Tile() {
			from := carriedFor(l, r)
			before := p.m.For(from)
			v := p.m.Local(p.pointer(module.StorageClassFunction, p.tile(t)))
			p.m.Do(module.OpStore, v, p.regs[r][0])
			all = append(all, carriedTile{r, v, from})
			p.m.For(before)
		}
	}
	return all
}

func (p *printer) loadTiles(all []carriedTile) {
	for _, c := range all {
		before := p.m.For(c.from)
		p.regs[c.reg] = []module.ID{p.m.Emit(module.OpLoad, p.tile(p.f.Regs[c.reg]), c.variable)}
		p.m.For(before)
	}
}

// carry is a register that a loop carries.
type carry struct {
	reg     vir.Reg
	phis    []module.ID
	patches []int
}

func (p *printer) carried(l *vir.Loop, before, next module.ID) (all []carry) {
	for _, r := range l.Carried {
		if p.f.Regs[r].Tile() || p.turn != nil && p.turn.dealt == l {
			continue
		}
		c := carry{reg: r}
		outer := p.m.For(carriedFor(l, r))
		for _, w := range p.regs[r] {
			id, at := p.phi(w, before, next)
			c.phis, c.patches = append(c.phis, id), append(c.patches, at)
		}
		p.m.For(outer)
		p.regs[r] = c.phis
		all = append(all, c)
	}
	return all
}

// phi is a word that is first in the first iteration. The word at the place that it returns is to be the one of the next.
func (p *printer) phi(first, before, next module.ID) (id module.ID, patch int) {
	id = p.m.Emit(module.OpPhi, p.uint, first, before, 0, next)
	return id, p.m.Mark() - 2
}

// count is a trip count.
func (p *printer) count(n vir.Extent) module.ID {
	switch {
	case n.Param < 0:
		return p.number(uint32(n.Const))
	case n.Less > 0:
		return p.word(module.OpISub, p.push[n.Param], p.number(uint32(n.Less)))
	}
	return p.push[n.Param]
}
