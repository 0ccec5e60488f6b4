package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// Vectorize turns a loop nest into vector IR: serial loops become loops,
// unrolled ones repeated code, vector loops the lanes of registers. It looks at
// places, not at patterns: the bytes that the lanes of an access touch decide
// whether it is a load, a broadcast or not possible (*nest.Refused).
//
// Accumulators and staged values are registers. One that is updated inside a
// loop it was set outside of is carried by the loop and updated in place.
func Vectorize(n *nest.Nest, name string) (*vir.Func, error) { return vectorize(n, name, maxInstrs) }

// VectorizeShort is Vectorize of nests that SelectShort is to take with `most` instructions. What that would refuse for its length is not
// written to the end. The error wraps a *Long then, as that of SelectShort does.
func VectorizeShort(n *nest.Nest, name string, most int) (*vir.Func, error) {
	return vectorize(n, name, min(2*most, maxInstrs))
}

// vectorize is Vectorize of nests that become no more than `most` instructions.
func vectorize(n *nest.Nest, name string, most int) (*vir.Func, error) {
	v := newVectorizer(n, name)
	v.most = most
	for i, p := range n.Params {
		v.params[p] = i
		v.f.Params = append(v.f.Params, vir.Param{Name: ParamName(p), Int: nest.IntParam(p), Align: n.Aligned[p], Shared: n.Local[p]})
	}
	for _, b := range n.Buffers {
		p, t := &v.f.Params[v.params[b.Base().Param]], b.Base().Tensor
		if p.Shared == 0 {
			p.Most, p.Words = t.Most, t.Most > 0 && t.Elem == format.I32
		}
	}
	for _, l := range n.Loops {
		if l.Root != "" {
			v.roots[l.Root] = append(v.roots[l.Root], l)
		}
	}
	for i, a := range n.Statements() {
		v.numbers[a] = int32(i)
	}
	v.tileSums(n.Body)
	body, err := v.block(n.Body)
	if err != nil {
		return nil, err
	}
	for _, t := range v.f.Regs {
		if t.Bytes() > vir.MaxBytes {
			return nil, refuse(n.Name, "registers of %d bytes, at most %d", t.Bytes(), vir.MaxBytes)
		}
	}
	for _, p := range v.f.Params {
		if p.Shared > vir.MaxShared {
			return nil, refuse(p.Name, "lanes share %d bytes, at most %d", p.Shared, vir.MaxShared)
		}
	}
	v.f.Body = v.inOrder(body)
	if n.Repeat != nil {
		r := v.moves(*n.Repeat)
		v.f.Repeat = &r
	}
	for _, r := range n.Grid {
		v.f.Grid = append(v.f.Grid, v.moves(r))
	}
	return v.f, nil
}

// inOrder is a body whose lanes wait before they load what others have stored.
func (v *vectorizer) inOrder(body []vir.Node) (out []vir.Node) {
	if !slices.ContainsFunc(v.n.Loops, func(l nest.Loop) bool { return l.Kind == nest.Lane }) {
		return body
	}
	stored := map[int]bool{}
	for _, n := range body {
		wait := false
		var stores []int
		vir.Walk([]vir.Node{n}, func(in *vir.Instr, _ []*vir.Loop) {
			if in.Op == vir.OpStore {
				stores = append(stores, in.Mem.Buf)
			} else if in.HasMem() {
				wait = wait || stored[in.Mem.Buf]
			}
		})
		if wait {
			out = append(out, &vir.Instr{Op: vir.OpBarrier, Dst: vir.NoReg})
			clear(stored)
		}
		for _, b := range stores {
			stored[b] = true
		}
		out = append(out, n)
	}
	return out
}

func newVectorizer(n *nest.Nest, name string) *vectorizer {
	return &vectorizer{n: n, f: &vir.Func{Name: name}, vars: map[string]*variable{}, affine: map[*ir.Expr]*affineIndices{}, shifted: map[shiftedIndex][]ir.Expr{}, temps: map[string]*temp{},
		roots: map[string][]nest.Loop{}, params: map[string]int{}, places: map[string]accessed{}, sums: map[nest.Buffer]*sums{}, decoded: map[string]*decoded{}, numbers: map[*nest.Assign]int32{},
		tiles: map[*ir.Tensor]bool{}}
}

