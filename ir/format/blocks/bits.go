package blocks

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// piece is consecutive bits of a number: Width of them, for number i of a block
// from bit At + sum over Digits of digit(i)*Stride upward, where bit 0 is the
// least significant of byte 0.
type piece struct {
	Width  int
	At     int
	Digits []format.Digit
}

// field is the bits of a number, the lowest piece first.
type field []piece

func bits(width, at int, digits ...format.Digit) piece { return piece{width, at, digits} }

// k is a digit of a number's index in its block, its stride in bits.
func k(div, mod, stride int) format.Digit {
	return format.Digit{Axis: "k", Div: div, Mod: mod, Stride: stride}
}

// nibbles are 16 bytes from a byte offset: the low halves are elements 0 to 15,
// the high ones 16 to 31.
func nibbles(offset int) piece { return bits(4, 8*offset, k(1, 16, 8), k(16, 2, 4)) }

// number is bits and what they mean.
type number struct {
	bits field
	as   func(uint32) float32
}

// half is an f16 at a byte offset.
func half(offset int) number { return number{field{bits(16, 8*offset)}, halfOf} }

// minus is the number with the other sign: a minimum is subtracted.
func minus(n number) number {
	return number{n.bits, func(v uint32) float32 { return -n.as(v) }}
}

func whole(pieces ...piece) number {
	return number{pieces, func(v uint32) float32 { return float32(v) }}
}

func int8s(pieces ...piece) number {
	return number{pieces, func(v uint32) float32 { return float32(int8(v)) }}
}

func less32(pieces ...piece) number {
	return number{pieces, func(v uint32) float32 { return float32(int(v) - 32) }}
}

func odd(pieces ...piece) number {
	return number{pieces, func(v uint32) float32 { return float32(2*v + 1) }}
}

func halfOf(v uint32) float32 { return format.HalfToFloat32(uint16(v)) }

// e8m0 is half of 2^(v-127): ggml counts levels in halves.
func e8m0(v uint32) float32 { return float32(math.Ldexp(1, int(v)-128)) }

// ue4m3 is half of an unsigned number of 4 bits of exponent and 3 of fraction. The
// NaN is 0, and with the unused bit 7 set 240, as ggml has it.
func ue4m3(v uint32) float32 {
	exp, frac := int(v>>3&15), int(v&7)
	switch {
	case v == 0x7f:
		return 0
	case exp == 0:
		return float32(math.Ldexp(float64(frac), -10))
	}
	return float32(math.Ldexp(float64(8+frac), exp-11))
}

// places are the places of a field's pieces for the first numbers of a block.
type places struct {
	pieces []placed
}

type placed struct {
	at     []int32 // bit of each number
	width  int
	shift  int          // in the number
	lines  []line       // of numbers in neighbouring bytes; nil if they would be short
	spread *[256]uint64 // if each number follows the one before: the bytes that a byte becomes
}

// line is count numbers from first at the same bit of bytes side by side, from at.
type line struct{ first, count, at, bit int32 }

// shortLine is how many numbers a line has on average for it to be worth while.
const shortLine = 4

// linesOf finds the lines among numbers at these bits.
func linesOf(at []int32) []line {
	var lines []line
	for i, bit := range at {
		if n := len(lines); n > 0 && bit == at[i-1]+8 {
			lines[n-1].count++
			continue
		}
		lines = append(lines, line{int32(i), 1, bit >> 3, bit & 7})
	}
	if len(lines)*shortLine > len(at) {
		return nil
	}
	return lines
}

func (f field) places(count int) places {
	var p places
	shift := 0
	for _, x := range f {
		at := make([]int32, count)
		for i := range at {
			bit := x.At
			for _, d := range x.Digits {
				bit += d.At(i) * d.Stride
			}
			at[i] = int32(bit)
		}
		p.pieces = append(p.pieces, placed{at: at, width: x.Width, shift: shift, lines: linesOf(at)})
		shift += x.Width
	}
	return p
}

// width is the number of bits of f.
func (f field) width() int {
	n := 0
	for _, x := range f {
		n += x.Width
	}
	return n
}

// get is number i of a block.
func (p *places) get(block []byte, i int) uint32 {
	var v uint32
	for _, x := range p.pieces {
		v |= extract(block, int(x.at[i]), x.width) << x.shift
	}
	return v
}

// set makes v number i of a block.
func (p *places) set(block []byte, i int, v uint32) {
	for _, x := range p.pieces {
		for bit := range x.width {
			at := int(x.at[i]) + bit
			block[at>>3] = block[at>>3]&^(1<<(at&7)) | byte(v>>(x.shift+bit)&1)<<(at&7)
		}
	}
}

