package lower

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// decoded is a staged value in a buffer that lanes share. They fill it together, each an equal part of it.
type decoded struct {
	buf     int            // the parameter
	strides map[string]int // bytes from one iteration of a loop to the next
	lanes   []vir.Stride   // of the loops of lanes that have parts of their own
	copies  []vir.Stride   // of the loops of lanes whose first lane's part is read: others store copies of it
	row     row
}

// sharedChain is chain of an assignment whose values lanes share, else nil.
func (v *vectorizer) sharedChain(s nest.Stmt) (loops []nest.Loop, a *nest.Assign) {
	if len(v.n.Shared) == 0 {
		return nil, nil
	}
	loops, a = chain(s)
	if a == nil || !slices.ContainsFunc(v.n.Shared, func(x nest.Shared) bool { return x.Temp == a.Dst.Name }) {
		return nil, nil
	}
	return loops, a
}

// chain is the only assignment in loops that have nothing else in them.
func chain(s nest.Stmt) (loops []nest.Loop, a *nest.Assign) {
	for {
		switch x := s.(type) {
		case *nest.Assign:
			return loops, x
		case *nest.For:
			if len(x.Body) != 1 {
				return nil, nil
			}
			loops, s = append(loops, x.Loop), x.Body[0]
		}
	}
}

// fill decodes values that lanes share, and remembers the code for where the iteration of their loop begins.
func (v *vectorizer) fill(loops []nest.Loop, a *nest.Assign) error {
	codes, index := v.codesOf(a.Value)
	if codes == nil {
		return v.fillValues(loops, a)
	}
	fields, bytes, err := v.digits(loops, codes, index)
	if err == nil && (len(bytes) == 0 || bytes[0].stride != 1) {
		err = refuse(codes.Name(), "lanes have no bytes beside each other to share out")
	}
	if err != nil {
		return err
	}
	total := 1
	for _, d := range bytes {
		total *= d.n
	}
	f, lanes := v.sharedOut(index, bytes, total, v.readsBeside(a.Value, codes))
	if f == nil {
		return refuse(a.Dst.Name, "%d bytes of codes are no equal parts of %d lanes", total, lanes)
	}
	d := &decoded{strides: map[string]int{}, row: v.rows(isDepth(bytes[0].loop) && (f.unit == bank || bytes[0].n == f.unit))}
	all := 1
	for _, l := range sharedOrder(loops, bytes) {
		d.strides[l.Name] = d.row.at(all)
		all *= l.N
	}
	all = d.row.at(all)
	v.shareBuffer(a.Dst.Name, d, f, all)
	defer func() {
		for _, l := range loops {
			*v.variable(l.Name) = variable{}
		}
	}()
	return v.decode(a, d, f, fields, total/(f.unit*lanes), lanes)
}

// shareBuffer makes the buffer of d: of some bytes for each of the lanes that have parts of their own.
func (v *vectorizer) shareBuffer(name string, d *decoded, f *filling, size int) {
	for _, o := range v.serial {
		if o.node.Lane && f.lanes[o.loop.Name] == 0 {
			d.lanes = append(d.lanes, vir.Stride{Loop: o.node.ID, Bytes: size})
			size *= o.loop.N
		}
	}
	v.f.Params = append(v.f.Params, vir.Param{Name: ParamName(name) + "_shared", Shared: size})
	d.buf = len(v.f.Params) - 1
	v.decoded[name] = d
}

