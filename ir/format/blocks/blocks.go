// Package blocks reads the block types of GGUF tensors into codes and scales. A
// block type is one row of a table: which weight format it holds and where
// each bit lies. Types whose scale is not one f16 per block (the K types, MXFP4
// and so on) have no row.
package blocks

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// Error is a caller's fault: the thing that is wrong and the problem.
type Error struct {
	Thing   string // "type Q4_K", "row 3, block 7", "argument data"
	Problem string
}

func (e *Error) Error() string { return "blocks: " + e.Thing + ": " + e.Problem }

func errorf(thing, problem string, args ...any) error {
	return &Error{thing, fmt.Sprintf(problem, args...)}
}

// Block is a block type. Weight.Bits consecutive bits hold the code of element
// i of a block, from bit At + sum over Digits of digit(i)*Stride upward, where
// bit 0 is the least significant of byte 0. The code is these bits XOR Flip.
type Block struct {
	Type   string // as in GGUF
	Weight string // the format it holds, for format.Lookup
	Values int    // per block
	Bytes  int    // per block
	At     int
	Digits []format.Digit
	Flip   byte
	Scale  int // byte offset of the block's f16 scale, if the format has one per group
	Tail   int // bytes after the last block; if the format has one scale per tensor they begin with it, in f32
}

// table cites block_* of ggml-common.h and dequantize_row_* of ggml-quants.c.
var table = []Block{
	// f16 d; the low nibbles are elements 0 to 15, the high ones 16 to 31.
	{Type: "Q4_0", Weight: "q4_0", Values: 32, Bytes: 18, At: 16, Digits: nibbles},
	{Type: "IQ4_NL", Weight: "iq4_nl", Values: 32, Bytes: 18, At: 16, Digits: nibbles},
	// f16 d; int8 q[32]. Flipping the sign bit makes -128..127 count from 0.
	{Type: "Q8_0", Weight: "q8_0", Values: 32, Bytes: 34, At: 16, Digits: []format.Digit{k(1, 32, 8)}, Flip: 0x80},
	// Two runs of 32 bytes, in each element j+32*l in bits 2*l of byte j; f16 d.
	{Type: "TQ2_0", Weight: "tq2_0", Values: 256, Bytes: 66, Digits: []format.Digit{k(1, 32, 8), k(32, 4, 2), k(128, 2, 256)}, Scale: 64},
	// f16 d; four codes per byte, in order.
	{Type: "Q2_0", Weight: "q2_0", Values: 64, Bytes: 18, At: 16, Digits: []format.Digit{k(1, 64, 2)}},
	// f16 d; eight codes per byte, in order.
	{Type: "Q1_0", Weight: "q1_0", Values: 128, Bytes: 18, At: 16, Digits: []format.Digit{k(1, 128, 1)}},
	// bitnet.cpp's, as its x86 quantizer and its converters write it
	// (quantize_i2_s in ggml-bitnet-mad.cpp of microsoft/BitNet): element j+32*l
	// in bits 6-2*l of byte j.
	{Type: "I2_S", Weight: "ternary-tensor", Values: 128, Bytes: 32, At: 6, Digits: []format.Digit{k(1, 32, 8), k(32, 4, -2)}, Tail: 32},
}

var nibbles = []format.Digit{k(1, 16, 8), k(16, 2, 4)}

// k is a digit of the element's number in its block, its stride in bits.
func k(div, mod, stride int) format.Digit {
	return format.Digit{Axis: "k", Div: div, Mod: mod, Stride: stride}
}

// Types lists the block types that Read reads.
func Types() []string {
	names := make([]string, len(table))
	for i, b := range table {
		names[i] = b.Type
	}
	return names
}

// Lookup is the block type of a GGUF type name, such as "Q4_0".
func Lookup(typeName string) (Block, error) {
	for _, b := range table {
		if b.Type == typeName {
			return b, nil
		}
	}
	return Block{}, errorf("type "+typeName, "is not one that can be read as codes and scales; there are %s", strings.Join(Types(), " "))
}

