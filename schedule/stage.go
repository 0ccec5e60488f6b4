package schedule

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Stage computes a value once, in registers, at the start of loop At, and reuses
// it below: "w" the decoded weight, "a" the activation, or of a product by tables "x"
// the index; "super" the super-scale and the super-minimum if the format has two levels.
// "act" are all activations that an iteration of the serial loop At reads. The lanes of a workgroup copy them into a buffer that
// they share. Shared, the decoded weights of an iteration of the serial loop At are in such a buffer too: each lane decodes
// some of them. "scales" are the scales, and the minimums, of the groups of an iteration, which lanes of tiles share in the same way: shared is then
// said too. Ahead, lanes load what they decode, and activations that they share at the same loop, while the iteration before
// computes. With Halves, they fill one half of the buffers while they multiply the other.
//
//	for r                              for r
//	    for n                              w1 = decode(codes[r])
//	        acc[r,n] += decode(codes[r])*a ->  for n
//	                                           acc[r,n] += w1*a
//
// In a preparation of activations with tables, "wide" is an activation in 16 bits, computed at the innermost loop over tables: they
// are no array then, made before tables are.
type Stage struct {
	Value  string `json:"value"`
	At     string `json:"at"`
	Shared bool   `json:"shared,omitempty"`
	Ahead  bool   `json:"ahead,omitempty"`
	Halves bool   `json:"halves,omitempty"`
}

// Apply implements Step.
func (x Stage) Apply(s *Product) (*Product, error) {
	if (x.Shared || x.Ahead || x.Halves) && (x.Value != "w" && x.Value != "scales" || x.Value == "scales" && x.Ahead || !x.Shared || x.Halves && !x.Ahead) {
		return nil, illegal(x, x.Value, "is no value that lanes share so; have w, shared, and then ahead, and then by halves")
	}
	switch x.Value {
	case "w", "a", "x":
		if len(s.stages) > 0 && s.main().values[x.Value] == nil {
			return nil, illegal(x, x.Value, "is no value of this decomposition")
		}
		if x.Shared {
			return x.sharedWeights(s)
		}
		return stageAt(x, s, x.Value, x.At)
	case "super":
		return x.super(s)
	case "act":
		return x.shared(s)
	case "scales":
		return x.scales(s)
	case "wide":
		return nil, x.noWide()
	}
	return nil, illegal(x, x.Value, "no such value; have w, a, x, super, scales, act, wide")
}

func (x Stage) noWide() error {
	return illegal(x, x.Value, "no table is made of wide activations here")
}

// ApplyPreparation implements PreparationStep: tables are then made of activations as they are.
func (x Stage) ApplyPreparation(s *Preparation) (*Preparation, error) {
	if x.Value != "wide" {
		return nil, forProducts(x)
	}
	i := slices.IndexFunc(s.stages, func(st *stage) bool { return st.name == "wide" })
	if i < 0 {
		return nil, x.noWide()
	}
	st, l := s.find(x.At)
	overTables := func(l nest.Loop) bool { return l.Root == "table.u" }
	if st == nil || st.name != "table" || !overTables(st.loops[l]) || slices.ContainsFunc(st.loops[l+1:], overTables) {
		return nil, illegal(x, x.At, "is not the innermost loop over tables")
	}
	c := s.clone()
	of := c.stages[i]
	c.stages = slices.Delete(c.stages, i, i+1)
	act := of.final
	read := func(body ir.Expr) ir.Expr {
		return ir.Map(body, func(e ir.Expr) ir.Expr {
			r, ok := e.(ir.Read)
			if !ok || r.T.Name != of.name {
				return e
			}
			return ir.Map(act, func(e ir.Expr) ir.Expr {
				if a, ok := e.(ir.Read); ok {
					return ir.Read{T: a.T, Index: r.Index}
				}
				return e
			})
		})
	}
	for _, st := range c.stages {
		if st.final != nil {
			st.final = read(st.final)
		}
	}
	g := *c.Graph
	g.Stages = nil
	for _, st := range c.Graph.Stages {
		if st.Out.Name != of.name {
			st.Body = read(st.Body)
			g.Stages = append(g.Stages, st)
		}
	}
	c.Graph = &g
	return c, nil
}