// fillValues computes values of rows that lanes share, such as scales, one at a time.
func (v *vectorizer) fillValues(loops []nest.Loop, a *nest.Assign) error {
	var read *ir.Read
	ir.Walk(a.Value, func(x ir.Expr) {
		if r, ok := x.(ir.Read); ok && read == nil && v.n.Buffers[r.T.Name] != nil {
			read = &r
		}
	})
	t := a.Dst.Elem
	if read == nil || t.Bits() != 32 {
		return refuse(a.Dst.Name, "is no value in memory that lanes could share")
	}
	apart, shared, err := v.digits(loops, v.n.Buffers[read.T.Name], read.Index)
	if err != nil {
		return err
	}
	slices.SortStableFunc(shared, func(x, y digit) int { return strings.Compare(y.loop.Root, x.loop.Root) }) // rows first: m, k, g
	total := 1
	for _, d := range shared {
		total *= d.n
	}
	f := &filling{bytes: shared, unit: 1, lanes: map[string]int{}, at: map[string]int{}}
	lanes := 1
	var copies []*openLoop
	all := slices.DeleteFunc(slices.Clone(v.serial), func(o *openLoop) bool { return !o.node.Lane || mentions(read.Index, o.loop) })
	for _, o := range slices.Backward(append(all, v.holders()...)) {
		if total%(lanes*o.loop.N) == 0 {
			f.lanes[o.loop.Name], lanes = lanes, lanes*o.loop.N
		} else if slices.Contains(v.inner, o) { // more lanes than values
			copies = append(copies, o)
		}
	}
	if total%lanes != 0 || len(shared) == 0 {
		return refuse(a.Dst.Name, "%d values are no equal parts of %d lanes", total, lanes)
	}
	d := &decoded{strides: map[string]int{}, row: row{1, 1}}
	size := t.Bytes()
	for _, l := range slices.Backward(loops) {
		d.strides[l.Name] = size
		size *= l.N
	}
	for _, o := range copies {
		d.copies = append(d.copies, vir.Stride{Loop: o.node.ID, Bytes: size})
		size *= o.loop.N
	}
	v.shareBuffer(a.Dst.Name, d, f, size)
	defer func() {
		for _, l := range loops {
			*v.variable(l.Name) = variable{}
		}
	}()
	return v.decode(a, d, f, apart, total/lanes, lanes)
}

// sharedOrder is the order of loops in the buffer that lanes share, innermost first: what a tile sums over, then the loops by the strides of
// their codes, fields last.
func sharedOrder(loops []nest.Loop, bytes []digit) []nest.Loop {
	loops = slices.DeleteFunc(slices.Clone(loops), func(l nest.Loop) bool { return l.N == 1 })
	slices.Reverse(loops)
	least := func(l nest.Loop) int {
		i := slices.IndexFunc(bytes, func(d digit) bool { return d.loop.Name == l.Name })
		switch {
		case isDepth(l):
			return 0
		case i < 0:
			return math.MaxInt
		}
		return bytes[i].stride
	}
	slices.SortStableFunc(loops, func(a, b nest.Loop) int { return cmp.Compare(least(a), least(b)) })
	return loops
}

// codesOf is the codes that e reads.
func (v *vectorizer) codesOf(e ir.Expr) (b nest.Buffer, index []ir.Expr) {
	ir.Walk(e, func(x ir.Expr) {
		if c, r, ok := v.codes(x); ok && b == nil {
			b, index = c, r.Index
		}
	})
	return b, index
}

// readsBeside says that e reads other buffers than one, such as scales that weights are multiplied by.
func (v *vectorizer) readsBeside(e ir.Expr, b nest.Buffer) (found bool) {
	ir.Walk(e, func(x ir.Expr) {
		r, ok := x.(ir.Read)
		found = found || ok && v.n.Buffers[r.T.Name] != nil && v.n.Buffers[r.T.Name] != b
	})
	return found
}

// bank is the number of bytes between the rows of tiles in shared memory. Without them, rows that are longer begin in the same banks.
const bank = 16

// row is how the rows of tiles lie in shared memory: bytes of a row, and from one row to the next.
type row struct{ bytes, pitch int }

// at is where a byte of rows that follow each other lies in shared memory.
func (r row) at(x int) int { return x/r.bytes*r.pitch + x%r.bytes }

// rows is how rows of the depth of a tile lie, or other rows, which follow each other.
func (v *vectorizer) rows(depth bool) row {
	n := v.depth()
	if !depth || n <= bank || n%bank != 0 {
		return row{1, 1}
	}
	return row{n, n + bank}
}

