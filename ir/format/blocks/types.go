package blocks

// table cites block_* of ggml-common.h and dequantize_row_* of ggml-quants.c.
var table = []Block{
	{Type: "Q4_0", Weight: "q4_0", Values: 32, Bytes: 18, Codes: field{nibbles(2)}, Scale: half(0)},
	{Type: "Q4_1", Weight: "q4_1", Values: 32, Bytes: 20, Codes: field{nibbles(4)}, Scale: half(0), Min: minus(half(2))},
	{Type: "Q5_0", Weight: "q5_0", Values: 32, Bytes: 22, Codes: field{nibbles(6), bits(1, 16, k(1, 32, 1))}, Scale: half(0)},
	{Type: "Q5_1", Weight: "q5_1", Values: 32, Bytes: 24, Codes: field{nibbles(8), bits(1, 32, k(1, 32, 1))}, Scale: half(0), Min: minus(half(2))},
	// f16 d; int8 q[32]. Flipping the sign bit makes -128..127 count from 0.
	{Type: "Q8_0", Weight: "q8_0", Values: 32, Bytes: 34, Codes: field{bits(8, 16, k(1, 32, 8))}, Flip: 0x80, Scale: half(0)},

	// The K types: super-blocks of 256. Runs of 32 bytes hold 128 elements of 2
	// bits or 64 of 4, element j + 32*l of the run in byte j.
	{
		Type: "Q2_K", Weight: "q2_k", Values: 256, Bytes: 84, // scale and minimum, 4 bits each, for 16; q; f16 d, dmin
		Codes: field{bits(2, 8*16, k(1, 32, 8), k(32, 4, 2), k(128, 2, 256))},
		Scale: whole(bits(4, 0, k(1, 16, 8))), Min: whole(bits(4, 4, k(1, 16, 8))),
		Super: half(80), SuperMin: half(82),
	},
	{
		Type: "Q3_K", Weight: "q3_k", Values: 256, Bytes: 110, // high bits; low bits; 16 scales of 6 bits, low 4 bits first; f16 d
		Codes: field{bits(2, 8*32, k(1, 32, 8), k(32, 4, 2), k(128, 2, 256)), bits(1, 0, k(1, 32, 8), k(32, 8, 1))},
		Scale: less32(bits(4, 8*96, k(1, 8, 8), k(8, 2, 4)), bits(2, 8*104, k(1, 4, 8), k(4, 4, 2))),
		Super: half(108),
	},
	{
		Type: "Q4_K", Weight: "q4_k", Values: 256, Bytes: 144, // f16 d, dmin; 8 scales and 8 minimums of 6 bits; q
		Codes: field{bits(4, 8*16, k(1, 32, 8), k(32, 2, 4), k(64, 4, 256))},
		Scale: scaleOfK, Min: minOfK, Super: half(0), SuperMin: half(2),
	},
	{
		Type: "Q5_K", Weight: "q5_k", Values: 256, Bytes: 176, // as Q4_K, with the high bits before q
		Codes: field{bits(4, 8*48, k(1, 32, 8), k(32, 2, 4), k(64, 4, 256)), bits(1, 8*16, k(1, 32, 8), k(32, 8, 1))},
		Scale: scaleOfK, Min: minOfK, Super: half(0), SuperMin: half(2),
	},
	{
		Type: "Q6_K", Weight: "q6_k", Values: 256, Bytes: 210, // low 4 bits; high 2; 16 int8 scales; f16 d
		Codes: field{bits(4, 0, k(1, 64, 8), k(64, 2, 4), k(128, 2, 512)), bits(2, 8*128, k(1, 32, 8), k(32, 4, 2), k(128, 2, 256))},
		Scale: int8s(bits(8, 8*192, k(1, 16, 8))), Super: half(208),
	},

	// Codebooks of 4 bits.
	{Type: "IQ4_NL", Weight: "iq4_nl", Values: 32, Bytes: 18, Codes: field{nibbles(2)}, Scale: half(0)},
	{
		Type: "IQ4_XS", Weight: "iq4_xs", Values: 256, Bytes: 136, // f16 d; high 2 bits of 8 scales, low 4; q
		Codes: field{bits(4, 8*8, k(1, 16, 8), k(16, 2, 4), k(32, 8, 128))},
		Scale: less32(bits(4, 8*4, k(1, 8, 4)), bits(2, 8*2, k(1, 8, 2))), Super: half(0),
	},
	{Type: "MXFP4", Weight: "mxfp4", Values: 32, Bytes: 17, Codes: field{nibbles(1)}, Scale: number{field{bits(8, 0)}, e8m0}},
	// Four scales, then the sixteens, each as the nibbles of 8 bytes.
	{
		Type: "NVFP4", Weight: "nvfp4", Values: 64, Bytes: 36,
		Codes: field{bits(4, 8*4, k(1, 8, 8), k(8, 2, 4), k(16, 4, 64))},
		Scale: number{field{bits(8, 0, k(1, 4, 8))}, ue4m3},
	},

	// Ternary, and one bit.
	{Type: "TQ1_0", Weight: "tq2_0", Values: 256, Bytes: 54, Trits: []trits{{0, 32, 5}, {32, 16, 5}, {48, 4, 4}}, Scale: half(52)},
	// Two runs of 32 bytes, in each element j+32*l in bits 2*l of byte j; f16 d.
	{Type: "TQ2_0", Weight: "tq2_0", Values: 256, Bytes: 66, Codes: field{bits(2, 0, k(1, 32, 8), k(32, 4, 2), k(128, 2, 256))}, Scale: half(64)},
	{Type: "Q2_0", Weight: "q2_0", Values: 64, Bytes: 18, Codes: field{bits(2, 16, k(1, 64, 2))}, Scale: half(0)},
	{Type: "Q1_0", Weight: "q1_0", Values: 128, Bytes: 18, Codes: field{bits(1, 16, k(1, 128, 1))}, Scale: half(0)},

	// Grids. The file has 1.5 to 3.3 bits per weight; the formats have a code of 3
	// or 4 bits for each, as the levels of an entry are few.
	{
		Type: "IQ1_S", Weight: "iq1", Values: 256, Bytes: 50, // f16 d; low 8 bits of indices; u16 for 32: 4 times high 3 bits, scale, sign
		Grid: &grid{
			Entries: iq1sEntries, Vector: 8, Codes: shifted,
			Index: field{bits(8, 8*2, k(1, 32, 8)), bits(3, 8*34, k(1, 4, 3), k(4, 8, 16))},
			Signs: field{bits(1, 8*34+15, k(4, 8, 16))},
		},
		Scale: odd(bits(3, 8*34+12, k(1, 8, 16))), Super: half(0), Unit: 1. / 8,
	},
	{
		// Low 8 bits of indices; for 8, high 3 bits and a sign; four u16 of 4 scales of
		// 3 bits, and in the high bits, together, f16 d.
		Type: "IQ1_M", Weight: "iq1-g16-f32", Values: 256, Bytes: 56,
		Grid: &grid{
			Entries: iq1sEntries, Vector: 8, Codes: shifted,
			Index: field{bits(8, 0, k(1, 32, 8)), bits(3, 8*32, k(1, 32, 4))},
			Signs: field{bits(1, 8*32+3, k(1, 32, 4))},
		},
		Scale: odd(bits(3, 8*48, k(1, 4, 3), k(4, 4, 16))), Unit: 1. / 8,
		Super: number{field{bits(4, 8*48+12), bits(4, 8*50+12), bits(4, 8*52+12), bits(4, 8*54+12)}, halfOf},
	},
	{
		Type: "IQ2_XXS", Weight: "iq2", Values: 256, Bytes: 66, // f16 d; for 32: 4 indices, 4 times 7 signs, scale
		Grid: &grid{
			Entries: iq2xxsEntries, Vector: 8, Codes: mirrored(3),
			Index: field{bits(8, 8*2, k(1, 4, 8), k(4, 8, 64))},
			Signs: field{bits(7, 8*6, k(1, 4, 7), k(4, 8, 64))},
		},
		Scale: odd(bits(4, 8*6+28, k(1, 8, 64))), Super: half(0), Unit: 1. / 8,
	},
	{
		Type: "IQ2_XS", Weight: "iq2-g16-f32", Values: 256, Bytes: 74, // f16 d; u16 for 8: index, 7 signs; scales
		Grid: &grid{
			Entries: iq2xsEntries, Vector: 8, Codes: mirrored(3),
			Index: field{bits(9, 8*2, k(1, 32, 16))},
			Signs: field{bits(7, 8*2+9, k(1, 32, 16))},
		},
		Scale: odd(bits(4, 8*66, k(1, 16, 4))), Super: half(0), Unit: 1. / 8,
	},
	{
		Type: "IQ2_S", Weight: "iq2-g16-f32", Values: 256, Bytes: 82, // f16 d; low 8 bits of indices; signs; high 2 bits; scales
		Grid: &grid{
			Entries: iq2sEntries, Vector: 8, Codes: mirrored(3),
			Index: field{bits(8, 8*2, k(1, 32, 8)), bits(2, 8*66, k(1, 32, 2))},
			Signs: field{bits(8, 8*34, k(1, 32, 8))},
		},
		Scale: odd(bits(4, 8*74, k(1, 16, 4))), Super: half(0), Unit: 1. / 8,
	},
	{
		Type: "IQ3_XXS", Weight: "iq3_xxs", Values: 256, Bytes: 98, // f16 d; indices; u32 for 32: 4 times 7 signs, scale
		Grid: &grid{
			Entries: iq3xxsEntries, Vector: 4, Codes: mirrored(8),
			Index: field{bits(8, 8*2, k(1, 64, 8))},
			Signs: field{bits(7, 8*66, k(1, 4, 7), k(4, 8, 32))},
		},
		Scale: odd(bits(4, 8*66+28, k(1, 8, 32))), Super: half(0), Unit: 1. / 4,
	},
	{
		Type: "IQ3_S", Weight: "iq3_s", Values: 256, Bytes: 110, // f16 d; low 8 bits of indices; high bit; signs; scales
		Grid: &grid{
			Entries: iq3sEntries, Vector: 4, Codes: mirrored(8),
			Index: field{bits(8, 8*2, k(1, 64, 8)), bits(1, 8*66, k(1, 64, 1))},
			Signs: field{bits(8, 8*74, k(1, 32, 8))},
		},
		Scale: odd(bits(4, 8*106, k(1, 8, 4))), Super: half(0),
	},

	// bitnet.cpp's (quantize_i2_s in ggml-bitnet-mad.cpp of microsoft/BitNet). A file
	// does not say which of three layouts it has. Its x86 quantizer and its converters
	// write element j+32*l in bits 6-2*l of byte j.
	{Type: "I2_S", Weight: "ternary-tensor", Values: 128, Bytes: 32, Codes: field{bits(2, 6, k(1, 32, 8), k(32, 4, -2))}, Tail: 32},
	// Its Arm quantizer: the same with 16 for 32.
	{Type: "I2_S:arm-64", Weight: "ternary-tensor", Values: 64, Bytes: 16, Codes: field{bits(2, 6, k(1, 16, 8), k(16, 4, -2))}, Tail: 32},
	// Its x86 quantizer without ACT_PARALLEL: a byte for a column of four rows.
	{Type: "I2_S:rows4", Weight: "ternary-tensor", Values: 1, Bytes: 1, Rows: 4, Codes: field{bits(2, 6, k(1, 4, -2))}, Tail: 32},
}

// Scales and minimums of Q4_K and Q5_K, 6 bits each in 12 bytes from byte 4: whole
// in bytes 0 to 3 and 4 to 7, and the others' low 4 bits in bytes 8 to 11, their high
// 2 above the first ones'.
var (
	scaleOfK = whole(bits(4, 8*4, k(1, 4, 8), k(4, 2, 64)), bits(2, 8*4+4, k(1, 4, 8), k(4, 2, 2)))
	minOfK   = whole(bits(4, 8*8, k(1, 4, 8), k(4, 2, 36)), bits(2, 8*8+4, k(1, 4, 8), k(4, 2, 2)))
)

// shifted are the codes of digits -1, 0, 1 that count 8, with 1 added or subtracted.
var shifted = [2][]byte{{1, 3, 5}, {0, 2, 4}}
