package device

import "github.com/tmacc/tmacc/lower/spirv/module"

// loops writes a shader whose lanes run a counted loop: the form of all that measures a device's ceilings.
type loops struct {
	*module.Module
	void, bool, uint, main module.ID
	local                  uint32
	label                  module.ID // of the block that is being written
	push                   module.ID // the variable of push constants, which are words
}

// newLoops begins a shader with local lanes a workgroup and some words of push constants.
func newLoops(local, push int) *loops {
	m := module.New()
	s := &loops{Module: m, void: m.Type(module.OpTypeVoid), bool: m.Type(module.OpTypeBool), uint: m.Type(module.OpTypeInt, 32, 0),
		main: m.NewID(), local: uint32(local)}
	s.Declare(module.OpCapability, module.CapabilityShader)
	s.Declare(module.OpExecutionMode, s.main, module.ExecutionModeLocalSize, s.local, 1, 1)
	if push > 0 {
		words := make([]uint32, push)
		for i := range words {
			words[i] = s.uint
		}
		s.push = s.block(module.StorageClassPushConstant, words...)
	}
	return s
}

// vector is the type of n words.
func (s *loops) vector(n int) module.ID {
	if n == 1 {
		return s.uint
	}
	return s.Type(module.OpTypeVector, s.uint, uint32(n))
}

// block is a variable of a struct with these members, which are words unless it has just one.
func (s *loops) block(class uint32, members ...uint32) module.ID {
	block := s.NewType(module.OpTypeStruct, members...)
	s.Declare(module.OpDecorate, block, module.DecorationBlock)
	for i := range members {
		s.Declare(module.OpMemberDecorate, block, uint32(i), module.DecorationOffset, uint32(4*i))
	}
	return s.Variable(s.Type(module.OpTypePointer, class, block), class)
}

// buffer is the variable of a storage buffer whose elements are n words.
func (s *loops) buffer(binding, n int) module.ID {
	array := s.NewType(module.OpTypeRuntimeArray, s.vector(n))
	s.Declare(module.OpDecorate, array, module.DecorationArrayStride, uint32(4*n))
	v := s.block(module.StorageClassStorageBuffer, array)
	s.Declare(module.OpDecorate, v, module.DecorationBinding, uint32(binding))
	s.Declare(module.OpDecorate, v, module.DecorationDescriptorSet, 0)
	return v
}

// input is a variable that the device sets.
func (s *loops) input(t module.ID, builtIn uint32) module.ID {
	v := s.Variable(s.Type(module.OpTypePointer, module.StorageClassInput, t), module.StorageClassInput)
	s.Declare(module.OpDecorate, v, module.DecorationBuiltIn, builtIn)
	return v
}

// begin begins the function, and returns the numbers of the workgroup and of the lane in it. The memory model stands before.
func (s *loops) begin() (group, lane module.ID) {
	ids := s.input(s.vector(3), module.BuiltInWorkgroupId)
	index := s.input(s.uint, module.BuiltInLocalInvocationIndex)
	s.Function(s.main, s.void, s.Type(module.OpTypeFunction, s.void))
	s.begins(s.NewID())
	group = s.Emit(module.OpCompositeExtract, s.uint, s.Emit(module.OpLoad, s.vector(3), ids), 0)
	return group, s.Emit(module.OpLoad, s.uint, index)
}

// end ends the function.
func (s *loops) end() []byte {
	s.Do(module.OpReturn)
	s.Do(module.OpFunctionEnd)
	return s.Binary()
}

func (s *loops) begins(label module.ID) {
	s.Label(label)
	s.label = label
}

// number is a constant.
func (s *loops) number(n int) module.ID { return s.Constant(module.OpConstant, s.uint, uint32(n)) }

// word is an operation on words.
func (s *loops) word(op module.Op, operands ...uint32) module.ID {
	return s.Emit(op, s.uint, operands...)
}

// constant reads a push constant.
func (s *loops) constant(i int) module.ID {
	pointer := s.Type(module.OpTypePointer, module.StorageClassPushConstant, s.uint)
	return s.word(module.OpLoad, s.Emit(module.OpAccessChain, pointer, s.push, s.number(i)))
}

// at points to an element, of n words, of a buffer.
func (s *loops) at(buffer module.ID, n int, index module.ID) module.ID {
	pointer := s.Type(module.OpTypePointer, module.StorageClassStorageBuffer, s.vector(n))
	return s.Emit(module.OpAccessChain, pointer, buffer, s.number(0), index)
}

// repeat writes a loop of count iterations that carries values of a type. body returns them as they are in the next iteration.
func (s *loops) repeat(count, carried module.ID, values []module.ID, body func(i module.ID, values []module.ID) []module.ID) []module.ID {
	head, inside, next, out := s.NewID(), s.NewID(), s.NewID(), s.NewID()
	before := s.label
	s.Do(module.OpBranch, head)
	s.begins(head)
	i := s.word(module.OpPhi, s.number(0), before, 0, next)
	patches := []int{s.Mark() - 2}
	phis := make([]module.ID, len(values))
	for j, v := range values {
		phis[j] = s.Emit(module.OpPhi, carried, v, before, 0, next)
		patches = append(patches, s.Mark()-2)
	}
	more := s.Emit(module.OpULessThan, s.bool, i, count)
	s.Do(module.OpLoopMerge, out, next, module.LoopControlDontUnroll)
	s.Do(module.OpBranchConditional, more, inside, out)
	s.begins(inside)
	results := body(i, phis)
	s.Do(module.OpBranch, next)
	s.begins(next)
	for j, id := range append([]module.ID{s.word(module.OpIAdd, i, s.number(1))}, results...) {
		s.Patch(patches[j], id)
	}
	s.Do(module.OpBranch, head)
	s.begins(out)
	return phis
}

// keep has the shader store a word of each lane if the words equal a number, which the compiler cannot know that they do not.
func (s *loops) keep(buffer, word, index module.ID) {
	yes, no := s.NewID(), s.NewID()
	is := s.Emit(module.OpIEqual, s.bool, word, s.number(0x5eed5eed))
	s.Do(module.OpSelectionMerge, no, module.SelectionControlNone)
	s.Do(module.OpBranchConditional, is, yes, no)
	s.begins(yes)
	s.Do(module.OpStore, s.at(buffer, 1, index), word)
	s.Do(module.OpBranch, no)
	s.begins(no)
}
