package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Kernel is a scheduled product: its loops and what a caller must know.
type Kernel struct {
	Problem    ir.Problem
	Trace      Trace
	Nest       *nest.Nest
	Weights    *format.Layout // of the packed matrix
	Fill       int            // elements of K that groups of the activations are filled up to with zeros, 0: they are as they are
	Chunk      int            // elements of K of one column that lie together in the activations of a column block
	Tables     *ir.Tables     // what the activations are, nil: int8
	Rows       int            // rows per call: part of a tile of Weights, or whole ones
	Cols       int            // columns per call
	SumBy      int            // what the caller multiplies the activation sums by that it passes
	ScaledSums bool           // it passes what ir.Problem.ScaledSum makes of them instead
	Scratch    int            // bytes of memory that a call needs, 0: none
	StepK      int            // elements of K per iteration of the run-time loop: the trip count is ceil(FilledK(K)/StepK)
	Deviation  Deviation      // of the integer sum of a group

	// Quantized is how workgroups prepare activations from floats, of at most Room elements of K; nil: the caller prepares them.
	Quantized *PreparationKernel
	Room      int

	// Epilogue is the other inputs of the operator that the product ends in; nil: it ends in none.
	Epilogue []EpilogueInput
}

// Buffers names the packed matrices and prepared activations that k reads: kernels for products of one problem share
// them if their names are equal.
func (k *Kernel) Buffers() string {
	return buffersOf(k.Tables, k.Fill, k.Weights)
}

// Buffers names what kernels of s read once codes are packed, as Kernel.Buffers does.
func (s *Product) Buffers() string {
	to := 0
	if s.fill != nil {
		to = s.fill.to
	}
	return buffersOf(s.placedTables().tables, to, s.fill.stored(s.weights))
}

func buffersOf(t *ir.Tables, fill int, weights *format.Layout) string {
	weights = oneWord(weights)
	if t == nil {
		return fmt.Sprint("fill ", fill, " ", weights.Hash())
	}
	return fmt.Sprint("tables ", t.ID(), " ", weights.Hash())
}

// oneWord is l with no distance between the words of cells that have one.
func oneWord(l *format.Layout) *format.Layout {
	codes := l.Part(format.Codes)
	for _, bits := range codes.Map {
		if slices.ContainsFunc(bits, func(b format.BitPos) bool { return b.Word > 0 }) {
			return l
		}
	}
	c := *l
	c.Parts = slices.Clone(l.Parts)
	c.Part(format.Codes).WordStride = 1
	return &c
}

// SharesBuffers says that k and x read the same packed matrices and prepared activations.
func (k *Kernel) SharesBuffers(x *Kernel) bool { return k.Buffers() == x.Buffers() }

// Deviation bounds how far an integer sum may be from the definition: Most for each Span elements of K that are begun.
// Most is 0 if sums are exact.
type Deviation struct{ Span, Most int }

// Of is the largest distance of a sum over n elements of K from the definition.
func (d Deviation) Of(n int) int {
	if d.Most == 0 {
		return 0
	}
	return (n + d.Span - 1) / d.Span * d.Most
}

// Exact says that k gives the bits of the definition.
func (k *Kernel) Exact() bool { return k.Deviation.Most == 0 }

// matmulParams are the kernel's parameters, as abi.GemmArgs has them.
var matmulParams = slices.Concat([]string{"out", nest.StepParam("out")}, format.PartNames[:], []string{"act", "sums", "ascale",

	"residual", "offsets", nest.ListParam, nest.ListCountParam, tilesParam, tileStep, rowsStep, sideStep, sideRows})

// scratchParam is the memory of kernels that need some, after the trip count.
const scratchParam = "scratch"

// A kernel goes on as often as tilesParam says, if all rows of its tiles are its own: tiles
// are tileStep bytes apart, its rows of the product move by rowsStep. Those that it has side by side are sideStep
// apart, their rows of the product sideRows.
var tilesParam, tileStep, rowsStep = "count.tiles", nest.StepParam("tile"), nest.StepParam("rows")

var sideStep, sideRows = nest.StepParam("side"), nest.StepParam("siderows")

// Groups of tiles are counted by tilesParam too, groups of columns by blocksParam: their activations are actStep bytes
// apart, their sums and scales sumsStep, and their columns of the product blockStep.
var blocksParam, actStep, sumsStep, blockStep = "count.blocks", nest.StepParam("act"), nest.StepParam("sums"), nest.StepParam("block")

// line is what buffers begin at a multiple of.
const line = 64

// wholeLines is the largest power of two that a number of bytes and line are multiples of.
func wholeLines(bytes int) int { return (line | bytes) & -(line | bytes) }

// grid are the workgroups of a kernel whose rows, and whose columns if columns is set, are spread over them. It says how
// parameters are aligned: buffers begin at whole lines.
func (k *Kernel) grid(columns bool) {
	n := k.Nest
	n.Grid, n.Repeat = []nest.Repeat{*n.Repeat}, nil
	aligned := func(param string, bytes int) { n.Aligned[param] = wholeLines(bytes) }
	n.Aligned = map[string]int{}
	for _, p := range k.Weights.Parts {
		aligned(p.Name, p.Base)
	}
	for _, p := range []string{"act", "sums", "ascale"} {
		aligned(p, 0)
	}
	for _, p := range []string{tileStep, sideStep} {
		aligned(p, k.Weights.HeaderBytes|k.Weights.RecordBytes)
	}
	for _, p := range []string{rowsStep, sideRows} {
		aligned(p, 4*min(k.Rows, k.Weights.TileM))
	}
	for _, p := range []string{"out", nest.StepParam("out")} { // columns are whole tiles
		aligned(p, 4*k.Weights.TileM)
	}
	if columns {
		k.columns()
	}
}

// columns gives a kernel workgroups for each of its blocks of columns.
func (k *Kernel) columns() {
	n := k.Nest
	n.Params = append(n.Params, blocksParam, actStep, sumsStep, blockStep)
	n.Grid = append(n.Grid, nest.Repeat{Count: blocksParam, Moves: []nest.Move{{Param: "out", By: blockStep},
		{Param: "act", By: actStep}, {Param: "sums", By: sumsStep}, {Param: "ascale", By: sumsStep}}})
	n.Aligned[actStep], n.Aligned[sumsStep], n.Aligned[blockStep] = line, line, wholeLines(4*k.Weights.TileM)
}

// Listed is the loops of k with a matrix for each block of columns: all parts of the weights move by the numbers of bytes in a list.
func (k *Kernel) Listed() *nest.Nest {
	c, n := *k, *k.Nest
	n.Params, n.Grid, n.Aligned = slices.Clone(n.Params), slices.Clone(n.Grid), maps.Clone(n.Aligned)
	if c.Nest = &n; len(n.Grid) < 2 {
		c.columns()
	}
	blocks := &n.Grid[1]
	blocks.Moves = slices.Clone(blocks.Moves)
	for _, p := range k.Weights.Parts {
		blocks.Moves = append(blocks.Moves, nest.Move{Param: p.Name, By: nest.ListParam})
	}
	return &n
}

// repeat is how kernels go from tile to tile: the product and all parts of the weights move.
func (k *Kernel) repeat() *nest.Repeat {
	r := &nest.Repeat{Count: tilesParam, Moves: []nest.Move{{Param: "out", By: rowsStep}}}
	for _, p := range k.Weights.Parts {
		r.Moves = append(r.Moves, nest.Move{Param: p.Name, By: tileStep})
	}
	return r
}
