package schedule

import (
	"fmt"
	"math"
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
	StepK      int            // elements of K per iteration of the run-time loop: the trip count is ceil(FilledK(K)/StepK)
	Deviation  Deviation      // of the integer sum of a group
}

// Buffers names the packed matrices and prepared activations that k reads: kernels for products of one problem share
// them if their names are equal.
func (k *Kernel) Buffers() string {
	if k.Tables == nil {
		return fmt.Sprint("fill ", k.Fill, " ", k.Weights.Hash())
	}
	return fmt.Sprint("tables ", k.Tables.ID(), " ", k.Weights.Hash())
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

// A kernel goes on as often as tilesParam says, if all rows of its tiles are its own: tiles
// are tileStep bytes apart, its rows of the product move by rowsStep. Those that it has side by side are sideStep
// apart, their rows of the product sideRows.
var tilesParam, tileStep, rowsStep = "count.tiles", nest.StepParam("tile"), nest.StepParam("rows")
var sideStep, sideRows = nest.StepParam("side"), nest.StepParam("siderows")

// repeat is how kernels go from tile to tile: the product and all parts of the weights move.
func (k *Kernel) repeat() *nest.Repeat {
	r := &nest.Repeat{Count: tilesParam, Moves: []nest.Move{{Param: "out", By: rowsStep}}}
	for _, p := range k.Weights.Parts {
		r.Moves = append(r.Moves, nest.Move{Param: p.Name, By: tileStep})
	}
	return r
}

// Unfinished reports a trace that leaves something open.
type Unfinished struct{ Thing, Remedy string }

func (e *Unfinished) Error() string { return e.Thing + ": " + e.Remedy }

// Compile replays t on p's product and builds its loops.
func Compile(p ir.Problem, t Trace) (*Kernel, error) {
	s, err := NewProduct(p)
	if err != nil {
		return nil, err
	}
	if s, err = t.Replay(s); err != nil {
		return nil, err
	}
	k, err := s.Kernel()
	if err != nil {
		return nil, err
	}
	k.Trace = t
	return k, nil
}

// Kernel checks that s is complete and proven exact, and builds its loops.
func (s *Product) Kernel() (*Kernel, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	if err := s.CheckRanges(); err != nil {
		return nil, err
	}
	if s.tables != nil {
		together := *s.tables
		together.Together = s.neighbours()
		s = s.clone()
		s.tables = &together
		if together.Residual {
			s.main().list()
		}
	}
	s, scaled := s.scaledSums()
	st := s.main()
	k := &Kernel{Problem: s.Problem, Weights: s.fill.stored(s.weights), Tables: s.tables, Rows: 1, Cols: 1, SumBy: 1, ScaledSums: scaled}
	if s.fill != nil {
		k.Problem, k.Fill = s.fill.of, s.fill.to
	}
	if s.sumBy != 0 {
		k.SumBy = s.sumBy
	}
	n := &nest.Nest{Name: "matmul", Loops: st.loops, Params: slices.Clone(matmulParams)}
	for _, l := range st.loops {
		switch {
		case l.Kind == nest.Outer:
		case l.Root == "m":
			k.Rows *= l.N
		case l.Root == "n":
			k.Cols *= l.N
		case l.N == 0:
			k.StepK = s.fullCoef(l)
			n.Counts = append(n.Counts, l.Name)
			n.Params = append(n.Params, nest.CountParam(l))
		}
	}
	if err := s.contiguous(k); err != nil {
		return nil, err
	}
	if s.streams.Rest && !slices.ContainsFunc(st.loops, func(l nest.Loop) bool { return l.Kind == nest.Unrolled && l.Root == "m" && l.Coef >= s.weights.TileM }) {
		return nil, &Unfinished{"prefetch", "has no other tiles side by side than the first"}
	}
	n.Repeat = k.repeat()
	var err error
	if k.Chunk, err = s.actChunk(); err != nil {
		return nil, err
	}
	plan, err := st.plan()
	if err != nil {
		return nil, err
	}
	if n.Body, err = nest.Build(plan); err != nil {
		return nil, err
	}
	n.Loops = append(slices.Clone(st.loops), keepLoops(plan)...)
	n.Buffers = s.buffers(k)
	k.Nest, k.Deviation = n, s.deviation()
	return k, nil
}

// scaledSums is s with minimums times what the caller makes of the activation sums, once for all rows; false
// if the sums themselves are needed too.
func (s *Product) scaledSums() (*Product, bool) {
	p := s.Problem
	if !p.Weight.Min || p.Block() > 1 || s.main().readsSums() {
		return s, false
	}
	c := s.clone()
	values := c.main().values
	values["least"] = p.Least(named(values, "supermin", p.SuperMin()), p.OfAct(p.Tensors().ScaledSums()))
	return c, true
}

// readsSums says that what a group adds up makes up for the base of levels by activation sums.
func (st *stage) readsSums() (reads bool) {
	for _, acc := range st.accumulators {
		for _, e := range []ir.Expr{acc.Init, acc.Flush} {
			if e == nil {
				continue
			}
			ir.Walk(e, func(x ir.Expr) {
				r, ok := x.(ir.Read)
				reads = reads || ok && r.T.Name == "sums"
			})
		}
	}
	return reads
}

// halvesOutside: the run-time loop over K, which is listed for residuals, is inside the loop half.
func (st *stage) halvesOutside() error {
	for _, l := range st.loops {
		switch {
		case l.Name == halfLoop:
			return nil
		case l.N == 0 && l.Root == "k":
			return &Unfinished{"loop " + halfLoop, "belongs outside the run-time loop over K, which takes the few residuals from a list"}
		}
	}
	return nil
}

// list makes the run-time loop over K a listed one.
func (st *stage) list() {
	for i, l := range st.loops {
		if l.N == 0 && l.Root == "k" {
			st.loops[i].ListedBy = halfLoop
		}
	}
}

// keepLoops are the loops over classes that flushes open.
func keepLoops(p *nest.Plan) []nest.Loop {
	var out []nest.Loop
	for _, acc := range p.Accumulators {
		for _, kp := range acc.Keep {
			if kp.Value != nil {
				out = append(out, nest.Loop{Name: kp.Name, N: kp.N, Kind: nest.Unrolled})
			}
		}
	}
	return out
}

func (s *Product) complete() error {
	switch {
	case len(s.stages) == 0:
		return &Unfinished{"trace", "has no decompose"}
	case s.weights == nil:
		return &Unfinished{"trace", "has no pack of the codes"}
	case s.Problem.Weight.Zero && !s.hoisted:
		return &Unfinished{"zero points", "need hoist_zero: level - zero does not fit a byte"}
	case s.bias() != 0 && !s.hoisted:
		return &Unfinished{"digits", "leave a bias to the activation sums: hoist_zero"}
	}
	st := s.main()
	dot := 0
	for i, l := range st.loops {
		switch {
		case l.N == 0 && !st.reduce[l.Root] && l.Kind != nest.Outer:
			return &Unfinished{"loop " + l.Name, "counts rows or columns at run time: bind it outer"}
		case l.Kind == nest.Outer && i > 0 && st.loops[i-1].Kind != nest.Outer:
			return &Unfinished{"loop " + l.Name, "outer loops come first"}
		case l.Kind == nest.Dot:
			dot = l.N
		case l.Kind == nest.Pair && !st.halves():
			return &Unfinished{"loop " + l.Name, "a pair becomes two registers of twice the width: accumulate in half the bits of the accumulator above"}
		}
	}
	if err := s.groupOrder(); err != nil {
		return err
	}
	if s.Problem.Act.Floats() {
		if err := st.inOrder(); err != nil {
			return err
		}
	}
	if s.tables != nil && s.tables.Residual {
		if err := st.halvesOutside(); err != nil {
			return err
		}
	}
	if s.tables != nil {
		return st.repeated(planeLoop, partLoop, halfLoop)
	}
	return s.completeDot(dot)
}

// halves says that the lowest accumulator is half as wide as the one above.
func (st *stage) halves() bool {
	n := len(st.accumulators)
	return n > 1 && 2*st.accumulators[n-1].Temp.Elem.Bits() == st.accumulators[n-2].Temp.Elem.Bits()
}

// repeated: what loops over planes and parts stand for differs from one iteration to
// the next.
func (st *stage) repeated(names ...string) error {
	for _, l := range st.loops {
		if slices.Contains(names, l.Name) && l.N > 1 && l.Kind != nest.Unrolled && l.Kind != nest.Averaged {
			return &Unfinished{"loop " + l.Name, "must be bound unrolled"}
		}
	}
	return nil
}

// completeDot checks a product by dot products of n bytes.
func (s *Product) completeDot(dot int) error {
	if dot == 0 {
		return &Unfinished{"trace", "has no tensorize"}
	}
	low := s.main().lowest().Temp.Elem
	if dot < 4 && low != format.I16 {
		return &Unfinished{fmt.Sprintf("dot%d", dot), "sums to 16 bits: accumulate i16"}
	}
	if dot == 4 && low != format.I32 {
		return &Unfinished{"dot4", "sums to 32 bits: accumulate i32"}
	}
	if dot == 2 {
		if !s.hoisted {
			return &Unfinished{"dot2", "wants unsigned weights: hoist_zero"}
		}
		if err := s.checkPairs(); err != nil {
			return err
		}
	}
	return nil
}

// groupOrder: the float sum runs over groups in ascending order, each complete.
func (s *Product) groupOrder() error {
	coef, inner := 0, false
	for _, l := range s.main().loops {
		switch {
		case s.main().reduce[l.Root] && l.Root != "g":
			inner = true
		case l.Root == "g" && inner:
			return &Unfinished{"loop " + l.Name, "groups enclose their elements: move it outside the loops over k"}
		case l.Root == "g" && l.Kind == nest.Vector:
			return &Unfinished{"loop " + l.Name, "groups are summed in order, not in lanes"}
		case l.Root == "g":
			if coef != 0 && l.Coef > coef {
				return &Unfinished{"loop " + l.Name, "groups are summed in ascending order"}
			}
			coef = l.Coef
		}
	}
	return nil
}

// inOrder: the float sum of a group runs over the elements of K, and the parts of each unit,
// in ascending order.
func (st *stage) inOrder() error {
	var last *nest.Loop
	for i := range st.loops {
		l := &st.loops[i]
		switch {
		case l.N == 1 || l.Root != "k" && l.Root != partLoop:
		case l.Kind != nest.Serial && l.Kind != nest.Unrolled:
			return &Unfinished{"loop " + l.Name, "floats are summed in order, not in lanes"}
		case last != nil && (l.Root == last.Root && l.Coef > last.Coef || l.Root != last.Root && last.Root == partLoop):
			return &Unfinished{"loop " + l.Name, "floats are summed in ascending order: move it outside the loops of shorter steps"}
		default:
			last = l
		}
	}
	return nil
}

// contiguous: one call makes Rows consecutive rows and Cols consecutive columns.
func (s *Product) contiguous(k *Kernel) error {
	for _, l := range s.main().loops {
		size := map[string]int{"m": k.Rows, "n": k.Cols}[l.Root]
		if size > 0 && l.N != 1 && (l.Kind == nest.Outer) != (l.Coef >= size) {
			return &Unfinished{"loop " + l.Name, "the rows and columns of one call must be consecutive"}
		}
	}
	for _, d := range s.weights.Part("codes").Fields {
		if l := s.loopOf(d); l.Kind == nest.Outer {
			return &Unfinished{"loop " + l.Name, "a call takes all fields of a cell"}
		}
	}
	return nil
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
		if overMatrix(l) && s.main().reduce[l.Root] && l.Kind == nest.Serial && l.N != 1 {
			advance = gcd(advance, s.fullCoef(l))
		}
	}
	if s.tables != nil {
		return advance
	}
	const line = 64
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

// buffers says where the tensors that k reads and writes lie.
func (s *Product) buffers(k *Kernel) map[string]nest.Buffer {
	t := s.Problem.Tensors()
	b := map[string]nest.Buffer{}
	add := func(x nest.Buffer) { b[x.Name()] = x }
	out := &ir.Tensor{Name: "out", Elem: format.F32, Dims: []string{"n", "m"}}
	add(&nest.Rows{Memory: nest.Memory{Tensor: out, Param: "out"}, Stride: 4, Step: nest.StepParam("out"), Side: sideRows, Tile: s.weights.TileM})
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
