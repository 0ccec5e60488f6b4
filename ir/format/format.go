// Package format describes numbers and their places in memory as data: what a
// low-bit weight means (Weight), how activations are quantized (Act), and where
// every bit of a packed matrix lies (Layout). It is the only package that
// generated code shares with the compiler, so it imports nothing of tmacc.
package format

// DType is the type of a stored or computed number.
type DType uint8

// The types that occur in tensors, packed parts and registers.
const (
	Invalid DType = iota
	U8
	I8
	U16
	I16
	U32
	I32
	F16
	BF16 // the upper half of an F32
	F32
)

var dtypes = [...]struct {
	name string
	bits int
}{
	Invalid: {"?", 0}, U8: {"u8", 8}, I8: {"i8", 8}, U16: {"u16", 16}, I16: {"i16", 16},
	U32: {"u32", 32}, I32: {"i32", 32}, F16: {"f16", 16}, BF16: {"bf16", 16}, F32: {"f32", 32},
}

func (d DType) String() string { return dtypes[d].name }

// Bits is the width of d.
func (d DType) Bits() int { return dtypes[d].bits }

// Bytes is the width of d in bytes.
func (d DType) Bytes() int { return dtypes[d].bits / 8 }

// Unsigned is the type of unsigned integers as wide as d, Invalid if there is none.
func (d DType) Unsigned() DType { return map[int]DType{8: U8, 16: U16, 32: U32}[d.Bits()] }

// Signed is the type of signed integers as wide as d, Invalid if there is none.
func (d DType) Signed() DType { return map[int]DType{8: I8, 16: I16, 32: I32}[d.Bits()] }

// IsSigned says that d is of signed integers.
func (d DType) IsSigned() bool { return d == I8 || d == I16 || d == I32 }

// Per says which weights share one scale.
type Per uint8

// The granularities of a scale.
const (
	PerTensor Per = iota
	PerRow
	PerGroup // Weight.Group consecutive weights of a row

	perUnknown Per = 255 // of JSON that does not say it
)

// Weight is a weight format: one row of data. Everything else about it is
// derived. The value of a weight is
//
//	scale * (level - zero) - min        level = Levels[code], of several books Levels[book*Codes() + code]
//
// with zero absent (0) unless Zero is set and min absent unless Min is. With two
// levels (Super), scale and min are products themselves, of a number of the group
// and one of the super-block. Each product and the difference is rounded to f32:
//
//	scale = f32(super) * f32(sub)     exact: an f16 times an 8-bit integer
//	min   = f32(super-min) * f32(sub-min)     likewise
//
// Note the sign of a minimum: a format that adds m has min = -m.
//
// With several books, every BookGroup consecutive weights of a row have an index that
// says in which book their levels are ("Highly Optimized Kernels and Fine-Grained
// Codebooks for LLM Inference on Arm CPUs", section 5).
type Weight struct {
	Name   string  `json:"name"`
	Bits   int     `json:"bits"`            // stored bits per code, 1..8
	Levels []int   `json:"levels"`          // value of each code, -128..127, book after book; codes >= Codes() are forbidden
	Bound  float64 `json:"nominal"`         // nominal bits per weight: what the best packing of the papers stores (1.6 for ternary)
	Per    Per     `json:"per"`             // which weights share a scale
	Scale  DType   `json:"scale"`           // F32, F16 or BF16; with Super I8 or U8
	Group  int     `json:"group,omitempty"` // with PerGroup: weights per scale along K, a multiple of 16
	Super  int     `json:"super,omitempty"` // weights per f16 super-scale along K, a multiple of Group; 0: none
	Zero   bool    `json:"zero,omitempty"`  // an int8 zero point per scale
	Min    bool    `json:"min,omitempty"`   // a minimum per scale, of the same type; with Super an f16 super-minimum too

	Books     int `json:"books,omitempty"`      // codebooks of equally many levels, 2..16; 0: one
	BookGroup int `json:"book_group,omitempty"` // with Books: weights per index along K, a multiple of 16 that divides Group
}