func (x Stage) shared(s *Product) (*Product, error) {
	st, i, err := s.loop(x, x.At)
	switch {
	case err != nil:
		return nil, err
	case st.loops[i].Kind != nest.Serial:
		return nil, illegal(x, x.At, "is no serial loop")
	case s.shared != "":
		return nil, illegal(x, x.Value, "is staged already")
	}
	c := s.clone()
	c.shared = x.At
	return c, nil
}

func (x Stage) sharedWeights(s *Product) (*Product, error) {
	if st, i := s.find(x.At); st == nil || st.loops[i].Kind != nest.Serial {
		return nil, illegal(x, x.At, "is no serial loop")
	}
	c, err := stageAt(x, s, x.Value, x.At)
	if err == nil {
		c.decoded, c.ahead, c.halves = x.At, x.Ahead, x.Halves
	}
	return c, err
}

// scales makes lanes share what the groups of weights of an iteration are scaled by, and their minimums.
func (x Stage) scales(s *Product) (*Product, error) {
	if err := s.decomposed(x, x.Value); err != nil {
		return nil, err
	}
	st, i := s.find(x.At)
	if !x.Shared || st == nil || st.loops[i].Kind != nest.Serial {
		return nil, illegal(x, x.At, "is no serial loop in which lanes share scales: say shared")
	}
	if s.Problem.Weight.Group == 0 {
		return nil, illegal(x, x.Value, "groups have none of their own")
	}
	c := s
	names := []string{"own", "ownleast"}
	if s.folded {
		names = append(names, "subleast")
	}
	if st.block > 1 {
		names = []string{"sub", "subleast"}
		if whole := st.loops[i]; !st.inBlock(whole) && whole.Coef%st.block == 0 { // an iteration has whole blocks
			names = append(names, "own", "ownleast")
		}
	}
	for _, name := range names {
		if s.main().values[name] == nil {
			continue
		}
		var err error
		if c, err = stageAt(x, c, name, x.At); err != nil {
			return nil, err
		}
		c.scales = append(slices.Clip(c.scales), nest.Shared{Temp: name, At: x.At})
	}
	return c, nil
}

func (x Stage) super(s *Product) (*Product, error) {
	if s.Problem.Weight.Super == 0 {
		return nil, illegal(x, x.Value, "the scales have one level")
	}
	if st, i := s.find(x.At); st != nil && st.loops[i].Root != "g" {
		return nil, illegal(x, x.At, "is not a loop over groups")
	}
	c, err := stageAt(x, s, "super", x.At)
	if err != nil || !s.Problem.Weight.Min {
		return c, err
	}
	return stageAt(x, c, "supermin", x.At)
}

// ScaleAt chooses when the product of the weight's and the activation's scale
// is formed, or the weight's alone is read if a row of activations has one scale: "begin" keeps it in a
// register while the group is summed, "end" (the default) forms it when the sum is there. The bits are the same. A block of groups
// that are one integer has one such product.
//
//	for g                                for g
//	    sum = 0                              s = wscale[g]*ascale[g]
//	    for k                                sum = 0
//	        sum += p                 ->      for k
//	    acc += sum*(wscale[g]*ascale[g])         sum += p
//	                                         acc += sum*s
type ScaleAt struct {
	Where string `json:"where"`
}

// Apply implements Step.
func (x ScaleAt) Apply(s *Product) (*Product, error) {
	if x.Where != "begin" && x.Where != "end" {
		return nil, illegal(x, x.Where, "want begin or end")
	}
	if err := s.decomposed(x, x.Where); err != nil {
		return nil, err
	}
	if x.Where == "end" {
		if s.main().isStaged("scale") {
			return nil, illegal(x, x.Where, "is formed at the beginning already")
		}
		return s, nil
	}
	at := ""
	for _, l := range s.main().loops {
		if l.Root == "g" && !s.main().inBlock(l) {
			at = l.Name
		}
	}
	return stageAt(x, s, "scale", at)
}

