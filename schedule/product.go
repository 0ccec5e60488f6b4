package schedule

import (
	"cmp"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Product is what steps rewrite when a product is scheduled: the decisions made so far. It has one stage, after Decompose.
type Product struct {
	nests
	Problem ir.Problem     // with filled groups, if a step fills them
	fill    *fill          // how groups are filled; nil: they are not
	weights *format.Layout // of the packed matrix; nil until packed
	valid   *validLayouts  // of all states of the product
	chunk   int            // activation elements of a column that lie together; 0: not chosen
	streams nest.Streams   // prefetch distances
	hoisted bool
	folded  bool          // weights are multiplied by the integer scales of their groups
	tables  *ir.Tables    // of activations; nil if the product has none
	shared  string        // loop at which lanes share activations; "": they do not
	decoded string        // loop at which lanes share decoded weights; "": they do not
	ahead   bool          // they load them while the iteration before computes
	scales  []nest.Shared // scales that lanes share
	halves  bool          // they fill one half of the buffers while the other is used

	epilogue  *ending   // operator that the product ends in; nil: none
	parts     int       // workgroups that share sums over K; 0: none
	quantized *Quantize // how groups prepare activations; nil: they do not
	sumBy     int       // factor that the caller multiplies activation sums by; 0: the caller does not
}

// NewProduct is the state of a product before any step.
func NewProduct(p ir.Problem) (*Product, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &Product{nests: nests{Graph: ir.Matmul(p)}, Problem: p, valid: &validLayouts{}}, nil
}

// decomposed says why x, which edits the stage of the product, does not apply yet.
func (s *Product) decomposed(x Step, thing string) error {
	if len(s.stages) == 0 {
		return illegal(x, thing, "decompose first")
	}
	return nil
}

// clone copies s deeply enough for a step to edit.
func (s *Product) clone() *Product {
	c := *s
	c.nests = s.nests.clone()
	return &c
}

// edited is a copy of s with x applied.
func (s *Product) edited(x loopEdit) (*Product, error) {
	c := s.clone()
	if err := x.edit(&c.nests, s.unit()); err != nil {
		return nil, err
	}
	return c, nil
}

// main is the only stage of a product.
func (s *Product) main() *stage { return s.stages[0] }

// fullCoef is how many elements of K one iteration of l advances.
func (s *Product) fullCoef(l nest.Loop) int {
	if l.Root == "g" {
		return l.Coef * max(s.Problem.GroupK(), 1)
	}
	return l.Coef
}

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
	s, scaled := s.placedTables().scaledSums()
	s, err := s.splitK()
	if err != nil {
		return nil, err
	}
	st := s.main()
	k := s.kernel(scaled)
	if err := s.contiguous(k); err != nil {
		return nil, err
	}
	if s.streams.Rest && !s.hasRest() {
		return nil, &Unfinished{"prefetch", "has no other tiles side by side than the first"}
	}
	if k.Chunk, err = s.actChunk(); err != nil {
		return nil, err
	}
	plan, err := st.plan()
	if err != nil {
		return nil, err
	}
	if k.Nest.Body, err = nest.Build(plan); err != nil {
		return nil, err
	}
	k.Nest.Loops = append(slices.Clone(st.loops), keepLoops(plan)...)
	k.Nest.Buffers = s.buffers(k)
	k.Deviation = s.deviation()
	if s.epilogue != nil {
		if err := s.epilogue.addTo(k); err != nil {
			return nil, err
		}
	}
	if s.quantized != nil {
		if err := s.quantized.prepared(k); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// placedTables is s with the tables that one vector reads placed side by side. If they have residuals, the run-time
// loop over K is a listed one.
func (s *Product) placedTables() *Product {
	if s.tables == nil {
		return s
	}
	tables := *s.tables
	tables.Together = s.neighbours()
	c := s.clone()
	c.tables = &tables
	if tables.Residual {
		c.main().list()
	}
	return c
}

// kernel is the kernel of s without the body of its nest: what one call computes, and the parameters.
func (s *Product) kernel(scaledSums bool) *Kernel {
	k := &Kernel{Problem: s.Problem, Weights: s.fill.stored(s.weights), Tables: s.tables, Rows: 1, Cols: 1, SumBy: cmp.Or(s.sumBy, 1), ScaledSums: scaledSums}
	if s.fill != nil {
		k.Problem, k.Fill = s.fill.of, s.fill.to
	}
	k.Nest = &nest.Nest{Name: "matmul", Params: slices.Clone(matmulParams), Repeat: k.repeat()}
	groups := map[string]bool{}
	for _, l := range s.main().loops {
		groups[l.Root] = groups[l.Root] || l.Kind == nest.Group
		switch {
		case l.Kind.Outside():
		case l.Root == "m":
			k.Rows *= l.N
		case l.Root == "n":
			k.Cols *= l.N
		case l.N == 0:
			k.StepK = s.fullCoef(l)
			k.Nest.Counts = append(k.Nest.Counts, l.Name)
			k.Nest.Params = append(k.Nest.Params, nest.CountParam(l))
		}
	}
	if s.main().accumulators[0].InMemory {
		k.Scratch = 4 * k.Rows * k.Cols
		k.Nest.Params = append(k.Nest.Params, scratchParam)
	}
	if groups["m"] {
		k.grid(groups["n"])
	}
	if s.shared != "" {
		k.Nest.Shared = append(k.Nest.Shared, nest.Shared{Param: "act", At: s.shared})
	}
	if s.decoded != "" {
		k.Nest.Shared = append(k.Nest.Shared, nest.Shared{Temp: "w", At: s.decoded, Ahead: s.ahead, Halves: s.halves})
	}
	k.Nest.Shared = append(k.Nest.Shared, s.scales...)
	k.Nest.Holders = s.main().holders
	return k
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
	values["least"] = p.Least(value("ownleast", format.F32), p.OfAct(p.Tensors().ScaledSums()))
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

// list makes the run-time loop over K a listed one.
func (st *stage) list() {
	for i, l := range st.loops {
		if l.N == 0 && l.Root == "k" {
			st.loops[i].ListedBy = halfLoop
		}
	}
}

// keepLoops are the loops over classes that flushes open, and the ones that only sums beside others have.
func keepLoops(p *nest.Plan) []nest.Loop {
	var out []nest.Loop
	for _, acc := range p.Accumulators {
		if acc.Beside != nil {
			out = append(out, acc.Beside.Over...)
		}
		for _, kp := range acc.Keep {
			if kp.Value != nil {
				out = append(out, nest.Loop{Name: kp.Name, N: kp.N, Kind: nest.Unrolled})
			}
		}
	}
	return out
}
