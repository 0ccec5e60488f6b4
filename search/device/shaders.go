package device

import (
	"slices"

	"github.com/tmacc/tmacc/lower/spirv/module"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// wide is the number of words of the widest access to memory.
const wide = 4

// through is a shader that reads elements of wide words, and stores them to a second buffer if copies. A workgroup reads
// neighbouring ones. The push constant is the number of its iterations, and each lane has some loads under way at once.
func through(local, loads int, copies bool) []byte {
	s := newLoops(local, 1)
	s.Declare(module.OpMemoryModel, module.AddressingModelLogical, module.MemoryModelGLSL450)
	from, to := s.buffer(0, wide), module.ID(0)
	if copies {
		to = s.buffer(1, wide)
	} else {
		to = s.buffer(1, 1)
	}
	group, lane := s.begin()
	count := s.constant(0)
	first := s.word(module.OpIAdd, s.word(module.OpIMul, s.word(module.OpIMul, group, count), s.number(local*loads)), lane)
	vector := s.vector(wide)
	zero := s.Constant(module.OpConstantNull, vector)
	sums := s.repeat(count, vector, []module.ID{zero}, func(i module.ID, values []module.ID) []module.ID {
		here := s.word(module.OpIAdd, first, s.word(module.OpIMul, i, s.number(local*loads)))
		var places, words []module.ID
		for j := range loads {
			places = append(places, s.word(module.OpIAdd, here, s.number(j*local)))
			words = append(words, s.Emit(module.OpLoad, vector, s.at(from, wide, places[j])))
		}
		sum := values[0]
		for j, w := range words {
			if copies {
				s.Do(module.OpStore, s.at(to, wide, places[j]), w)
			} else {
				sum = s.Emit(module.OpBitwiseXor, vector, sum, w)
			}
		}
		return []module.ID{sum}
	})
	if !copies {
		word := s.Emit(module.OpCompositeExtract, s.uint, sums[0], 0)
		for i := 1; i < wide; i++ {
			word = s.word(module.OpBitwiseXor, word, s.Emit(module.OpCompositeExtract, s.uint, sums[0], uint32(i)))
		}
		s.keep(to, word, lane)
	}
	return s.end()
}

// nothing is a shader that ends at once.
func nothing() []byte {
	s := newLoops(32, 0)
	s.Declare(module.OpMemoryModel, module.AddressingModelLogical, module.MemoryModelGLSL450)
	s.begin()
	return s.end()
}

// chained is how many dependent steps an iteration of arithmetic has.
const chained = 8

// dots is a shader of chains of dot products of four bytes in registers, or of products and sums of words. Each step
// depends on the one before it.
func dots(local, chains int, packed bool) []byte {
	s := newLoops(local, 1)
	if packed {
		s.Declare(module.OpCapability, module.CapabilityDotProduct)
		s.Declare(module.OpCapability, module.CapabilityDotProductInput4x8BitPacked)
	}
	s.Declare(module.OpMemoryModel, module.AddressingModelLogical, module.MemoryModelGLSL450)
	out := s.buffer(0, 1)
	group, lane := s.begin()
	start := s.word(module.OpIAdd, s.word(module.OpIMul, group, s.number(0x01030507)), lane)
	values := make([]module.ID, chains)
	for i := range values {
		values[i] = s.word(module.OpIAdd, start, s.number(i*0x00110103))
	}
	step := func(x module.ID) module.ID {
		if packed {
			return s.word(module.OpSDot, x, start, module.PackedVectorFormat4x8Bit)
		}
		return s.word(module.OpIMul, x, start)
	}
	values = s.repeat(s.constant(0), s.uint, values, func(_ module.ID, values []module.ID) []module.ID {
		next := append([]module.ID(nil), values...)
		for range chained {
			for i, x := range next {
				next[i] = s.word(module.OpIAdd, step(x), x)
			}
		}
		return next
	})
	word := values[0]
	for _, v := range values[1:] {
		word = s.word(module.OpBitwiseXor, word, v)
	}
	s.keep(out, word, lane)
	return s.end()
}

// component is a type of elements of matrices.
type component struct {
	signed, float bool
	bits          uint32
	capability    uint32 // 0 if all shaders have the type
}

var components = map[string]component{
	"f16": {float: true, bits: 16, capability: module.CapabilityFloat16}, "f32": {float: true, bits: 32},
	"s8": {signed: true, bits: 8, capability: module.CapabilityInt8}, "u8": {bits: 8, capability: module.CapabilityInt8},
	"s32": {signed: true, bits: 32}, "u32": {bits: 32},
}

// component is the type of elements of matrices with a name.
func (s *loops) component(name string) module.ID {
	switch c := components[name]; {
	case c.float:
		return s.Type(module.OpTypeFloat, c.bits)
	case c.signed:
		return s.Type(module.OpTypeInt, c.bits, 1)
	default:
		return s.Type(module.OpTypeInt, c.bits, 0)
	}
}

// rowWords is how many words a row of elements of a type has.
func rowWords(name string, elements int) int { return elements * int(components[name].bits) / 32 }

// matrix is the type of a cooperative matrix of a subgroup.
func (s *loops) matrix(name string, rows, cols, use int) module.ID {
	return s.Type(module.OpTypeCooperativeMatrixKHR, s.component(name), s.number(int(module.ScopeSubgroup)), s.number(rows), s.number(cols), s.number(use))
}

// tile is how many matrices A and B a subgroup holds: it sums the products of each A and each B.
type tile struct{ a, b int }

// matrices is a shader of subgroups that multiply matrices in registers. Workgroups store their sums at the same place.
func matrices(c vulkan.Cooperative, local int, t tile) []byte {
	s := newLoops(local, 1)
	s.Declare(module.OpCapability, module.CapabilityVulkanMemoryModel)
	s.Declare(module.OpCapability, module.CapabilityCooperativeMatrixKHR)
	for _, name := range []string{c.A, c.B, c.C} {
		if x := components[name].capability; x != 0 {
			s.Declare(module.OpCapability, x)
		}
	}
	s.Declare(module.OpExtension, module.String("SPV_KHR_cooperative_matrix")...)
	s.Declare(module.OpMemoryModel, module.AddressingModelLogical, module.MemoryModelVulkan)
	from, to := s.buffer(0, 1), s.buffer(1, 1)
	s.begin()
	a := s.loaded(from, s.matrix(c.A, c.M, c.K, 0), c.M, rowWords(c.A, c.K), t.a)
	b := s.loaded(from, s.matrix(c.B, c.K, c.N, 1), c.K, rowWords(c.B, c.N), t.b)
	sum := s.matrix(c.C, c.M, c.N, 2)
	sums := make([]module.ID, t.a*t.b)
	for i := range sums {
		sums[i] = s.Constant(module.OpConstantNull, sum)
	}
	sums = s.repeat(s.constant(0), sum, sums, func(_ module.ID, sums []module.ID) []module.ID {
		return s.products(sum, a, b, sums, signs(c))
	})
	row := rowWords(c.C, c.N)
	for i, x := range sums {
		s.Do(module.OpCooperativeMatrixStoreKHR, s.at(to, 1, s.number(i*c.M*row)), x, s.number(int(module.CooperativeMatrixLayoutRowMajorKHR)), s.number(row))
	}
	return s.end()
}

// loaded are n matrices of type t, of rows of some words.
func (s *loops) loaded(from, t module.ID, rows, words, n int) (all []module.ID) {
	for i := range n {
		all = append(all, s.Emit(module.OpCooperativeMatrixLoadKHR, t, s.at(from, 1, s.number(i*rows*words)), s.number(int(module.CooperativeMatrixLayoutRowMajorKHR)), s.number(words)))
	}
	return all
}

// products adds the products of all a and all b to their sums, chained times.
func (s *loops) products(t module.ID, a, b, sums []module.ID, operands []uint32) []module.ID {
	sums = slices.Clone(sums)
	for range chained {
		for i := range sums {
			sums[i] = s.Emit(module.OpCooperativeMatrixMulAddKHR, t, append([]uint32{a[i/len(b)], b[i%len(b)], sums[i]}, operands...)...)
		}
	}
	return sums
}

// signs says which of the matrices have signed integers.
func signs(c vulkan.Cooperative) []uint32 {
	var mask uint32
	for i, name := range []string{c.A, c.B, c.C, c.Result} {
		if components[name].signed {
			mask |= 1 << i
		}
	}
	if mask == 0 {
		return nil
	}
	return []uint32{mask}
}