// Fission divides Loop, over the groups of a block that is one integer, in two: one loop for the products, and one after it, with copies of the loops
// over groups inside, for what their minimums add up. Each needs fewer registers than both together.
//
//	for g 16                               for g 16
//	    sum = 0                                sum = 0
//	    for k 16                               for k 16
//	        sum += p                  ->           sum += p
//	    block += sum*scales[g]                 block += sum*scales[g]
//	    least += sums[g]*mins[g]           for g 16
//	                                           least += sums[g]*mins[g]
type Fission struct {
	Loop string `json:"loop"`
}

// Apply implements Step.
func (x Fission) Apply(s *Product) (*Product, error) {
	c, st, i, err := edit(x, s, x.Loop)
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(st.accumulators, func(acc accumulator) bool { return acc.Beside != nil })
	switch {
	case n < 0:
		return nil, illegal(x, x.Loop, "has nothing to divide: no minimums are summed by blocks of groups that are one integer")
	case !st.inBlock(st.loops[i]):
		return nil, illegal(x, x.Loop, "is not a loop over the groups of a block")
	case st.accumulators[n].Beside.Apart != "":
		return nil, illegal(x, x.Loop, "minimums are summed in a loop of their own already")
	}
	least := *st.accumulators[n].Beside
	least.Apart = x.Loop
	st.accumulators[n].Beside = &least
	return c, nil
}

func stageAt(x Step, s *Product, name, at string) (*Product, error) {
	if err := s.decomposed(x, name); err != nil {
		return nil, err
	}
	c := s.clone()
	st := c.main()
	if at != "" {
		l := slices.IndexFunc(st.loops, func(l nest.Loop) bool { return l.Name == at })
		if l < 0 {
			return nil, illegal(x, at, "no such loop")
		}
		if isLane(st.loops[l]) {
			return nil, illegal(x, at, "is %s: a value cannot be staged between lanes", st.loops[l].Kind)
		}
	}
	if st.isStaged(name) {
		return nil, illegal(x, name, "is staged already")
	}
	if name == "x" && c.averages() > 0 {
		return nil, illegal(x, name, "differs between lookups that are averaged")
	}
	t := typeOf(st, name)
	st.staged = append(st.staged, nest.Staged{Temp: &ir.Tensor{Name: name, Elem: t}, At: at})
	return c, nil
}

func typeOf(st *stage, name string) format.DType {
	if name == "w" {
		t := format.U8
		ir.Walk(st.body, func(e ir.Expr) {
			if r, ok := e.(ir.Read); ok && r.T.Name == "w" {
				t = r.T.Elem
			}
		})
		return t
	}
	return st.values[name].Type()
}

// Prefetch asks for lines before they are used. A distance of 0 asks for none.
//
//   - Bytes is the distance of the packed weights, into the nearest cache.
//   - Far is the distance of a second stream, into the second-level cache, where more lines can be on their way. It asks
//     for two lines of every four that codes lie in, or with Every for each line of all parts.
//   - Act is the distance of the activations or of their tables. Weights may have displaced them to the second-level cache.
//
// With Rest, the first of tiles side by side is left to the prefetcher of the hardware.
//
//	for ks                            for ks
//	    x = load codes+64*ks    ->        prefetch codes+64*ks+2048
//	                                      prefetch2 codes+64*ks+16384
//	                                      x = load codes+64*ks
//
// In a preparation of activations, In is a serial loop that reads them. It asks for the activations of the next row in
// the same places. In a product, In is a serial loop of lanes of workgroups: they load the weights of its next iteration into registers
// before they use this one's. In an operator, Tensor is the input that Bytes, Far and Every are of.
type Prefetch struct {
	Bytes int    `json:"bytes,omitempty"`
	Far   int    `json:"far,omitempty"`
	Every bool   `json:"every,omitempty"`
	Rest  bool   `json:"rest,omitempty"`
	Act   int    `json:"act,omitempty"`
	In    string `json:"in,omitempty"`

	Tensor string `json:"tensor,omitempty"`
}

