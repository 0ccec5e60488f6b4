package vir

// Op is a vector operation. It has exactly one meaning, its row of the ops
// table; rounding and saturation are in the name.
//
// N is the lane count of the result. "int" is any integer type, "same" means
// that all arguments and the result have one type.
type Op uint8

const (
	OpInvalid   Op = iota
	OpLoad         // dst = N elements at Mem (any type; total size 1, 2, 4, 8, 16, 32 or 64 bytes, or more before legalization)
	OpLoadSplat    // dst = the one element at Mem in every lane
	OpStore        // Mem = a
	OpPrefetch     // hint: the line at Mem will be read soon; no result, no effect, may lie outside the buffer
	OpPrefetch2    // likewise, but later than soon: the second-level cache will do
	OpConst        // dst = Func.Consts[Imm]
	OpSplat        // dst = Imm in every lane (wrapped; for f32 the IEEE bits)
	OpBitcast      // dst = the bytes of a, relaned; same total size
	OpHalf         // dst = half Imm (0 low, 1 high) of the lanes of a
	OpJoin         // dst = lanes of a, then lanes of b (same type; N = 2 * theirs)
	OpSplatLane    // dst = the only lane of a (Lanes 1) in every lane
	OpTile         // dst = the lanes of a over and over (same element type; at most as many lanes)
	OpUnzip        // dst = every second lane of a, from lane Imm, then of b (same type)
	OpSpread       // dst = lane Imm of a in every lane (same element type)
	OpAnd          // same, any type, bitwise
	OpOr           // same, any type, bitwise
	OpXor          // same, any type, bitwise
	OpAndNot       // a &^ b; same, any type, bitwise
	OpBitSel       // (a & b) | (c &^ a): mask a selects bits of b, else of c; same, any type
	OpShl          // a << Imm; int, 8, 16 or 32 bits; 0 <= Imm < width
	OpShrU         // a >> Imm filling with zeros
	OpShrS         // a >> Imm filling with the sign
	OpAdd          // same; int wraps, f32 rounds to nearest even
	OpSub          // same; int wraps, f32 rounds to nearest even
	OpMul          // same; i16, u16, i32, u32 low half, f32 rounds to nearest even
	OpDiv          // same; f32, rounds to nearest even
	OpMinS         // same; signed i8, i16, i32
	OpMaxS         // same; signed i8, i16, i32
	OpAbs          // i8, i16, i32; the minimum wraps to itself
	OpSign         // same; signed i8: a where b is positive, -a, wrapping, where it is negative, else 0
	OpAvgU         // same; u8, u16: (a + b + 1) >> 1, nothing lost of the sum
	OpAvgS         // same; i8, i16: (a + b + 1) >> 1 of numbers with signs
	OpCmpGtS       // same; signed i8, i16, i32: all ones where a > b, else 0
	OpSelMSB       // dst[i] = b[i] where the top bit of a[i] is set, else c[i]; same, any type
	OpSubMSB       // dst[i] = b[i] - c[i], wrapping, where the top bit of a[i] is set, else c[i]; same, int
	OpAddSat       // a + b, at most 255; same, u8
	OpSubSat       // a - b, at least 0; same, u8
	OpWiden        // each lane to more bits: i8->i16, u8->i16, i16->i32, u16->i32, i8->i32, u8->i32 (value preserved); same lane count
	OpTrunc        // each lane to its low bits: i32->i16, i32->i8, i16->i8 (or unsigned results); same lane count
	OpDot4         // dst[i] = c[i] + sum of a[4i+j]*b[4i+j], j in 0..3, wrapping; args c (i32xN), a (u8 or i8 x4N), b (i8 x4N)
	OpDot4Unit     // dst[i] = c[i] + sum of a[4i+j]*b[4Imm+j], j in 0..3, wrapping; args c (i32xN), a (u8 or i8 x4N), b (i8xM, whole fours)
	OpDot2Wrap     // dst[i] = a[2i]*b[2i] + a[2i+1]*b[2i+1], wrapping; args a, b (i16 x2N); result i32xN
	OpDot2         // dst[i] = c[i] + a[2i]*b[2i] + a[2i+1]*b[2i+1], wrapping; args c (i32xN), a, b (i16 x2N)
	OpDot2Sat      // dst[i] = sat16(a[2i]*b[2i] + a[2i+1]*b[2i+1]); args a (u8 x2N), b (i8 x2N); result i16xN
	OpMulWide      // dst[i] = a[i]*b[i], in lanes of half Imm (0 low, 1 high) of a and b if they have 2N, else Imm is 0; args a (u8 or i8), b (i8); result i16xN
	OpDot1         // dst[i] = c[i] + such a product, wrapping; args c (i16xN), a, b
	OpAddPairs     // dst[i] = sum of lanes 2i and 2i+1 of a, then of b, wrapping; same, i16, i32
	OpSum2         // dst[i] = c[i] + a[2i] + a[2i+1], wrapping; args c (i32xN), a (i16 x2N)
	OpCvtF32       // i32 -> f32, rounds to nearest even
	OpCvtI32       // f32 -> i32, rounds to nearest even; a value outside i32 or NaN is an error in Eval
	OpCvtHalf      // f16 -> f32, exact (subnormals too)
	OpCanonNaN     // f32: every NaN becomes 0x7FC00000
	OpRedAdd       // dst[i] = sum of as many neighbouring lanes of a as there are for one of dst, wrapping; i32
	OpRedMaxS      // dst[i] = signed maximum of those lanes; i32
	OpMMLA         // dst[2i+j] = c[2i+j] + sum of a[8i+k]*b[8j+k], k in 0..7, wrapping: two rows by two columns; args c (i32x4), a, b (i8x16)
	// Lookups: dst[i] = b[i/n*n + a[i]], tables of n entries per n lanes. a[i] >= n is an error in Eval; the
	// operations named Mod use the low bits of the index instead.
	OpLookup8
	OpLookup8Mod
	OpLookup16
	OpLookup16Mod
	OpLookup32
	OpLookup32Mod
	OpLookup64
	OpLookup64Mod
	OpLookup128
	OpLookup128Mod
	OpLookupPair // dst[i] = the lanes of b, then those of c, at a[i] modulo their number; b and c have at least as many lanes as dst
	opEnd
)
