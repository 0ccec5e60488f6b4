// Package runtime is what generated packages and applications import: packed
// matrices, activation buffers, CPU dispatch and the loops around kernels. It
// imports none of the compiler.
package runtime

import "unsafe"

// GemmArgs are the parameters of every matrix kernel, in the order of its vir
// parameters: one tile of rows times one block of columns over all of K.
//
// Out receives a dense tile, out[n*TileM + m], f32. Codes, Scales and Zeros
// point at the tile's first element of the packed matrix; Act, Sums and ActScale
// at the column block's first element of the activation buffer. Count holds the
// trip counts of the run-time loops over K, outermost first.
type GemmArgs struct {
	Out                  unsafe.Pointer
	Codes, Scales, Zeros unsafe.Pointer
	Act, Sums, ActScale  unsafe.Pointer
	Count                [2]int64
}

// PrepareArgs are the parameters of every activation kernel: one row of K
// float32 (zero padded to a whole number of records by the caller).
type PrepareArgs struct {
	X                   unsafe.Pointer
	Act, Sums, ActScale unsafe.Pointer
	Tmp                 unsafe.Pointer // scratch: one f32 per group, times 2
	Count               [2]int64
}