// moves moves those pointers that the body uses: others may be nil.
func (v *vectorizer) moves(of nest.Repeat) vir.Repeat {
	used := map[int]bool{}
	vir.Walk(v.f.Body, func(in *vir.Instr, _ []*vir.Loop) {
		used[in.Mem.Buf] = used[in.Mem.Buf] || in.HasMem()
	})
	r := vir.Repeat{Count: v.params[of.Count]}
	for _, m := range of.Moves {
		if p := v.params[m.Param]; used[p] {
			r.Moves = append(r.Moves, vir.Move{Param: p, By: v.params[m.By]})
		}
	}
	return r
}

// ParamName is the name in vector IR of a nest's parameter: one that the grammar accepts.
func ParamName(s string) string { return strings.ReplaceAll(s, ".", "_") }

// maxInstrs bounds the code of one kernel.
const maxInstrs = 20000

type vectorizer struct {
	n       *nest.Nest
	f       *vir.Func
	params  map[string]int
	roots   map[string][]nest.Loop
	vars    map[string]*variable        // by loop; serial loops and lanes stand at 0
	affine  map[*ir.Expr]*affineIndices // indices of accesses, by the first
	indexed int                         // the last number of affineIndices
	shifted map[shiftedIndex][]ir.Expr  // indices made of others
	indices indices                     // of the access that is looked at
	lanes   []nest.Loop                 // open vector loops, outermost first
	serial  []*openLoop
	temps   map[string]*temp
	out     []vir.Node          // the block being written
	room    []vir.Instr         // for the next instructions
	loads   map[string]vir.Reg  // loads of the block, by address
	places  map[string]accessed // by access
	sums    map[nest.Buffer]*sums
	loopID  int
	count   int // of instructions so far
	most    int
	decoded map[string]*decoded    // by the name of a staged value
	tiles   map[*ir.Tensor]bool    // the sums of a core that are tiles
	filling *filling               // nil: lanes do not share out anything
	inner   []*openLoop            // the lanes that hold tiles, once they do something in the innermost open loop
	numbers map[*nest.Assign]int32 // of statements, in the order of the text
	// statement is the number of the statement that is written
	statement int32
}

// openLoop is a vir loop being written.
type openLoop struct {
	loop nest.Loop
	node *vir.Loop
}

// temp is a register that holds an accumulator or staged value.
type temp struct {
	reg   vir.Reg
	lanes []string
	depth int // serial loops open when it was set
}

// Axis is the value of a loop or a stage axis at the current point.
func (v *vectorizer) Axis(name string) int {
	if x := v.variable(name); x.open {
		return x.at
	}
	loops, ok := v.roots[name]
	if !ok {
		panic(fmt.Sprintf("BUG: nest %s: axis %s has no loop here", v.n.Name, name))
	}
	x := 0
	for _, l := range loops {
		x += l.Coef * v.variable(l.Name).at
	}
	return x
}

// Load fails: only index expressions are evaluated here.
func (v *vectorizer) Load(t *ir.Tensor, _ []int) (int64, error) {
	return 0, refuse(t.Name, "an address depends on data")
}

func refuse(what, reason string, args ...any) error {
	return &nest.Refused{What: what, Reason: fmt.Sprintf(reason, args...)}
}

// block writes statements into a block of their own.
func (v *vectorizer) block(body []nest.Stmt) ([]vir.Node, error) {
	out, loads := v.out, v.loads
	v.out, v.loads = nil, map[string]vir.Reg{}
	defer func() { v.out, v.loads = out, loads }()
	if err := v.walk(body); err != nil {
		return nil, err
	}
	return v.out, nil
}