// Size is the number of bytes of an m by k matrix. A row must be whole blocks.
func (b Block) Size(m, k int) (int, error) {
	thing := fmt.Sprintf("%s matrix of %d rows and %d columns", b.Type, m, k)
	switch {
	case m < 1 || k < 1 || m > (math.MaxInt-b.Tail)/b.Bytes/k:
		return 0, errorf(thing, "both must be at least 1 and the product must fit an int")
	case k%b.Values != 0:
		return 0, errorf(thing, "the columns are not whole blocks of %d", b.Values)
	}
	return m*(k/b.Values)*b.Bytes + b.Tail, nil
}

// Read is the matrix of m rows of k weights that data holds in blocks of a GGUF
// type: its format, and its codes and scales, ready for format.Pack. Scales
// keep their bits. A forbidden code and a scale that is not finite are errors
// that name row and block.
func Read(typeName string, data []byte, m, k int) (format.Weight, format.Source, error) {
	b, err := Lookup(typeName)
	if err != nil {
		return format.Weight{}, format.Source{}, err
	}
	w, err := format.Lookup(b.Weight)
	if err != nil {
		panic("BUG: blocks: " + err.Error())
	}
	size, err := b.Size(m, k)
	if err != nil {
		return format.Weight{}, format.Source{}, err
	}
	if len(data) != size {
		return format.Weight{}, format.Source{}, errorf("argument data", "has %d bytes; a %s matrix of %d rows and %d columns has %d", len(data), typeName, m, k, size)
	}
	src := format.Source{Codes: make([]byte, m*k), Scales: make([]float32, w.ScaleCount(m, k))}
	if err := b.codes(src.Codes, w, data, k); err != nil {
		return format.Weight{}, format.Source{}, err
	}
	if err := b.scales(src.Scales, w, data, k); err != nil {
		return format.Weight{}, format.Source{}, err
	}
	return w, src, nil
}

// place is where the code of an element lies in its block.
type place struct{ at, shift int }

func (b Block) places() []place {
	places := make([]place, b.Values)
	for i := range places {
		bit := b.At
		for _, d := range b.Digits {
			bit += d.At(i) * d.Stride
		}
		places[i] = place{bit / 8, bit % 8}
	}
	return places
}

func (b Block) codes(codes []byte, w format.Weight, data []byte, k int) error {
	mask := byte(1<<w.Bits - 1)
	places := b.places()
	for i := 0; len(codes) > 0; i++ {
		block := data[i*b.Bytes:][:b.Bytes]
		for j, p := range places {
			c := block[p.at]>>p.shift&mask ^ b.Flip
			if int(c) >= len(w.Levels) {
				return errorf(b.name(i, k), "element %d has code %d, which %s forbids; codes are 0 to %d", j, c, b.Type, len(w.Levels)-1)
			}
			codes[j] = c
		}
		codes = codes[b.Values:]
	}
	return nil
}

// name names block i of a matrix of k columns.
func (b Block) name(i, k int) string {
	perRow := k / b.Values
	return fmt.Sprintf("row %d, block %d", i/perRow, i%perRow)
}

func (b Block) scales(scales []float32, w format.Weight, data []byte, k int) error {
	if w.Per == format.PerTensor {
		scales[0] = math.Float32frombits(binary.LittleEndian.Uint32(data[len(data)-b.Tail:]))
		if !finite(scales[0]) {
			return errorf("tensor", "scale %v is not finite", scales[0])
		}
		return nil
	}
	for i := range scales {
		scales[i] = format.HalfToFloat32(binary.LittleEndian.Uint16(data[i*b.Bytes+b.Scale:]))
		if !finite(scales[i]) {
			return errorf(b.name(i, k), "scale %v is not finite", scales[i])
		}
	}
	return nil
}

func finite(f float32) bool { return f-f == 0 }
