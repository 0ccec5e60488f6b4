// Package abi is what assembly of a generated package and package runtime know of each other: which kernels there are and what
// they are called with. Generated code and the compiler use it; applications need package runtime only.
package abi

import (
	"iter"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// Version is the version of what assembly of a generated package and package runtime know of each other: GemmArgs,
// PrepareArgs, where things lie in buffers, and the definition of the product. It goes up with each change of these, and
// runtime.New does not take assembly of another one.
const Version = 8

// Variant is what one target runs: kernels of one packed layout.
type Variant struct {
	Target string   // "amd64/avx2"
	ABI    int      // that its assembly is for
	Need   []string // CPU features, as klauspost/cpuid/v2 names them
	// CPUs are those whose core the schedules are for; none: all with the features. It only decides which variant
	// is chosen.
	CPUs    []cpu.Set
	Layout  int      // index into Spec.Layouts
	Fill    int      // elements of K that kernels count for each group, padded with zeros; 0: the group's own number
	Kernels []Kernel // of different Cols, ascending
	Prepare *Prepare // nil: activations are prepared in pure Go
	// Shaders has shaders of each kernel, if the kernels run on a device. It runs the first that it can. Activations are prepared on this CPU.
	Shaders [][]Shader
	Device  Device // that runs the shaders, nil: none
	// Fused multiplies a row of activations as floats, which its workgroups quantize: one dispatch instead of a preparation and a product. nil: no kernel does.
	Fused *Fused
	// Quantizers prepare rows of activations on the device for each kernel, none: only CPUs prepare them. Of a kernel's, the last that fits K is the one. The tensors
	// are x, the codes act, sums and ascale, as the kernel wants them; calls are for the columns of a block, and for blocks.
	Quantizers [][]Operator
	// Listed makes shaders of the kernel of a number of columns whose blocks multiply by a matrix each: by the one that begins as many bytes behind the first as a list
	// says, which is the parameter List. Models with experts ask for them, others never do. nil: there are none.
	Listed func(cols int) ([]Shader, error)
	// Ended makes shaders of a kernel, by the number that Numbered has, that end in an operator: the product is one of its inputs, and what the operator makes of that is
	// stored. Each other input has three parameters behind all others: its pointer, and the bytes from one column to the next, and from one block of columns to the next. Steps
	// of models ask for them, others never do. nil: there are none.
	Ended func(kernel int, by Ending) ([]Shader, error)
}

// Ending is how a product ends in an operator of package ir/operator: Product is the name of the input that it is.
type Ending struct{ Operator, Product string }

// Kernel is an assembly function that multiplies Rows rows by Cols rows of
// activations over all of K. The codes of its activations lie in chunks: Chunk
// elements of one row, then the same elements of the next.
type Kernel struct {
	Name       string
	Rows, Cols int
	StepK      int // elements of K per iteration, as Variant.Fill counts them
	Chunk      int
	Tables     bool // it reads tables instead of codes
	SumBy      int  // what the activation sums that it is given are multiplied by, not 0
	ScaledSums bool // they come as the f32 that minimums are multiplied with: times the scale of their group, if it has one
	// How far its integer sum of a group may be from the definition: ErrorMost for each
	// ErrorStep elements of K that are begun. ErrorMost is 0 if sums are exact.
	ErrorStep, ErrorMost int
	Scratch              int // bytes of memory that a call needs; 0: none
	Fn                   func(*GemmArgs)
}

// Fused is a kernel of one column that is given a row of floats in place of Act, and quantizes it itself. It has the bits of a kernel that is given prepared
// activations. Of rows it takes up to Room elements, padded with zeros up to a multiple of each of Pads. It has a parameter behind the ones of kernels for
// each of CountDiv: how many groups of that length a row has, rounded up.
type Fused struct {
	Kernel
	Room           int
	CountDiv, Pads []int
	Shaders        []Shader
	// Most says, for rows of ascending lengths, for how many rows of weights it is predicted to take less time than a preparation and a product; none: for all.
	Most []FusedRows
}

// FusedRows are the most rows of weights that are worth it for each workgroup to quantize K activations itself. All matrices that are multiplied by the same
// activations count, since one preparation would do for them.
type FusedRows struct{ K, Rows int }

// Worth says that by the prediction a product of some rows of weights and k activations takes less time so than by prepared activations. Between two lengths the
// lower number of rows counts.
func (f *Fused) Worth(rows, k int) bool {
	if len(f.Most) == 0 {
		return true
	}
	for i, m := range f.Most {
		if k <= m.K {
			return rows <= m.Rows && (i == 0 || rows <= f.Most[i-1].Rows)
		}
	}
	return false
}

// Numbered is a kernel by the number that Run and Runner have: one of Kernels, or behind them Fused.
func (v *Variant) Numbered(i int) *Kernel {
	if i == len(v.Kernels) && v.Fused != nil {
		return &v.Fused.Kernel
	}
	return &v.Kernels[i]
}

// Prepare is an assembly function that quantizes one row of activations.
// Pads, CountDiv and Chunk are explained at PrepareArgs.
type Prepare struct {
	Name      string
	CountDiv  []int
	Residuals int // which count is that of residuals, of tables that have any
	Pads      []int
	Chunk     int
	Tables    Tables
	Fn        func(*PrepareArgs)
}

// Tables are what kernels look up: for every K activations of a row a block of
// Bytes. ID names its contents; no tables have K 0. With Residual, another block of Bytes holds
// the residuals of the first, which kernels look up where they are not all 0.
type Tables struct {
	K, Bytes int
	ID       string
	Residual bool
}

// Cut is how some activations are cut into blocks, one for each kernel call. Kernels are counted from the narrowest, which is 0: the widest one first multiplies Full
// blocks, Middle then Some, and Tail the last one, which it may not fill. Middle and Tail are -1 if there is no such block.
type Cut struct{ Full, Middle, Some, Tail int }

// CutOf is the cut of n activations for kernels of ascending numbers of columns, cols(0) to cols(kernels-1). The widest multiplies what fills it. The rest is
// one block, or blocks of another kernel and a last one: what takes the least time, if a call takes as long as its columns, and one more for reading the weights. Of
// equal ones it is the fewest blocks.
func CutOf(kernels int, cols func(int) int, n int) Cut {
	whole, rest := whole(kernels, cols, n)
	if rest == 0 {
		return whole
	}
	best, least := whole, cols(whole.Tail)+1
	for i := whole.Tail - 1; i >= 0; i-- {
		some, left := rest/cols(i), rest%cols(i)
		x, takes := Cut{whole.Full, i, some, -1}, some*(cols(i)+1)
		if left > 0 {
			x.Tail = covering(cols, left)
			takes += cols(x.Tail) + 1
		}
		if takes < least {
			best, least = x, takes
		}
	}
	return best
}

// Blocks goes through the blocks of a cut for some kernels, in their order: a kernel, and how many blocks it multiplies.
func (c Cut) Blocks(kernels int) iter.Seq2[int, int] {
	return func(yield func(kernel, blocks int) bool) {
		if c.Full > 0 && !yield(kernels-1, c.Full) || c.Some > 0 && !yield(c.Middle, c.Some) || c.Tail < 0 {
			return
		}
		yield(c.Tail, 1)
	}
}

// CutWhole is the cut of n activations in which the narrowest kernel that covers the rest multiplies it: where reading weights takes longest.
func CutWhole(kernels int, cols func(int) int, n int) Cut {
	c, _ := whole(kernels, cols, n)
	return c
}

func whole(kernels int, cols func(int) int, n int) (c Cut, rest int) {
	widest := cols(kernels - 1)
	c, rest = Cut{n / widest, -1, 0, -1}, n%widest
	if rest > 0 {
		c.Tail = covering(cols, rest)
	}
	return c, rest
}

// covering is the narrowest kernel of n columns or more.
func covering(cols func(int) int, n int) (i int) {
	for cols(i) < n {
		i++
	}
	return i
}

// GemmArgs are the parameters of every matrix kernel, in the order of its vir
// parameters: Rows rows times Cols columns over all of K.
//
// Out receives the tile, f32: each column's rows one after the other, OutStep bytes behind
// the column before. Weights point at the first of
// the rows in each of the parts of the packed matrix that format.PartNames lists, nil if
// there is no such part; Act, Sums (as the Kernel says) and ActScale at the column block in the
// activation buffer. So do Residual and Offsets (int32, one per column) for tables with residuals;
// List holds the numbers (uint32) of the iterations that look up residuals; ListCount is their count.
// If Rows are several tiles side by side, the weights of each tile lie SideBytes behind the tile before, its
// rows in Out SideOut bytes behind. A kernel of whole tiles goes on with the next ones, Tiles times in all, at least once:
// they are TileBytes behind, their place in Out OutBytes; it moves Out and Weights, to no
// place behind the last tile's, and counts Tiles down. Count is the trip count of the loop over K: ceil(K / StepK).
// Scratch is memory of the Kernel's Scratch bytes, whose contents it neither minds nor keeps.
type GemmArgs struct {
	Out                     unsafe.Pointer
	OutStep                 int64
	Weights                 [numParts]unsafe.Pointer
	Act, Sums, ActScale     unsafe.Pointer
	Residual, Offsets, List unsafe.Pointer
	ListCount               int64
	Tiles                   int64
	TileBytes, OutBytes     int64
	SideBytes, SideOut      int64
	Count                   int64
	Scratch                 unsafe.Pointer
}

const numParts = len(format.PartNames)

// PrepareArgs are the parameters of every activation kernel. X is one row of K
// float32, padded with zeros up to a multiple of each of the kernel's Pads, and Next another one that is asked for from memory. Act (int8),
// Sums (int32, one per group) and ActScale (f32, one per group) are written;
// Amax, Finite and Inv are scratch of 4 bytes per group, Wide of 2 bytes per element, which kernels that read tables' activations as bytes leave alone;
// Table receives the tables of the row, if the kernel makes any: the tables of Chunk elements of K
// together, the next ones TableStep bytes behind them, or if Chunk is 0 all together. If those have residuals,
// Offsets receives the sum of the offsets of the row (int32) and Excess the largest residual of
// each unit (a byte); Pair and Span are scratch of 8 and 4 bytes per unit, Span read before Pair
// is written. Residuals are made by a second call, with no count but that of residuals, from Pair to
// Residual, both of the first unit to make; it writes arrays of one element, such as Sums, again,
// which are others then. Act and Wide are zero from K up to there when the kernel is called.
// Count[i] is ceil(K / the kernel's
// CountDiv[i]); if one of them is rounded up, all arrays that hold one element per
// group have room for 64 elements more, else the kernel writes only the groups of K.
type PrepareArgs struct {
	X                   unsafe.Pointer
	Act, Sums, ActScale unsafe.Pointer
	Amax, Finite, Inv   unsafe.Pointer
	Wide, Table         unsafe.Pointer
	Pair, Residual      unsafe.Pointer
	Offsets             unsafe.Pointer
	Span, Excess        unsafe.Pointer
	Next                unsafe.Pointer
	TableStep           int64
	Count               [16]int64
}