// depth is the number of bytes that a tile of bytes sums over.
func (v *vectorizer) depth() int {
	i := slices.IndexFunc(v.n.Loops, func(l nest.Loop) bool { return l.Kind == nest.Tile && l.Root == "k" })
	if i < 0 {
		return 1
	}
	return v.n.Loops[i].N
}

// decode writes the code that fills the buffer of d: for each field, each lane repeats times.
func (v *vectorizer) decode(a *nest.Assign, d *decoded, f *filling, fields []digit, repeats, lanes int) error {
	first := f.bytes[0].loop
	vector := nest.Loop{Name: "decoded " + first.Root, Root: first.Root, Coef: first.Coef, N: f.unit, Kind: nest.Vector}
	if !slices.ContainsFunc(v.roots[first.Root], func(l nest.Loop) bool { return l.Name == vector.Name }) {
		v.roots[first.Root] = append(v.roots[first.Root], vector)
		clear(v.affine) // the axis has a loop more
	}
	out, loads, open, serial := v.out, v.loads, v.lanes, v.serial
	defer func() { v.out, v.loads, v.lanes, v.serial, v.filling = out, loads, open, serial, nil }()
	v.out, v.loads, v.lanes, v.filling = nil, map[string]vir.Reg{}, []nest.Loop{vector}, f
	v.serial = append(slices.Clone(v.serial), v.holders()...)
	for r := range repeats {
		f.first = r * lanes
		if err := v.decodeFields(a, d, f, fields); err != nil {
			return err
		}
	}
	last := v.inner[len(v.inner)-1].node
	last.Body = append(last.Body, v.out...)
	return nil
}

// decodeFields decodes what one lane has of each combination of fields.
func (v *vectorizer) decodeFields(a *nest.Assign, d *decoded, f *filling, fields []digit) error {
	if len(fields) > 0 {
		x := fields[0]
		defer func(before int) { f.at[x.loop.Name] = before }(f.at[x.loop.Name])
		for range x.n {
			if err := v.decodeFields(a, d, f, fields[1:]); err != nil {
				return err
			}
			f.at[x.loop.Name] += x.coef
		}
		return nil
	}
	v.set("decoded "+f.bytes[0].loop.Root, 0)
	for name, it := range f.at {
		v.set(name, it)
	}
	v.settle()
	r, err := v.vec(a.Value)
	if err != nil {
		return err
	}
	place := func(unit int) (at int) {
		for name, it := range f.iterations(unit) {
			at += d.strides[name] * it
		}
		return at
	}
	mem := vir.Mem{Buf: d.buf, Off: place(f.first), Stride: slices.Concat(d.lanes, d.copies)}
	for _, o := range v.serial {
		units := f.lanes[o.loop.Name]
		if units == 0 || o.loop.N == 1 {
			continue
		}
		by := place(f.first+units) - mem.Off
		for lane := range o.loop.N {
			if place(f.first+lane*units)-mem.Off != lane*by {
				return refuse(a.Dst.Name, "lanes write what they decode at no equal steps")
			}
		}
		mem.Stride = append(mem.Stride, vir.Stride{Loop: o.node.ID, Bytes: by})
	}
	slices.SortFunc(mem.Stride, byLoop)
	v.put(vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{r}, Mem: mem})
	return nil
}

// cooperate is what the lanes fill together for an iteration of a loop, and what the iteration does then.
func (v *vectorizer) cooperate(loop string, body []vir.Node) (fills, rest []vir.Node, err error) {
	for _, x := range v.n.Shared {
		if x.At != loop || x.Param == "" {
			continue
		}
		var fill []vir.Node
		if fill, body, err = v.share(body, x.Param); err != nil {
			return nil, nil, err
		}
		fills = append(fills, fill...)
	}
	if v.inner != nil {
		last := v.inner[len(v.inner)-1].node
		last.Body = append(last.Body, fills...)
		fills = []vir.Node{v.inner[0].node}
	}
	return fills, body, nil
}
