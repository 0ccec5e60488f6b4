// Code generated from the rows in ops.go by go generate; DO NOT EDIT.

package vir

// The operations, by the numbers of their rows.
const (
	OpInvalid      Op = iota // no operation
	OpLoad                   // the lanes at mem, little-endian
	OpLoadSplat              // the one element at mem in every lane
	OpStore                  // mem = a
	OpPrefetch               // hint: the line at mem will be read soon; may lie outside the buffer
	OpPrefetch2              // hint: the line at mem will be read later than soon, so the second-level cache will do; may lie outside the buffer
	OpConst                  // constant K
	OpSplat                  // imm in every lane, wrapped; for f32 and f16 its bits
	OpBitcast                // the bytes of a
	OpHalf                   // lanes of half imm of a: 0 low, 1 high
	OpJoin                   // the lanes of a, then the lanes of b
	OpSplatLane              // the only lane of a in every lane
	OpTile                   // the lanes of a over and over
	OpUnzip                  // every second lane of a, from lane imm, then of b
	OpSpread                 // lane imm of a in every lane
	OpAnd                    // a & b, bitwise
	OpOr                     // a | b, bitwise
	OpXor                    // a ^ b, bitwise
	OpAndNot                 // a &^ b, bitwise
	OpBitSel                 // (a & b) | (c &^ a): bits of b where a has ones, else of c
	OpShl                    // a << imm; 0 <= imm < bits of T
	OpShrU                   // a >> imm, filling with zeros
	OpShrS                   // a >> imm, filling with the top bit
	OpAdd                    // a + b; integers wrap, f32 rounds to nearest even
	OpSub                    // a - b; integers wrap, f32 rounds to nearest even
	OpMul                    // a * b; the low half, f32 rounds to nearest even
	OpDiv                    // a / b, rounded to nearest even
	OpMinS                   // the smaller, signed
	OpMaxS                   // the larger, signed
	OpAbs                    // absolute value; the minimum stays
	OpSign                   // a where b is positive, -a, wrapping, where it is negative, else 0
	OpAvgU                   // (a + b + 1) >> 1, without overflow of the sum
	OpAvgS                   // (a + b + 1) >> 1 of signed numbers, without overflow of the sum
	OpCmpGtS                 // all ones where a > b, signed, else 0
	OpSelMSB                 // b where the top bit of a is set, else c
	OpSubMSB                 // b - c, wrapping, where the top bit of a is set, else c
	OpAddSat                 // a + b, at most 255
	OpSubSat                 // a - b, at least 0
	OpWiden                  // the same values in more bits
	OpTrunc                  // the low bits
	OpDot4                   // c[i] + sum of a[4i+j] * b[4i+j], j in 0..3, wrapping
	OpDot4Unit               // c[i] + sum of a[4i+j] * b[4imm+j], j in 0..3, wrapping
	OpDot2Wrap               // a[2i] * b[2i] + a[2i+1] * b[2i+1], wrapping
	OpDot2                   // c[i] + a[2i] * b[2i] + a[2i+1] * b[2i+1], wrapping
	OpDot2Sat                // a[2i] * b[2i] + a[2i+1] * b[2i+1], saturated to i16
	OpMulWide                // a[i] * b[i], i a lane of half imm (0 low, 1 high) of a and b; imm is 0 if they have no more lanes than the result
	OpDot1                   // c[i] + a[i] * b[i], wrapping, i a lane of half imm (0 low, 1 high) of a and b; imm is 0 if they have no more lanes than the result
	OpAddPairs               // sums of lanes 2i and 2i+1, wrapping: first of a, then of b
	OpSum2                   // c[i] + a[2i] + a[2i+1], wrapping
	OpCvtF32                 // the nearest f32, ties to even
	OpCvtI32                 // the nearest integer, ties to even; outside i32, or NaN, is an error
	OpCvtHalf                // the same value; a NaN becomes quiet
	OpCanonNaN               // every NaN becomes 0x7fc00000
	OpCvtF16                 // the nearest f16, ties to even; a NaN becomes quiet and keeps its sign and upper bits
	OpCmpGtF                 // all ones where a > b, else 0, also where one of them is a NaN
	OpMaxF                   // a where a > b, else b
	OpMinF                   // a where a < b, else b
	OpRedAdd                 // sum of lanes i*M/N and up to the next multiple, wrapping
	OpRedMaxS                // largest of lanes i*M/N and up to the next multiple, signed
	OpMMLA                   // at 2i + j, c + sum of a[8i+k] * b[8j+k], k in 0..7, wrapping: rows by two columns
	OpLookup8                // b[i/8*8 + a[i]]: a table of 8 entries per 8 lanes; an index of 8 or more is an error
	OpLookup8Mod             // lookup8 by the low 3 bits of the index
	OpLookup16               // b[i/16*16 + a[i]]: a table of 16 entries per 16 lanes; an index of 16 or more is an error
	OpLookup16Mod            // lookup16 by the low 4 bits of the index
	OpLookup32               // b[i/32*32 + a[i]]: a table of 32 entries per 32 lanes; an index of 32 or more is an error
	OpLookup32Mod            // lookup32 by the low 5 bits of the index
	OpLookup64               // b[i/64*64 + a[i]]: a table of 64 entries per 64 lanes; an index of 64 or more is an error
	OpLookup64Mod            // lookup64 by the low 6 bits of the index
	OpLookup128              // b[i/128*128 + a[i]]: a table of 128 entries per 128 lanes; an index of 128 or more is an error
	OpLookup128Mod           // lookup128 by the low 7 bits of the index
	OpLookupPair             // the lanes of b, then the lanes of c, at a[i] modulo 2M: one table for all lanes
	OpLoadRows               // a tile whose rows are that many bytes apart, each with its elements side by side
	OpLoadColumns            // a tile whose columns are that many bytes apart, each with its elements side by side
	OpStoreRows              // mem = a, as loadrows reads it
	OpStoreColumns           // mem = a, as loadcolumns reads it
	OpMatMul                 // c + a * b, products of matrices; i32 wraps, f32 is exact: a sum that is no f32 is an error
	OpColumn                 // column imm of a
	OpBarrier                // no lane of the workgroup goes on before all are here, and see what the others stored
	OpLane                   // the number of the lane in loop imm, a loop of lanes around
)