// Apply implements Step.
func (x Prefetch) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, "codes"); err != nil {
		return nil, err
	}
	if x.In != "" {
		return x.next(s)
	}
	if err := x.distances("codes"); err != nil {
		return nil, err
	}
	switch {
	case x.Tensor != "":
		return nil, illegal(x, x.Tensor, "tensors are named in operators only")
	case x.Rest && x.Bytes == 0 && x.Far == 0:
		return nil, illegal(x, "codes", "no lines of the rest of the tiles: want a distance")
	case x.Act < 0 || x.Act > 1<<20 || x.Act%64 != 0:
		return nil, illegal(x, "act", "%d bytes: want 0 or a multiple of 64 up to 1 MiB", x.Act)
	case s.streams != (nest.Streams{}):
		return nil, illegal(x, "codes", "already prefetched")
	}
	c := s.clone()
	c.streams = nest.Streams{Ahead: x.Bytes, Far: x.Far, Every: x.Every, Rest: x.Rest, Act: x.Act}
	return c, nil
}

// next makes the lanes of a workgroup load the weights of the next iteration of a loop.
func (x Prefetch) next(s *Product) (*Product, error) {
	c := s.clone()
	st, i, err := c.loop(x, x.In)
	switch {
	case err != nil:
		return nil, err
	case x != Prefetch{In: x.In}:
		return nil, illegal(x, x.In, "asks for the next iteration, at no distance")
	case st.loops[i].Kind != nest.Serial || !st.reduce[st.loops[i].Root]:
		return nil, illegal(x, x.In, "is no serial loop of a sum")
	case st.loops[i].Ahead:
		return nil, illegal(x, x.In, "already prefetched")
	case !slices.ContainsFunc(st.loops, func(l nest.Loop) bool { return l.Kind == nest.Lane }):
		return nil, illegal(x, x.In, "runs in no lanes of a workgroup")
	}
	st.loops[i].Ahead = true
	return c, nil
}

// distances checks how far ahead x asks for the lines of thing.
func (x Prefetch) distances(thing string) error {
	switch {
	case x.Bytes < 0 || x.Bytes == 0 && x.Far == 0 && x.Act == 0 || x.Bytes > 1<<20 || x.Bytes%64 != 0:
		return illegal(x, thing, "%d bytes: want a multiple of 64 up to 1 MiB", x.Bytes)
	case x.Far != 0 && (x.Far <= x.Bytes || x.Far > 1<<20 || x.Far%64 != 0):
		return illegal(x, thing, "%d bytes into the second-level cache: want 0 or a multiple of 64 above %d up to 1 MiB", x.Far, x.Bytes)
	case x.Every && x.Far == 0:
		return illegal(x, thing, "every line of none into the second-level cache: want a distance")
	}
	return nil
}

// ApplyOperator implements OperatorStep: it asks for an input.
func (x Prefetch) ApplyOperator(s *Operator) (*Operator, error) {
	if err := x.distances(x.Tensor); err != nil {
		return nil, err
	}
	switch isInput := slices.ContainsFunc(s.Graph.Inputs, func(t *ir.Tensor) bool { return t.Name == x.Tensor }); {
	case !isInput:
		return nil, illegal(x, x.Tensor, "is no input")
	case x.In != "" || x.Rest || x.Act != 0:
		return nil, illegal(x, x.Tensor, "in an operator has distances only")
	case s.streams[x.Tensor] != (nest.Streams{}):
		return nil, illegal(x, x.Tensor, "already prefetched")
	}
	c := s.clone()
	c.streams[x.Tensor] = nest.Streams{Ahead: x.Bytes, Far: x.Far, Every: x.Every}
	return c, nil
}

// ApplyPreparation implements PreparationStep: it asks for the activations that a loop reads.
func (x Prefetch) ApplyPreparation(s *Preparation) (*Preparation, error) {
	if x.In == "" {
		return nil, forProducts(x)
	}
	c := s.clone()
	st, i, err := c.loop(x, x.In)
	switch {
	case err != nil:
		return nil, err
	case x != Prefetch{In: x.In}:
		return nil, illegal(x, x.In, "asks for the next row, at no distance")
	case st.loops[i].Kind != nest.Serial:
		return nil, illegal(x, x.In, "is no serial loop")
	case c.nextIn != "":
		return nil, illegal(x, x.In, "already prefetched")
	}
	c.nextIn = x.In
	return c, nil
}

// mostStaged bounds the vectors of a staged value: more would not stay in registers.
const mostStaged = 8

