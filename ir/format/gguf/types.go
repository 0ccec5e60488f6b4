package gguf

import "fmt"

// Type is the type id of a tensor (enum ggml_type).
type Type uint32

type typeInfo struct {
	name  string
	block int // values per block
	bytes int // bytes per block
}

// types is enum ggml_type of ggml.h with the block sizes of ggml-common.h. An
// id without a row is unknown or was removed from the format: 4 and 5 (Q4_2,
// Q4_3), 31 to 33 (Q4_0_4_4 and so on), 36 to 38 (IQ4_NL_4_4 and so on).
var types = map[Type]typeInfo{
	0:  {"F32", 1, 4},
	1:  {"F16", 1, 2},
	2:  {"Q4_0", 32, 18},
	3:  {"Q4_1", 32, 20},
	6:  {"Q5_0", 32, 22},
	7:  {"Q5_1", 32, 24},
	8:  {"Q8_0", 32, 34},
	9:  {"Q8_1", 32, 36},
	10: {"Q2_K", 256, 84},
	11: {"Q3_K", 256, 110},
	12: {"Q4_K", 256, 144},
	13: {"Q5_K", 256, 176},
	14: {"Q6_K", 256, 210},
	15: {"Q8_K", 256, 292},
	16: {"IQ2_XXS", 256, 66},
	17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98},
	19: {"IQ1_S", 256, 50},
	20: {"IQ4_NL", 32, 18},
	21: {"IQ3_S", 256, 110},
	22: {"IQ2_S", 256, 82},
	23: {"IQ4_XS", 256, 136},
	24: {"I8", 1, 1},
	25: {"I16", 1, 2},
	26: {"I32", 1, 4},
	27: {"I64", 1, 8},
	28: {"F64", 1, 8},
	29: {"IQ1_M", 256, 56},
	30: {"BF16", 1, 2},
	34: {"TQ1_0", 256, 54},
	35: {"TQ2_0", 256, 66},
	39: {"MXFP4", 32, 17},
	40: {"NVFP4", 64, 36},
	41: {"Q1_0", 128, 18},
	42: {"Q2_0", 64, 18},
}

// i2s is the id of bitnet.cpp's I2_S in the forks of llama.cpp that write it
// (Eddie-Wang1120, ik_llama.cpp); the main line once used it for IQ4_NL_4_4,
// which takes more than twice the bytes. n values, a multiple of 4, take n/4
// bytes, then come 32 bytes that begin with the f32 scale of the tensor
// (quantize_i2_s of microsoft/BitNet).
const i2s Type = 36

// i2sBytes is the size of a tensor of n I2_S values, -1 if n is not possible.
func i2sBytes(n int) int64 {
	if n%4 != 0 {
		return -1
	}
	return int64(n)/4 + 32
}

// TypeName is the name of a type, such as "Q4_0", or "type36" for an id that
// the format does not define.
func TypeName(id Type) string {
	if t, ok := types[id]; ok {
		return t.name
	}
	return fmt.Sprintf("type%d", uint32(id))
}

func (t Type) String() string { return TypeName(t) }

// Block is the number of values and of bytes of a block of t; ok is false for
// an id that the format does not define.
func (t Type) Block() (values, bytes int, ok bool) {
	info, ok := types[t]
	return info.block, info.bytes, ok
}

// kind is the type id of a metadata value (enum gguf_type).
type kind uint32

const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
	kindEnd
)

// kindBytes is the size of a value, or the least it can have.
var kindBytes = [kindEnd]int64{
	kindU8: 1, kindI8: 1, kindU16: 2, kindI16: 2, kindU32: 4, kindI32: 4, kindF32: 4,
	kindBool: 1, kindString: 8, kindArray: 12, kindU64: 8, kindI64: 8, kindF64: 8,
}