// forCodes makes p ready for codes.
func (p *places) forCodes() {
	for i := range p.pieces {
		x := &p.pieces[i]
		if !x.strung() {
			continue
		}
		x.spread = new([256]uint64)
		for b := range x.spread {
			for j := range 8 / x.width {
				x.spread[b] |= uint64(b>>(j*x.width)&(1<<x.width-1)) << (8*j + x.shift)
			}
		}
	}
}

// inBytes says that numbers have up to 8 bits, of pieces that each lie in one byte.
func (p *places) inBytes() bool {
	for _, x := range p.pieces {
		if x.shift+x.width > 8 || slices.ContainsFunc(x.at, func(at int32) bool { return int(at&7)+x.width > 8 }) {
			return false
		}
	}
	return true
}

// strung says that each number follows the one before, from the beginning of a byte,
// and that eights of numbers are whole bytes.
func (x *placed) strung() bool {
	for i, at := range x.at {
		if int(at) != int(x.at[0])+i*x.width {
			return false
		}
	}
	return x.lines == nil && 8%x.width == 0 && x.at[0]%8 == 0 && len(x.at)%8 == 0
}

// ones has 1 in each byte.
const ones = 0x0101010101010101

// codes are all numbers of a block, whose pieces each lie in one byte, XOR flip. Where
// it can, it makes eight at a time, as bytes of a word.
func (p *places) codes(to, block []byte, flip byte) {
	first := &p.pieces[0]
	if flip == 0 && first.lines != nil {
		for _, l := range first.lines {
			first.begin(to[l.first:][:l.count], block[l.at:][:l.count], uint(l.bit))
		}
	} else {
		clear(to)
		if flip != 0 {
			for j := range to {
				to[j] = flip
			}
		}
		first.codes(to, block)
	}
	for i := range p.pieces[1:] {
		p.pieces[1+i].codes(to, block)
	}
}

// codes adds the piece to codes.
func (x *placed) codes(to, block []byte) {
	switch {
	case x.lines != nil:
		for _, l := range x.lines {
			x.line(to[l.first:][:l.count], block[l.at:][:l.count], uint(l.bit))
		}
	case x.spread != nil:
		x.string(to[:len(x.at)], block[x.at[0]>>3:])
	default:
		mask, to := byte(1<<x.width-1), to[:len(x.at)]
		for j, at := range x.at {
			to[j] ^= block[at>>3] >> (at & 7) & mask << x.shift
		}
	}
}

// begin makes a line of codes of this piece alone.
func (x *placed) begin(to, from []byte, bit uint) {
	mask, shift := uint64(1<<x.width-1)*ones, uint(x.shift)
	for len(from) >= 8 && len(to) >= 8 {
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from)>>(bit&7)&mask<<(shift&7))
		to, from = to[8:], from[8:]
	}
	for j, b := range from {
		to[j] = b >> (bit & 7) & byte(mask) << (shift & 7)
	}
}

// line adds the piece to a line of codes.
func (x *placed) line(to, from []byte, bit uint) {
	mask, shift := uint64(1<<x.width-1)*ones, uint(x.shift)
	for len(from) >= 8 && len(to) >= 8 {
		v := binary.LittleEndian.Uint64(from) >> (bit & 7) & mask << (shift & 7)
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(to)^v)
		to, from = to[8:], from[8:]
	}
	for j, b := range from {
		to[j] ^= b >> (bit & 7) & byte(mask) << (shift & 7)
	}
}

// string adds numbers that follow each other.
func (x *placed) string(to, from []byte) {
	step := 8 * (8 / x.width) // bits of a word that a byte makes
	for len(to) >= 8 {
		v := uint64(0)
		for j, b := range from[:x.width] {
			v |= x.spread[b] << (j * step & 63)
		}
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(to)^v)
		to, from = to[8:], from[x.width:]
	}
}

// extract is up to 16 bits of a block.
func extract(block []byte, at, width int) uint32 {
	first, end := at>>3, at&7+width
	v := uint32(block[first])
	if end > 8 {
		v |= uint32(block[first+1]) << 8
	}
	if end > 16 {
		v |= uint32(block[first+2]) << 16
	}
	return v >> (at & 7) & (1<<width - 1)
}

// trits are bytes of a block that hold several codes of three levels each: byte b
// is the code's digits in base 3 behind the point, as a fixed-point number of 8 bits
// rounded up. The first code of each byte comes first, then the second of each.
type trits struct{ Offset, Bytes, PerByte int }

// decode reads codes and returns the rest of the slice.
func (t trits) decode(codes, block []byte) []byte {
	for n, power := 0, byte(1); n < t.PerByte; n, power = n+1, power*3 {
		for i, b := range block[t.Offset:][:t.Bytes] {
			codes[i] = byte(uint16(b*power) * 3 >> 8)
		}
		codes = codes[t.Bytes:]
	}
	return codes
}