func (v *vectorizer) walk(body []nest.Stmt) error {
	for _, s := range body {
		var err error
		switch s := s.(type) {
		case *nest.For:
			if loops, a := v.sharedChain(s); a != nil {
				v.statement = v.numbers[a]
				err = v.fill(loops, a)
			} else {
				err = v.loop(s)
			}
		case *nest.Assign:
			v.statement = v.numbers[s]
			err = v.assign(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *vectorizer) loop(s *nest.For) error {
	l := s.Loop
	defer func() { *v.variable(l.Name) = variable{} }()
	switch l.Kind {
	case nest.Outer, nest.Group:
		v.set(l.Name, 0)
		return v.walk(s.Body)
	case nest.Vector, nest.Dot, nest.Tile:
		if isColumn(l) && !v.whole(s) {
			return v.repeat(s, l.N)
		}
		v.set(l.Name, 0)
		v.lanes = append(v.lanes, l)
		defer func() { v.lanes = v.lanes[:len(v.lanes)-1] }()
		if v.width() > vir.MaxLanes && l.Kind != nest.Tile {
			return refuse(l.Name, "%d lanes, at most %d", v.width(), vir.MaxLanes)
		}
		return v.walk(s.Body)
	case nest.Unrolled:
		return v.repeat(s, l.N)
	}
	if l.N == 1 && l.Kind != nest.Lane && l.Kind != nest.Part {
		return v.repeat(s, 1)
	}
	if len(v.lanes) > 0 {
		return refuse(l.Name, "a serial loop inside vector lanes")
	}
	if l.Kind == nest.Part && len(v.n.Grid) == 0 {
		return refuse(l.Name, "parts of a sum are for targets with workgroups")
	}
	return v.serialLoop(s)
}

func (v *vectorizer) repeat(s *nest.For, n int) error {
	for i := range n {
		v.set(s.Loop.Name, i)
		if err := v.walk(s.Body); err != nil {
			return err
		}
	}
	return nil
}

func (v *vectorizer) serialLoop(s *nest.For) error {
	node := &vir.Loop{ID: v.loopID, Count: vir.Extent{Const: s.Loop.N, Param: -1}, Lane: s.Loop.Kind == nest.Lane, Part: s.Loop.Kind == nest.Part,
		Dealt: s.Loop.DealtTo != "", Ahead: s.Loop.Ahead}
	v.loopID++
	if s.Loop.N == 0 {
		node.Count = vir.Extent{Param: v.params[nest.CountParam(s.Loop)]}
	}
	if by := s.Loop.ListedBy; by != "" && v.variable(by).at != 0 {
		node.Count, node.List = vir.Extent{Param: v.params[nest.ListCountParam]}, 1+v.params[nest.ListParam]
	}
	v.set(s.Loop.Name, 0)
	v.serial = append(v.serial, &openLoop{s.Loop, node})
	inner := v.inner
	v.inner = nil
	body, err := v.block(s.Body)
	var fills []vir.Node
	if err == nil {
		fills, body, err = v.cooperate(s.Loop.Name, body)
	}
	v.inner = inner
	v.serial = v.serial[:len(v.serial)-1]
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(node.Carried, func(r vir.Reg) bool { return v.typeOf(r).Elem.Bits() < 32 }); node.Lane && i >= 0 {
		return refuse(s.Loop.Name, "lanes have sums of 32 bits, not of %v", v.typeOf(node.Carried[i]).Elem)
	}
	slices.Sort(node.Carried)
	v.loads = map[string]vir.Reg{}
	if i := slices.IndexFunc(v.n.Shared, func(x nest.Shared) bool { return x.At == s.Loop.Name && x.Ahead }); len(fills) > 0 && i >= 0 && node.Dealt {
		return refuse(s.Loop.Name, "lanes cannot load ahead in a loop whose iterations are dealt to workgroups")
	} else if len(fills) > 0 && i >= 0 {
		return v.pipeline(node, fills, body, v.n.Shared[i].Halves)
	}
	node.Body = body
	if len(fills) > 0 {
		node.Body = slices.Concat(fills, wait(), body, wait())
	}
	v.out = append(v.out, node)
	return nil
}

// emit appends an instruction and returns its register.
func (v *vectorizer) emit(t vir.Type, in vir.Instr) vir.Reg {
	in.Dst = v.reg(t)
	v.put(in)
	return in.Dst
}

func (v *vectorizer) put(in vir.Instr) {
	v.count++
	v.f.Sources = append(v.f.Sources, v.statement)
	in.From = len(v.f.Sources)
	if len(v.room) == 0 {
		v.room = make([]vir.Instr, 32)
	}
	x := &v.room[0]
	v.room = v.room[1:]
	*x = in
	v.out = append(v.out, x)
}

func (v *vectorizer) reg(t vir.Type) vir.Reg {
	v.f.Regs = append(v.f.Regs, t)
	return vir.Reg(len(v.f.Regs) - 1)
}

func (v *vectorizer) op(t vir.Type, op vir.Op, imm int64, args ...vir.Reg) vir.Reg {
	return v.emit(t, vir.Instr{Op: op, Args: args, Imm: imm})
}

func (v *vectorizer) splat(t vir.Type, imm int64) vir.Reg { return v.op(t, vir.OpSplat, imm) }

func (v *vectorizer) typeOf(r vir.Reg) vir.Type { return v.f.Regs[r] }

// cast gives the bytes of r another type.
func (v *vectorizer) cast(r vir.Reg, t vir.Type) vir.Reg {
	if v.typeOf(r) == t {
		return r
	}
	return v.op(t, vir.OpBitcast, 0, r)
}

func (v *vectorizer) width() int {
	n := 1
	for _, l := range v.lanes {
		n *= l.N
	}
	return n
}

// tempIndex splits the index of a temp into its key and its lanes.
func (v *vectorizer) tempIndex(t *ir.Tensor, index []ir.Expr) (key string, lanes []string, err error) {
	var b strings.Builder
	b.WriteString(t.Name)
	for _, e := range index {
		if a, ok := e.(ir.Axis); ok && slices.ContainsFunc(v.lanes, func(l nest.Loop) bool { return l.Name == a.Name }) {
			lanes = append(lanes, a.Name)
			continue
		}
		if v.tiles[t] && v.columnAxis(e) { // a part of the tile
			continue
		}
		x, err := ir.EvalExpr(e, v)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&b, ",%d", x)
	}
	var order []string
	for _, l := range v.lanes {
		if slices.Contains(lanes, l.Name) {
			order = append(order, l.Name)
		}
	}
	return b.String(), order, nil
}

func (v *vectorizer) assign(s *nest.Assign) error {
	if v.count > v.most {
		return &Long{v.count, refuse(v.n.Name, "more than %d instructions: repeat less code", v.most)}
	}
	if b := v.n.Buffers[s.Dst.Name]; b != nil {
		return v.store(b, s)
	}
	key, lanes, err := v.tempIndex(s.Dst, s.Index)
	if err != nil {
		return err
	}
	if s.How == nest.Accumulate {
		return v.accumulate(s, v.temps[key], lanes, key)
	}
	if len(lanes) != len(v.lanes) {
		return refuse(s.Dst.Name, "set in lanes that do not index it")
	}
	r, err := v.vec(s.Value)
	if err != nil {
		return err
	}
	v.temps[key] = &temp{v.own(r), lanes, len(v.serial)}
	return nil
}

// own returns r, or a copy if something else may refer to r: a later load of the
// same bytes, or another temp.
func (v *vectorizer) own(r vir.Reg) vir.Reg {
	fresh := false
	if n := len(v.out); n > 0 {
		in, ok := v.out[n-1].(*vir.Instr)
		fresh = ok && in.Dst == r
	}
	for _, x := range v.loads {
		fresh = fresh && x != r
	}
	for _, t := range v.temps {
		fresh = fresh && t.reg != r
	}
	if fresh {
		return r
	}
	return v.op(v.typeOf(r), vir.OpBitcast, 0, r)
}

// update writes t's new value: in place if t was set outside the open loop.
func (v *vectorizer) update(t *temp, in vir.Instr) {
	if t.depth == len(v.serial) {
		t.reg = v.emit(v.typeOf(t.reg), in)
		return
	}
	for _, o := range v.serial[t.depth:] {
		if !slices.Contains(o.node.Carried, t.reg) {
			o.node.Carried = append(o.node.Carried, t.reg)
		}
	}
	in.Dst = t.reg
	v.put(in)
}

var combineOps = map[ir.Op]vir.Op{ir.Add: vir.OpAdd, ir.MaxS: vir.OpMaxS}

func (v *vectorizer) accumulate(s *nest.Assign, t *temp, lanes []string, key string) error {
	if t == nil {
		return refuse(key, "accumulated before it is set")
	}
	value, err := v.chosen(s.Value)
	if err != nil {
		return err
	}
	for _, o := range v.serial[t.depth:] {
		if most := s.Op != ir.Add; o.node.Lane && len(o.node.Carried) > 0 && o.node.Max != most {
			return refuse(s.Dst.Name, "lanes have sums or the largest value, not both")
		} else if o.node.Lane {
			o.node.Max = most
		}
	}
	s = &nest.Assign{Dst: s.Dst, Index: s.Index, How: s.How, Op: s.Op, Value: value}
	op := combineOps[s.Op]
	if len(lanes) == len(v.lanes) {
		r, err := v.vec(s.Value)
		if err != nil {
			return err
		}
		v.update(t, vir.Instr{Op: op, Args: []vir.Reg{t.reg, r}})
		return nil
	}
	last := v.lanes[len(v.lanes)-1]
	if last.Kind == nest.Tile {
		return v.matMul(s, t)
	}
	if last.Kind == nest.Dot && len(lanes) == len(v.lanes)-1 {
		return v.dot(s, t, last.N)
	}
	if _, narrow := s.Value.(ir.Cast); len(lanes) == 0 || !narrow && v.outermost(lanes) {
		return v.reduce(s, t, op)
	}
	if len(lanes) != len(v.lanes)-1 || slices.Contains(lanes, last.Name) {
		return refuse(s.Dst.Name, "lanes of %v cannot be summed in part", s.Value.Type())
	}
	return v.reducePairs(s, t, last)
}

// dot is acc += sum over the dot lanes of x*y.
func (v *vectorizer) dot(s *nest.Assign, t *temp, n int) error {
	x, y, ok := factors(s.Value)
	if !ok {
		return v.reducePairs(s, t, v.lanes[len(v.lanes)-1])
	}
	a, err := v.vec(x)
	if err != nil {
		return err
	}
	b, err := v.vec(y)
	if err != nil {
		return err
	}
	acc := v.typeOf(t.reg)
	switch {
	case n == 4 && acc.Elem == format.I32:
		v.update(t, vir.Instr{Op: vir.OpDot4, Args: []vir.Reg{t.reg, a, b}})
	case n == 1 && acc.Elem == format.I16:
		v.update(t, vir.Instr{Op: vir.OpDot1, Args: []vir.Reg{t.reg, a, b}})
	case n == 2 && acc.Elem == format.I16 && v.typeOf(a).Elem == format.U8:
		p := v.op(acc, vir.OpDot2Sat, 0, a, b)
		v.update(t, vir.Instr{Op: vir.OpAdd, Args: []vir.Reg{t.reg, p}})
	default:
		return refuse(s.Dst.Name, "no dot product of %d %v into %v", n, v.typeOf(a).Elem, acc.Elem)
	}
	return nil
}

// factors takes i32(x)*i32(y) apart.
func factors(e ir.Expr) (x, y ir.Expr, ok bool) {
	m, ok := e.(ir.Binary)
	if !ok || m.Op != ir.Mul {
		return nil, nil, false
	}
	a, ok1 := m.X.(ir.Cast)
	b, ok2 := m.Y.(ir.Cast)
	if !ok1 || !ok2 || a.X.Type().Bits() != 8 || b.X.Type() != format.I8 {
		return nil, nil, false
	}
	return a.X, b.X, true
}

// outermost says that lanes are the outermost of those that are open: the others of
// one value are neighbours.
func (v *vectorizer) outermost(lanes []string) bool {
	for i, name := range lanes {
		if v.lanes[i].Name != name {
			return false
		}
	}
	return true
}

// reduce combines the inner lanes of a value.
func (v *vectorizer) reduce(s *nest.Assign, t *temp, op vir.Op) error {
	r, err := v.vec(s.Value)
	if err != nil {
		return err
	}
	if v.typeOf(r).Elem != format.I32 {
		return refuse(s.Dst.Name, "lanes of %v cannot be summed", v.typeOf(r).Elem)
	}
	red := map[vir.Op]vir.Op{vir.OpAdd: vir.OpRedAdd, vir.OpMaxS: vir.OpRedMaxS}[op]
	sum := v.op(v.typeOf(t.reg), red, 0, r)
	v.update(t, vir.Instr{Op: op, Args: []vir.Reg{t.reg, sum}})
	return nil
}

// reducePairs adds up neighbouring lanes with a dot product with ones. It adds two or four lanes of 16 bits, or four lanes
// of 8 bits. Four lanes of 16 bits become two sums first.
func (v *vectorizer) reducePairs(s *nest.Assign, t *temp, last nest.Loop) error {
	c, ok := s.Value.(ir.Cast)
	if !ok || s.Op != ir.Add {
		return refuse(s.Dst.Name, "lanes of %v cannot be summed in part", s.Value.Type())
	}
	from := c.X.Type()
	if v.typeOf(t.reg).Elem != format.I32 || from.Bits()*last.N != 32 && (from != format.I16 || last.N != 4) || from != format.I8 && from != format.U8 && from != format.I16 {
		return refuse(s.Dst.Name, "%d lanes of %v cannot be summed into %v", last.N, from, v.typeOf(t.reg).Elem)
	}
	r, err := v.vec(c.X)
	if err != nil {
		return err
	}
	tr := v.typeOf(r)
	switch from {
	case format.I16:
		if last.N == 4 {
			pairs := v.op(vir.Type{Elem: format.I32, Lanes: tr.Lanes / 2}, vir.OpDot2Wrap, 0, r, v.splat(tr, 1))
			v.update(t, vir.Instr{Op: vir.OpAdd, Args: []vir.Reg{t.reg, v.op(v.typeOf(t.reg), vir.OpRedAdd, 0, pairs)}})
			return nil
		}
		v.update(t, vir.Instr{Op: vir.OpDot2, Args: []vir.Reg{t.reg, r, v.splat(tr, 1)}})
		return nil
	case format.U8:
		ones := v.splat(vir.Type{Elem: format.I8, Lanes: tr.Lanes}, 1)
		v.update(t, vir.Instr{Op: vir.OpDot4, Args: []vir.Reg{t.reg, r, ones}})
		return nil
	}
	ones := v.splat(vir.Type{Elem: format.U8, Lanes: tr.Lanes}, 1)
	v.update(t, vir.Instr{Op: vir.OpDot4, Args: []vir.Reg{t.reg, ones, r}})
	return nil
}

// store writes a value to a buffer.
func (v *vectorizer) store(b nest.Buffer, s *nest.Assign) error {
	if v.tiled() {
		return v.storeTile(b, s)
	}
	r, err := v.vec(s.Value)
	if err != nil {
		return err
	}
	pos, mem, err := v.access(b, s.Index)
	if err != nil {
		return err
	}
	if p := period(pos, b.Base().Tensor.Elem.Bytes()); p != len(pos) {
		return refuse(s.Dst.Name, "lanes are not stored to neighbouring elements")
	}
	v.put(vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{r}, Mem: mem})
	v.loads = map[string]vir.Reg{}
	return nil
}
