package schedule

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Preparation is what steps rewrite when the preparation of activations is scheduled: the decisions made so far. It
// has a stage for each one of its graph.
type Preparation struct {
	nests
	Problem ir.Problem
	tables  *ir.Tables // that it makes; nil: none
	chunk   int        // elements of K whose tables lie together; 0: all
	nextIn  string     // loop in which the next row is prefetched; "": none
}

// NewPreparation is the state of p's activation preparation before any step: one
// loop nest for each stage of ir.PrepareAct, or with tables of ir.PrepareTables, with
// loops named after the stage. Without tables, f32 activations need no preparation.
func NewPreparation(p ir.Problem, tables *ir.Tables) (*Preparation, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &Preparation{nests: nests{Graph: ir.PrepareAct(p)}, Problem: p, tables: tables}
	if tables != nil {
		s.Graph = ir.PrepareTables(p, tables)
	}
	if len(s.Graph.Stages) == 0 {
		return nil, &Unfinished{"activations", "are f32 and read as they are, unless kernels have tables"}
	}
	for _, gs := range s.Graph.Stages {
		s.stages = append(s.stages, ownStage(gs))
	}
	return s, nil
}

// clone copies s deeply enough for a step to edit.
func (s *Preparation) clone() *Preparation {
	c := *s
	c.nests = s.nests.clone()
	return &c
}

// Only is s with only some of its stages.
func (s *Preparation) Only(stages ...string) *Preparation {
	c := s.clone()
	c.stages = slices.DeleteFunc(c.stages, func(st *stage) bool { return !slices.Contains(stages, st.name) })
	return c
}

// Fills is how many iterations of l make the tables of a chunk, 0: l may have any number.
func (s *Preparation) Fills(l nest.Loop) int {
	if s.chunk == 0 || l.Root != "table.u" {
		return 0
	}
	return s.chunk / (s.tables.Digits() * l.Coef)
}

// edited is a copy of s with x applied.
func (s *Preparation) edited(x loopEdit) (*Preparation, error) {
	c := s.clone()
	if err := x.edit(&c.nests, 1); err != nil {
		return nil, err
	}
	return c, nil
}

// ownStage is a stage of a graph as a nest of its own. The axis n is the
// caller's: a call prepares one row.
func ownStage(gs ir.Stage) *stage {
	var k ir.Expr = ir.I32(0)
	axes := gs.Axes[1:]
	for _, d := range axes { // an axis counts what all axes inside it go over together
		k = ir.Binary{Op: ir.Mul, X: k, Y: ir.I32(max(d.N, 1))}
		k = ir.Binary{Op: ir.Add, X: k, Y: ir.Axis{Name: d.Name}}
	}
	if gs.Out.Block != 0 { // one element per group: addressed by its first element of K
		first := slices.Concat(axes, gs.Reduce)[0]
		k = ir.Binary{Op: ir.Mul, X: ir.Axis{Name: first.Name}, Y: ir.I32(max(first.Div, 1))}
	}
	return newStage(gs, axes, []ir.Expr{ir.I32(0), k}, ir.Map(gs.Body, func(x ir.Expr) ir.Expr {
		if x == (ir.Expr)(ir.Axis{Name: gs.Axes[0].Name}) {
			return ir.I32(0)
		}
		return x
	}))
}

// PreparationKernel is a scheduled activation kernel: one row of x.
type PreparationKernel struct {
	Problem  ir.Problem
	Tables   *ir.Tables // that it makes, or nil
	Trace    Trace
	Graph    *ir.Graph
	Nest     *nest.Nest
	CountDiv []int // run-time trip count i is ceil(K / CountDiv[i])
	// Residuals is the number of the trip count of residuals, if tables have any. Callers set that count to 0, and
	// have the residuals of some activations made by another call in which all other counts are 0.
	Residuals int
	Pads      []int // x is padded with zeros, and act written, up to a multiple of each
	Chunk     int   // elements of K whose tables lie together, the next ones a step behind; 0: all
}

// prepareParams are the kernel's parameters, as abi.PrepareArgs has them.
var prepareParams = []string{"x", "act", "sums", "ascale", "amax", "finite", "inv", "wide", "table", "pair", "residual", "offsets", "span", "excess", "next", nest.StepParam("table")}

// CompilePreparation replays t on p's activation preparation and builds its loops.
func CompilePreparation(p ir.Problem, tables *ir.Tables, t Trace) (*PreparationKernel, error) {
	return compilePreparation(p, tables, t, groupRoom)
}

