package gguf

import (
	"fmt"
	"math"
	"math/bits"
)

// Type is the type id of a tensor (enum ggml_type).
type Type uint32

// typeInfo says how many bytes a tensor of a type takes. Rows are whole blocks. With a tail, only the whole tensor need be.
type typeInfo struct {
	id     Type
	name   string
	values int // of a block
	bytes  int // of a block
	tail   int // bytes behind the last block of a tensor
}

// types are enum ggml_type of ggml.h with the block sizes of ggml-common.h. An
// id without a row is unknown or was removed from the format: 4 and 5 (Q4_2,
// Q4_3), 31 to 33 (Q4_0_4_4 and so on), 36 to 38 (IQ4_NL_4_4 and so on).
var types = byID([]typeInfo{
	{0, "F32", 1, 4, 0},
	{1, "F16", 1, 2, 0},
	{2, "Q4_0", 32, 18, 0},
	{3, "Q4_1", 32, 20, 0},
	{6, "Q5_0", 32, 22, 0},
	{7, "Q5_1", 32, 24, 0},
	{8, "Q8_0", 32, 34, 0},
	{9, "Q8_1", 32, 36, 0},
	{10, "Q2_K", 256, 84, 0},
	{11, "Q3_K", 256, 110, 0},
	{12, "Q4_K", 256, 144, 0},
	{13, "Q5_K", 256, 176, 0},
	{14, "Q6_K", 256, 210, 0},
	{15, "Q8_K", 256, 292, 0},
	{16, "IQ2_XXS", 256, 66, 0},
	{17, "IQ2_XS", 256, 74, 0},
	{18, "IQ3_XXS", 256, 98, 0},
	{19, "IQ1_S", 256, 50, 0},
	{20, "IQ4_NL", 32, 18, 0},
	{21, "IQ3_S", 256, 110, 0},
	{22, "IQ2_S", 256, 82, 0},
	{23, "IQ4_XS", 256, 136, 0},
	{24, "I8", 1, 1, 0},
	{25, "I16", 1, 2, 0},
	{26, "I32", 1, 4, 0},
	{27, "I64", 1, 8, 0},
	{28, "F64", 1, 8, 0},
	{29, "IQ1_M", 256, 56, 0},
	{30, "BF16", 1, 2, 0},
	{34, "TQ1_0", 256, 54, 0},
	{35, "TQ2_0", 256, 66, 0},
	{39, "MXFP4", 32, 17, 0},
	{40, "NVFP4", 64, 36, 0},
	{41, "Q1_0", 128, 18, 0},
	{42, "Q2_0", 64, 18, 0},
})

// forks are types of other programs, by ids that the format does not define or gives to other types.
// The sizes of a file's tensors tell which type it means.
var forks = byID([]typeInfo{
	{36, "I2_S", 4, 1, 32}, // bitnet.cpp, ik_llama.cpp: codes, then 32 bytes that begin with the f32 scale
	{38, "TL1", 4, 1, 0},   // bitnet.cpp
	{40, "Q2_0C", 512, 130, 0},
	{41, "Q2_0C", 512, 130, 0}, // SEQ of Tencent
	{42, "PQ2_0", 128, 34, 0},  // Q2_0 of Prism before version 7
	{42, "STQ1_0", 256, 42, 0},
	{43, "STQ1_0", 256, 42, 0},
	{142, "PQ2_0", 128, 34, 0},
	{143, "PTQ1_0", 128, 28, 0},
})

func byID(rows []typeInfo) map[Type][]*typeInfo {
	m := map[Type][]*typeInfo{}
	for i := range rows {
		m[rows[i].id] = append(m[rows[i].id], &rows[i])
	}
	return m
}

// defined is the row of a type that the format defines, or nil.
func (t Type) defined() *typeInfo {
	if rows := types[t]; rows != nil {
		return rows[0]
	}
	return nil
}

// TypeName is the name of a type, such as "Q4_0", or "type36" for an id that
// the format does not define.
func TypeName(id Type) string {
	if t := id.defined(); t != nil {
		return t.name
	}
	return fmt.Sprintf("type%d", uint32(id))
}

func (t Type) String() string { return TypeName(t) }

// Block is the number of values and of bytes of a block of t; ok is false for
// an id that the format does not define.
func (t Type) Block() (values, bytes int, ok bool) {
	row := t.defined()
	if row == nil {
		return 0, 0, false
	}
	return row.values, row.bytes, true
}

// size is what a tensor of n values in rows of row takes in bytes, or a problem: it has no whole blocks, or
// more bytes than an int can count.
func (i *typeInfo) size(n, row int) (size int64, problem string) {
	if i.tail > 0 {
		row = n
	}
	if row%i.values != 0 {
		return 0, fmt.Sprintf("rows of %d values are not whole %s blocks of %d", row, i.name, i.values)
	}
	hi, lo := bits.Mul64(uint64(n/i.values), uint64(i.bytes))
	if hi != 0 || lo > uint64(math.MaxInt-i.tail) {
		return 0, fmt.Sprintf("%d values of %s are too many", n, i.name)
	}
	return int64(lo) + int64(i.tail), ""
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

// kinds are the kinds by their ids: the size of a value, or the least that it can have, and its type in Go.
var kinds = [kindEnd]struct {
	bytes int64
	name  string
}{
	kindU8: {1, "a uint8"}, kindI8: {1, "an int8"}, kindU16: {2, "a uint16"}, kindI16: {2, "an int16"},
	kindU32: {4, "a uint32"}, kindI32: {4, "an int32"}, kindF32: {4, "a float32"}, kindBool: {1, "a bool"},
	kindString: {8, "a string"}, kindArray: {12, "an array"},
	kindU64: {8, "a uint64"}, kindI64: {8, "an int64"}, kindF64: {8, "a float64"},
}

func (k kind) String() string { return kinds[k].name }