// Propose implements Proposer: the loops in which few enough vectors of the value are at hand, outermost last.
func (x Stage) Propose(s State, m Machine) (out []Step) {
	if x.Value == "wide" {
		for _, l := range s.Loops() {
			if y := (Stage{Value: x.Value, At: l.Name}); l.Root == "table.u" {
				out = []Step{y} // the innermost one
			}
		}
		return out
	}
	p, ok := s.(*Product)
	if !ok || len(p.stages) == 0 || x.Value != "super" && p.main().values[x.Value] == nil {
		return nil
	}
	size := 1
	for _, l := range slices.Backward(s.Loops()) {
		if isLane(l) {
			if l.Root != "n" { // columns of a tile
				size *= l.N
			}
			continue
		}
		if vectors := size * 8 / m.Bits; l.Kind == nest.Outer || vectors > mostStaged {
			return out
		}
		if x.Value != "super" || l.Root == "g" {
			out = append(out, Stage{Value: x.Value, At: l.Name})
		}
		if l.Root != "n" && x.Value != "super" {
			size *= max(l.N, 1)
		}
	}
	return out
}

// Propose implements Proposer: the product of scales is formed at the beginning. Without the step it is formed at the end.
func (x ScaleAt) Propose(State, Machine) []Step { return []Step{ScaleAt{"begin"}} }

// Propose implements Proposer: each loop over the groups of a block.
func (x Fission) Propose(s State, _ Machine) (out []Step) {
	p, ok := s.(*Product)
	if !ok || len(p.stages) == 0 || !p.Problem.Weight.Min {
		return nil
	}
	for _, l := range s.Loops() {
		if p.main().inBlock(l) {
			out = append(out, Fission{l.Name})
		}
	}
	return out
}

// Propose implements Proposer: distances on ladders, of the weights by steps of about 1.4, alone or with activations, of tables farther
// ahead; or with a second stream into the second-level cache; and all of these without the first of tiles side by side.
func (x Prefetch) Propose(s State, m Machine) (out []Step) {
	p, ok := s.(*Product)
	switch s := s.(type) {
	case *Preparation:
		for _, l := range s.Loops() {
			if l.Kind == nest.Serial {
				out = append(out, Prefetch{In: l.Name})
			}
		}
		return out
	case *Operator:
		for _, ahead := range []int{2048, 4096, 1024, 8192, 512} {
			out = append(out, Prefetch{Bytes: ahead, Far: 4 * ahead, Every: true, Tensor: x.Tensor}, Prefetch{Bytes: ahead, Tensor: x.Tensor})
		}
		return out
	}
	if !ok || p.weights == nil {
		return nil
	}
	if m.Group > 0 {
		for _, l := range s.Loops() {
			if y := (Prefetch{In: l.Name}); l.Kind == nest.Serial && l.N == 0 {
				if _, err := y.Apply(p); err == nil {
					out = append(out, y)
				}
			}
		}
		return out
	}
	acts := []int{0, 128, 256}
	if p.tables != nil {
		acts = []int{0, 1024, 2048, 4096}
	}
	add := func(y Prefetch) {
		for _, y.Act = range acts {
			if y.Bytes+y.Far+y.Act > 0 {
				out = append(out, y)
			}
		}
		if y.Act = 0; y.Bytes+y.Far > 0 && p.hasRest() {
			y.Rest = true
			out = append(out, y)
		}
	}
	for _, ahead := range []int{2048, 3072, 4096, 6144, 8192, 1536, 1024, 768, 512, 256, 128, 0} {
		add(Prefetch{Bytes: ahead})
	}
	for ahead := 0; ahead < 8192; ahead = max(2*ahead, 512) {
		for _, far := range []int{8 << 10, 16 << 10} {
			add(Prefetch{Bytes: ahead, Far: far})
			add(Prefetch{Bytes: ahead, Far: far, Every: true})
		}
	}
	return out
}

// hasRest says that a call reads several tiles side by side.
func (s *Product) hasRest() bool {
	return slices.ContainsFunc(s.main().loops, func(l nest.Loop) bool {
		return l.Kind == nest.Unrolled && l.N > 1 && l.Root == "m" && l.Coef >= s.weights.TileM
	})
}
