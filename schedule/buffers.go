package schedule

import (
	"math"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// buffers says where the tensors that k reads and writes lie.
func (s *Product) buffers(k *Kernel) map[string]nest.Buffer {
	t := s.Problem.Tensors()
	b := map[string]nest.Buffer{}
	add := func(x nest.Buffer) { b[x.Name()] = x }
	out := &ir.Tensor{Name: "out", Elem: format.F32, Dims: []string{"n", "m"}}
	add(&nest.Rows{Memory: nest.Memory{Tensor: out, Param: "out"}, Stride: 4, Step: nest.StepParam("out"), Side: sideRows, Tile: s.weights.TileM})
	if k.Scratch > 0 {
		sums := &ir.Tensor{Name: s.main().accumulators[0].Temp.Name, Elem: format.F32, Dims: out.Dims}
		add(&nest.Array{Memory: nest.Memory{Tensor: sums, Param: scratchParam}, Strides: []int{4 * k.Rows, 4}})
	}
	codes := s.packed(t.Codes)
	codes.Streams = s.streams
	add(&nest.Codes{Packed: codes})
	for _, x := range t.Shared() {
		shared := s.packed(x)
		if s.streams.Every {
			shared.Streams = s.streams
		}
		add(&shared)
	}
	if !s.Problem.Act.Floats() {
		if t.Sums.Most = mostSum(s.Problem.GroupK(), k.SumBy); k.ScaledSums {
			t.Sums = t.ScaledSums()
		}
		add(perGroup(t.Sums, "sums", k.Cols))
		add(perGroup(t.ActScale, "ascale", k.Cols))
	}
	ahead := nest.Streams{Ahead: s.streams.Act}
	if s.tables == nil {
		lay := actLayout(k.Cols, k.Chunk)
		add(&nest.Packed{Memory: nest.Memory{Tensor: t.Act, Param: "act", Streams: ahead}, Layout: lay, Part: lay.Part("act")})
		return b
	}
	for _, x := range tableTensors(s.tables) {
		param := "act"
		if s.tables.Residual && x.Name == "residual" {
			param = "residual"
		}
		add(&nest.Tables{Memory: nest.Memory{Tensor: x, Param: param, Streams: ahead}, Of: s.tables, Cols: k.Cols, Chunk: k.Chunk})
	}
	if s.tables.Residual {
		add(perGroup(offsetsTensor(), "offsets", k.Cols))
	}
	return b
}

// packed is where the part of the packed matrix lies that is called as x.
func (s *Product) packed(x *ir.Tensor) nest.Packed {
	return nest.Packed{Memory: nest.Memory{Tensor: x, Param: x.Name}, Layout: s.weights, Part: s.weights.Part(x.Name), Side: sideStep}
}

// perGroup is an array of four bytes for each group and column: all columns of the first group come first.
func perGroup(x *ir.Tensor, param string, cols int) *nest.Array {
	return &nest.Array{Memory: nest.Memory{Tensor: x, Param: param}, Strides: []int{4, 4 * cols}}
}

// actChunk is how many elements of one column lie together.
func (s *Product) actChunk() (int, error) {
	chunk := s.chunk
	if chunk == 0 {
		chunk = s.usualChunk()
	}
	switch {
	case s.weights.RecordK%chunk != 0:
		return 0, &Unfinished{"pack act", "the chunk does not divide a record of the weights"}
	case s.tables != nil && chunk%(s.unit()*s.tables.Together) != 0:
		return 0, &Unfinished{"pack act", "the chunk is not whole blocks of tables"}
	}
	return chunk, nil
}

// actLayout interleaves the columns of a block in chunks.
func actLayout(cols, chunk int) *format.Layout {
	return &format.Layout{TileM: cols, RecordK: chunk, RecordBytes: chunk * cols, Parts: []format.Part{{
		Name: "act", Elem: format.I8,
		Digits: []format.Digit{{Axis: "n", Div: 1, Mod: cols, Stride: chunk}, {Axis: "k", Div: 1, Mod: chunk, Stride: 1}},
	}}}
}

// usualChunk is the largest number up to a cache line that divides what every
// serial loop over K advances by, and is a multiple of every power of two that does;
// of tables, all that every such loop advances by.
func (s *Product) usualChunk() int {
	advance := s.weights.RecordK
	for _, l := range s.main().loops {
		if overMatrix(l) && s.main().reduce[l.Root] && (l.Kind == nest.Serial || l.Kind == nest.Lane) && l.N != 1 {
			advance = gcd(advance, s.fullCoef(l))
		}
	}
	if s.tables != nil {
		return advance
	}
	chunk, power := line, gcd(line, advance)
	for advance%chunk != 0 {
		chunk -= power
	}
	return chunk
}

// mostSum bounds the activation sums of groups, times by, 0 if products with them do not get easier for that.
func mostSum(group, by int) int {
	if most := group * ir.ActMax * max(by, -by); most <= math.MaxInt16 {
		return most
	}
	return 0
}