// compilePreparation is CompilePreparation with room for some more groups.
func compilePreparation(p ir.Problem, tables *ir.Tables, t Trace, room int) (*PreparationKernel, error) {
	s, err := NewPreparation(p, tables)
	if err != nil {
		return nil, err
	}
	if s, err = t.ReplayPreparation(s); err != nil {
		return nil, err
	}
	k, err := s.kernel(room)
	if err != nil {
		return nil, err
	}
	k.Trace = t
	return k, nil
}

// Kernel builds the loops of s, and checks that nothing is left open.
func (s *Preparation) Kernel() (*PreparationKernel, error) { return s.kernel(groupRoom) }

// kernel is Kernel with room for some groups behind the last one.
func (s *Preparation) kernel(room int) (*PreparationKernel, error) {
	k := &PreparationKernel{Problem: s.Problem, Tables: s.tables, Graph: s.Graph, Chunk: s.chunk}
	k.Nest = &nest.Nest{Name: "prepare", Loops: slices.Clone(s.Loops()), Params: append([]string(nil), prepareParams...)}
	for _, st := range s.stages {
		if err := k.add(st, room); err != nil {
			return nil, fmt.Errorf("stage %s: %w", st.name, err)
		}
	}
	slices.Sort(k.Pads)
	k.Pads = slices.Compact(k.Pads)
	if s.nextIn != "" {
		if st, i := s.find(s.nextIn); st == nil || st.loops[i].Kind != nest.Serial {
			return nil, &Unfinished{"prefetch in " + s.nextIn, "the loop is no serial loop any more"}
		}
	}
	k.Nest.Buffers = prepareBuffers(s.Graph, s.tables, s.chunk, s.nextIn)
	return k, nil
}

// add appends the loops of one stage, with room for some groups behind the last one.
func (k *PreparationKernel) add(st *stage, room int) error {
	for _, l := range st.loops {
		if l.Kind == nest.Group {
			return &Unfinished{"loop " + l.Name, "a workgroup prepares a row of activations"}
		}
		if l.N != 0 {
			continue
		}
		k.Nest.Counts = append(k.Nest.Counts, l.Name)
		k.Nest.Params = append(k.Nest.Params, nest.CountParam(l))
		if st.out.Block > 0 && l.Coef > room {
			return &Unfinished{"loop " + l.Name, "makes more groups at once than callers have room for"}
		}
		div := st.dims[l.Root].Div * l.Coef
		if st.name == "residual" {
			k.Residuals = len(k.CountDiv)
		}
		k.CountDiv = append(k.CountDiv, div)
		if div > maxPad {
			return &Unfinished{"loop " + l.Name, "pads rows to a multiple of more than 1048576"}
		}
		if perElement := st.out.Block == 0 || len(st.reduce) > 0; perElement {
			k.Pads = append(k.Pads, div)
		}
		if st.name == "table" && k.Chunk > 0 && div > k.Chunk {
			return &Unfinished{"loop " + l.Name, "makes tables of more elements at once than a chunk has"}
		}
	}
	plan, err := st.plan()
	if err != nil {
		return err
	}
	body, err := nest.Build(plan)
	k.Nest.Body = append(k.Nest.Body, body...)
	return err
}

// groupRoom is the room that abi.PrepareArgs promises beyond the last group of
// an array of one element per group.
const groupRoom = 64

// maxPad bounds what callers must pad rows to: whole groups of any size, in any vectors.
const maxPad = 16 * format.MaxGroup

// prepareBuffers: every array is linear in K or in the group; tables lie as they say. A serial loop nextIn, if there is
// one, asks for the next row of x.
func prepareBuffers(g *ir.Graph, tables *ir.Tables, chunk int, nextIn string) map[string]nest.Buffer {
	x := prepareArray(g.Inputs[0], "x")
	if nextIn != "" {
		x.Next, x.NextIn = "next", nextIn
	}
	out := map[string]nest.Buffer{"x": x}
	for _, s := range g.Stages {
		name := s.Out.Name
		out[name] = prepareArray(s.Out, name)
		if name == "table" {
			out[name] = &nest.MadeTables{Memory: nest.Memory{Tensor: s.Out, Param: name}, Of: tables, Chunk: chunk, Step: nest.StepParam(name)}
		}
	}
	return out
}

func prepareArray(t *ir.Tensor, param string) *nest.Array {
	return &nest.Array{Memory: nest.Memory{Tensor: t, Param: param}, Strides: []int{0, t.Elem.Bytes()}, Whole: true}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
