package lower

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// A tile is what the loops of kind nest.Tile are: in the loops of rows and columns a value is a tile, and in the one that sums
// besides, the product of two values is a product of matrices.

// Where lanes of a workgroup hold a tile together, all values in its rows and columns are tiles. A core by itself has all elements. There
// only the sums of products are tiles: rows are the lanes of vectors, and columns are unrolled.

// tiled says that the open lanes are the elements of a tile.
func (v *vectorizer) tiled() bool {
	return len(v.lanes) > 0 && v.lanes[0].Kind == nest.Tile && (v.n.Holders > 0 || v.inColumns())
}

// inColumns says that the columns of a tile are open lanes.
func (v *vectorizer) inColumns() bool { return slices.ContainsFunc(v.lanes, isColumn) }

func isColumn(l nest.Loop) bool { return l.Kind == nest.Tile && l.Root == "n" }

// tileSums lists the accumulators of a core that are tiles: those that products are added to.
func (v *vectorizer) tileSums(body []nest.Stmt) {
	if v.n.Holders > 0 {
		return
	}
	for _, s := range body {
		if loops, a := chain(s); a != nil && a.How == nest.Accumulate && slices.ContainsFunc(loops, isColumn) && isDepth(loops[len(loops)-1]) {
			v.tiles[a.Dst] = true
		}
		if f, ok := s.(*nest.For); ok {
			v.tileSums(f.Body)
		}
	}
}

func isDepth(l nest.Loop) bool { return l.Kind == nest.Tile && l.Root == "k" }

// column is a column of a tile of sums, in the lanes of its rows.
func (v *vectorizer) column(t *temp, e ir.Read) vir.Reg {
	i := slices.IndexFunc(e.Index, v.columnAxis)
	return v.op(v.laneType(e), vir.OpColumn, int64(v.Axis(e.Index[i].(ir.Axis).Name)), t.reg)
}

// whole says that the columns of a tile are one with its rows in s: it sets or adds to a tile of sums.
func (v *vectorizer) whole(s *nest.For) bool {
	_, a := chain(s)
	return v.n.Holders > 0 || a != nil && v.tiles[a.Dst]
}

// columnAxis says that e counts the columns of a tile.
func (v *vectorizer) columnAxis(e ir.Expr) bool {
	a, ok := e.(ir.Axis)
	return ok && slices.ContainsFunc(v.n.Loops, func(l nest.Loop) bool { return l.Name == a.Name && isColumn(l) })
}

// tileVec computes e, element by element, in the open rows and columns.
func (v *vectorizer) tileVec(e ir.Expr) (vir.Reg, error) {
	if len(v.lanes) != 2 {
		return 0, refuse(e.String(), "a tile has rows and columns")
	}
	if x, ok, err := v.number(e); ok || err != nil {
		return v.splat(v.laneType(e), x), err
	}
	switch e := e.(type) {
	case ir.Read:
		if b := v.n.Buffers[e.T.Name]; b != nil {
			return v.loadTile(b, e.Index, v.lanes[0], v.lanes[1], v.laneType(e))
		}
		if d := v.decoded[e.T.Name]; d != nil {
			return v.loadShared(e.T.Name, d, v.lanes[0], v.lanes[1], v.laneType(e))
		}
		key, lanes, err := v.tempIndex(e.T, e.Index)
		if t := v.temps[key]; err == nil && t != nil && len(lanes) == len(v.lanes) {
			return t.reg, nil
		}
		return 0, refuse(key, "is no tile")
	case ir.Unary:
		return v.unary(e)
	case ir.Binary:
		x, err := v.vec(e.X)
		if err != nil {
			return 0, err
		}
		y, err := v.vec(e.Y)
		op, ok := binaryOps[e.Op]
		if err == nil && !ok {
			err = refuse(e.String(), "no operation on tiles")
		}
		return v.op(v.laneType(e), op, 0, x, y), err
	}
	return 0, refuse(e.String(), "no operation on tiles")
}

// tilePlace is where the elements of a tile of b are: the address of the first, and how far rows and columns are apart.
func (v *vectorizer) tilePlace(b nest.Buffer, index []ir.Expr, rows, columns nest.Loop) (mem vir.Mem, row, column vir.Apart, err error) {
	lanes, serial := v.lanes, v.serial
	defer func() { v.lanes, v.serial = lanes, serial }()
	v.lanes = nil
	v.serial = slices.Clone(v.serial)
	for i, l := range []nest.Loop{columns, rows} {
		v.serial = append(v.serial, &openLoop{l, &vir.Loop{ID: -1 - i}})
		v.set(l.Name, 0)
	}
	_, mem, err = v.access(b, index)
	mem.Stride = slices.Clone(mem.Stride)
	for len(mem.Stride) > 0 && mem.Stride[0].Loop < 0 {
		s := mem.Stride[0]
		apart := vir.Apart{Bytes: s.Bytes, Multiple: s.Multiple}
		if s.Loop == -1 {
			column = apart
		} else {
			row = apart
		}
		mem.Stride = mem.Stride[1:]
	}
	return mem, row, column, err
}

// moved is the operation that reads or writes a tile with elements of some bytes, and its address.
func (v *vectorizer) moved(what string, mem vir.Mem, row, column vir.Apart, bytes int, byRows, byColumns vir.Op) (vir.Op, vir.Mem, error) {
	switch beside := (vir.Apart{Bytes: bytes}); beside {
	case column:
		mem.Apart = row
		return byRows, mem, nil
	case row:
		mem.Apart = column
		return byColumns, mem, nil
	}
	return 0, mem, refuse(what, "neither rows nor columns of a tile lie side by side")
}

// loadTile reads a tile of b.
func (v *vectorizer) loadTile(b nest.Buffer, index []ir.Expr, rows, columns nest.Loop, t vir.Type) (vir.Reg, error) {
	mem, row, column, err := v.tilePlace(b, index, rows, columns)
	if err != nil {
		return 0, err
	}
	return v.loadTileAt(b.Name(), mem, row, column, t)
}

func (v *vectorizer) loadTileAt(what string, mem vir.Mem, row, column vir.Apart, t vir.Type) (vir.Reg, error) {
	op, mem, err := v.moved(what, mem, row, column, t.Elem.Bytes(), vir.OpLoadRows, vir.OpLoadColumns)
	if err != nil {
		return 0, err
	}
	key := readKey("tile", mem, int(op), int(t.Elem), t.Lanes, t.Rows, int(t.Use))
	r, ok := v.loads[key]
	if !ok {
		r = v.emit(t, vir.Instr{Op: op, Mem: mem})
		v.loads[key] = r
	}
	return r, nil
}

// storeTile writes a tile to b.
func (v *vectorizer) storeTile(b nest.Buffer, s *nest.Assign) error {
	r, err := v.vec(s.Value)
	if err != nil {
		return err
	}
	mem, row, column, err := v.tilePlace(b, s.Index, v.lanes[0], v.lanes[1])
	if err != nil {
		return err
	}
	op, mem, err := v.moved(b.Name(), mem, row, column, b.Base().Tensor.Elem.Bytes(), vir.OpStoreRows, vir.OpStoreColumns)
	if err == nil {
		v.put(vir.Instr{Op: op, Dst: vir.NoReg, Args: []vir.Reg{r}, Mem: mem})
		v.loads = map[string]vir.Reg{}
	}
	return err
}

// matMul adds the product of two matrices to t: one of rows, one of columns.
func (v *vectorizer) matMul(s *nest.Assign, t *temp) error {
	x, y, ok := factors(s.Value)
	if !ok {
		return refuse(s.Dst.Name, "a tile sums products of bytes")
	}
	rows, columns, depth := v.lanes[0], v.lanes[1], v.lanes[2]
	if v.mentions(x, columns) {
		x, y = y, x
	}
	if v.mentions(x, columns) || v.mentions(y, rows) {
		return refuse(s.Dst.Name, "a tile is the product of what has rows and what has columns")
	}
	left := v.factor
	if v.n.Holders == 0 {
		left = v.ownRows
	}
	a, err := left(x, rows, depth, vir.TileOf(x.Type(), rows.N, depth.N, vir.UseA))
	if err != nil {
		return err
	}
	b, err := v.factor(y, depth, columns, vir.TileOf(y.Type(), depth.N, columns.N, vir.UseB))
	if err != nil {
		return err
	}
	v.update(t, vir.Instr{Op: vir.OpMatMul, Args: []vir.Reg{t.reg, a, b}})
	return nil
}

// ownRows is a matrix whose rows a core computes, in the lanes of a vector.
func (v *vectorizer) ownRows(e ir.Expr, rows, depth nest.Loop, t vir.Type) (vir.Reg, error) {
	lanes := v.lanes
	defer func() { v.lanes = lanes }()
	v.lanes = []nest.Loop{rows, depth}
	r, err := v.vec(e)
	return v.cast(r, t), err
}

// mentions says that e, or the index of a value that it reads, depends on a loop.
func (v *vectorizer) mentions(e ir.Expr, l nest.Loop) bool {
	all := []ir.Expr{e}
	ir.Walk(e, func(x ir.Expr) {
		if r, ok := x.(ir.Read); ok {
			all = append(all, r.Index...)
		}
	})
	return mentions(all, l)
}

// factor is a matrix: of a buffer, or of what lanes share.
func (v *vectorizer) factor(e ir.Expr, rows, columns nest.Loop, t vir.Type) (vir.Reg, error) {
	r, ok := e.(ir.Read)
	if !ok {
		return 0, refuse(e.String(), "a tile is read from memory: stage it, shared")
	}
	if b := v.n.Buffers[r.T.Name]; b != nil {
		return v.loadTile(b, r.Index, rows, columns, t)
	}
	d := v.decoded[r.T.Name]
	if d == nil {
		return 0, refuse(e.String(), "a tile is read from memory: stage it, shared")
	}
	return v.loadShared(r.T.Name, d, rows, columns, t)
}

// loadShared reads a tile of what lanes share.
func (v *vectorizer) loadShared(name string, d *decoded, rows, columns nest.Loop, t vir.Type) (vir.Reg, error) {
	mem := vir.Mem{Buf: d.buf, Stride: slices.Clone(d.lanes)}
	for l, bytes := range d.strides {
		if l != rows.Name && l != columns.Name {
			mem.Off += bytes * v.variable(l).at
		}
	}
	apart := func(l nest.Loop) vir.Apart { return vir.Apart{Bytes: d.strides[l.Name]} }
	return v.loadTileAt(name, mem, apart(rows), apart(columns), t)
}

// decoded is a staged value in a buffer that lanes share. They fill it together, each an equal part of it.
type decoded struct {
	buf     int            // the parameter
	strides map[string]int // bytes from one iteration of a loop to the next
	lanes   []vir.Stride   // of the loops of lanes that have parts of their own
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

// digit is a part of a loop whose values lanes share out: one of n values, which are coef iterations apart.
type digit struct {
	loop    nest.Loop
	coef, n int
	stride  int // bytes of codes from one value to the next, 0 of a field of a cell, and of tiles side by side
}

// digits are parts of loops by how their codes lie: the ones of fields of cells, and the others by their strides.
func (v *vectorizer) digits(loops []nest.Loop, codes nest.Buffer, index []ir.Expr) (fields, bytes []digit, err error) {
	for _, l := range loops {
		v.set(l.Name, 0)
	}
	for _, l := range loops {
		all, err := v.digitsOf(l, codes, index)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range all {
			if d.stride == 0 {
				fields = append(fields, d)
			} else {
				bytes = append(bytes, d)
			}
		}
	}
	slices.SortStableFunc(bytes, func(a, b digit) int { return a.stride - b.stride })
	return fields, bytes, nil
}

// digitsOf are the parts of a loop in which the place of codes moves by equal steps, innermost first.
func (v *vectorizer) digitsOf(l nest.Loop, codes nest.Buffer, index []ir.Expr) (out []digit, err error) {
	defer v.set(l.Name, 0)
	places := make([]nest.Pos, l.N)
	for it := range l.N {
		v.set(l.Name, it)
		var room [4]int
		idx := room[:len(index)]
		for j := range index {
			x, err := v.value(index, j)
			if err != nil {
				return nil, err
			}
			idx[j] = int(x)
		}
		places[it] = codes.Pos(idx)
	}
	from := func(it int) nest.Pos {
		p := places[it]
		return nest.Pos{Byte: p.Byte - places[0].Byte, Steps: p.Steps, Sides: p.Sides - places[0].Sides, Field: p.Field - places[0].Field}
	}
	for coef := 1; coef < l.N; {
		step, n := from(coef), 2
		for ; n*coef < l.N && from(n*coef) == (nest.Pos{Byte: n * step.Byte, Sides: n * step.Sides, Field: n * step.Field}); n++ {
		}
		for l.N/coef%n != 0 {
			n--
		}
		if n == 1 {
			return nil, refuse(codes.Name(), "the codes of %s lie at no steps that lanes could share out", l.Name)
		}
		const side = 1 << 30
		out = append(out, digit{l, coef, n, step.Byte + side*step.Sides})
		coef *= n
	}
	return out, nil
}

// filling is how lanes share out what they decode.
type filling struct {
	bytes []digit
	unit  int            // bytes of codes that a lane decodes at once
	lanes map[string]int // by loop of lanes: units from one lane to the next
	first int            // unit at which the first lane stands
	at    map[string]int // by loop: where its parts stand that lanes do not share out
}

// settle sets the loops that lanes share out to where the loops of lanes stand.
func (v *vectorizer) settle() {
	if v.filling == nil {
		return
	}
	n := v.filling.first
	for name, units := range v.filling.lanes {
		n += units * v.variable(name).at
	}
	for name, it := range v.filling.iterations(n) {
		v.set(name, it)
	}
}

// iterations is where the loops stand for a unit.
func (f *filling) iterations(unit int) map[string]int {
	at := maps.Clone(f.at)
	for i, d := range f.bytes {
		count, by := d.n, 1
		if i == 0 {
			by = f.unit
			count /= by
		}
		at[d.loop.Name] += unit % count * by * d.coef
		unit /= count
	}
	return at
}

// sharesOut says that lanes have different values of a loop or an axis.
func (v *vectorizer) sharesOut(axis string) bool {
	return v.filling != nil && slices.ContainsFunc(v.filling.bytes, func(d digit) bool { return d.loop.Name == axis || d.loop.Root == axis })
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
	f, lanes := v.sharedOut(index, bytes, total)
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
	all := slices.DeleteFunc(slices.Clone(v.serial), func(o *openLoop) bool { return !o.node.Lane || mentions(read.Index, o.loop) })
	for _, o := range slices.Backward(append(all, v.holders()...)) {
		if held := slices.Contains(v.inner, o); held || total%(lanes*o.loop.N) == 0 {
			f.lanes[o.loop.Name], lanes = lanes, lanes*o.loop.N
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

// sharedOut gives lanes equal parts of some bytes, nil if that is not possible: the lanes that all need the same bytes.
func (v *vectorizer) sharedOut(index []ir.Expr, bytes []digit, total int) (f *filling, lanes int) {
	f = &filling{bytes: bytes, lanes: map[string]int{}, at: map[string]int{}}
	lanes = max(v.n.Holders, 1)
	for _, o := range v.serial {
		if o.node.Lane && !mentions(index, o.loop) {
			lanes *= o.loop.N
		}
	}
	for f.unit = 16; bytes[0].n%f.unit != 0 || total%(f.unit*lanes) != 0; f.unit /= 2 {
		if f.unit == 4 {
			return nil, lanes
		}
	}
	if v.inner == nil {
		v.hold(v.held(bytes, f.unit))
	}
	lanes = 1
	add := func(o *openLoop) {
		f.lanes[o.loop.Name] = lanes
		lanes *= o.loop.N
	}
	for _, o := range slices.Backward(v.holders()) {
		add(o)
	}
	for _, o := range slices.Backward(v.serial) {
		if o.node.Lane && !mentions(index, o.loop) {
			add(o)
		}
	}
	return f, lanes
}

// held is how the lanes that hold tiles are counted so that each count moves an address by equal steps, outermost first: by twos if they
// share scales too, which lie in other steps.
func (v *vectorizer) held(bytes []digit, unit int) (counts []int) {
	left, end := v.n.Holders, 1
	if temps := slices.DeleteFunc(slices.Clone(v.n.Shared), func(x nest.Shared) bool { return x.Temp == "" }); len(temps) > 1 {
		for ; left%2 == 0; left /= 2 {
			counts = append(counts, 2)
		}
		if left > 1 {
			counts = append([]int{left}, counts...)
		}
		return counts
	}
	for i, d := range bytes {
		n := d.n
		if i == 0 {
			n /= unit
		}
		if d.stride == end && i > 1 { // as the one before
			counts[0], left = counts[0]*min(n, left), left/min(n, left)
		} else if n = min(n, left); n > 1 {
			counts, left = append([]int{n}, counts...), left/n
		}
		end = d.stride * d.n
	}
	if left > 1 || len(counts) == 0 {
		counts = append([]int{left}, counts...)
	}
	return counts
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

// holders are the loops over the lanes that hold tiles. What they do before the iteration at hand is in them. The inner one counts
// the lanes that a row is for.
func (v *vectorizer) holders() []*openLoop {
	if v.inner == nil {
		counts := []int{v.n.Holders}
		if n := v.depth() / bank; n > 1 && v.n.Holders%n == 0 {
			counts = []int{v.n.Holders / n, n}
		}
		v.hold(counts)
	}
	return v.inner
}

// hold counts the lanes that hold tiles, outermost first.
func (v *vectorizer) hold(counts []int) {
	for i, n := range counts {
		name := fmt.Sprint("holders", i)
		v.inner = append(v.inner, &openLoop{nest.Loop{Name: name, N: n, Kind: nest.Lane}, &vir.Loop{ID: v.loopID, Count: vir.Extent{Const: n, Param: -1}, Lane: true}})
		v.loopID++
		if i > 0 {
			v.inner[i-1].node.Body = []vir.Node{v.inner[i].node}
		}
	}
}

// decode writes the code that fills the buffer of d: for each field, each lane repeats times.
func (v *vectorizer) decode(a *nest.Assign, d *decoded, f *filling, fields []digit, repeats, lanes int) error {
	first := f.bytes[0].loop
	vector := nest.Loop{Name: "decoded " + first.Root, Root: first.Root, Coef: first.Coef, N: f.unit, Kind: nest.Vector}
	if !slices.ContainsFunc(v.roots[first.Root], func(l nest.Loop) bool { return l.Name == vector.Name }) {
		v.roots[first.Root] = append(v.roots[first.Root], vector)
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
	mem := vir.Mem{Buf: d.buf, Off: place(f.first), Stride: slices.Clone(d.lanes)}
	for _, o := range v.serial {
		units := f.lanes[o.loop.Name]
		if units == 0 {
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

func byLoop(a, b vir.Stride) int { return a.Loop - b.Loop }

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

// wait is a barrier.
func wait() []vir.Node { return []vir.Node{&vir.Instr{Op: vir.OpBarrier, Dst: vir.NoReg}} }

// pipeline writes a loop whose iterations fill the buffers of the next one. What that loads is on its way while they compute:
//
//	loop l0 n                      fill 0
//	    fill l0                    barrier
//	    barrier                    loop l0 n-1
//	    compute l0         ->          compute l0
//	    barrier                        barrier
//	                                   fill l0+1
//	                                   barrier
//	                               compute n-1
//
// By halves, code that fills the second half of the buffers stands behind the first half of what computes, and code that fills the
// first half for the next iteration behind the second.
func (v *vectorizer) pipeline(node *vir.Loop, fills, body []vir.Node, halves bool) error {
	if node.List > 0 {
		return refuse(v.n.Name, "iterations of a list have no next one to load ahead")
	}
	var set []vir.Reg // registers of the body that hold sums of the last iteration
	for _, t := range v.temps {
		if slices.Contains(node.Carried, t.reg) && t.depth == len(v.serial) {
			set = append(set, t.reg)
		}
	}
	copied := func(m moved) *moved {
		m.v, m.loop, m.carried, m.set = v, node.ID, node.Carried, set
		m.regs, m.loops = map[vir.Reg]vir.Reg{}, map[int]int{}
		return &m
	}
	first, next, last := copied(moved{}), copied(moved{stays: true, ahead: 1}), copied(moved{behind: node.Count, last: true})
	if slices.ContainsFunc(v.serial, func(o *openLoop) bool { return !o.node.Lane }) {
		v.out = append(v.out, wait()...) // for the iterations before the loop is there again
	}
	more, rest := []vir.Node(nil), []vir.Node(nil)
	if halves {
		var err error
		if fills, more, body, rest, err = v.halved(fills, body); err != nil {
			return err
		}
	}
	v.out = append(append(v.out, first.nodes(fills)...), wait()...)
	node.Body = slices.Concat(body, wait(), next.nodes(fills), wait())
	if halves {
		node.Body = slices.Concat(body, copied(moved{stays: true}).nodes(more), wait(), rest, next.nodes(fills), wait())
	}
	if node.Count.Param >= 0 {
		node.Count.Less = 1
	} else {
		node.Count.Const--
	}
	if node.Count != (vir.Extent{Param: -1}) {
		v.out = append(v.out, node)
	}
	v.out = append(v.out, last.nodes(body)...)
	if halves {
		v.out = slices.Concat(v.out, copied(moved{behind: last.behind, last: true}).nodes(more), wait(), last.nodes(rest))
	}
	for _, t := range v.temps {
		if t.depth == len(v.serial) {
			t.reg = last.reg(t.reg)
		}
	}
	return errors.Join(first.err, next.err, last.err)
}

// halved takes apart what computes, and what fills buffers for the first half of it and for the second.
func (v *vectorizer) halved(fills, body []vir.Node) (first, second, early, late []vir.Node, err error) {
	products, half := 0, 0
	for _, n := range body {
		in, ok := n.(*vir.Instr)
		if !ok {
			return nil, nil, nil, nil, refuse(v.n.Name, "a loop cannot be halved: unroll what the buffers are filled for")
		}
		if in.Op == vir.OpMatMul {
			products++
		}
	}
	for i, n := range body {
		if n.(*vir.Instr).Op == vir.OpMatMul {
			if half++; 2*half == products {
				early, late = body[:i+1], body[i+1:]
			}
		}
	}
	x := &overlap{f: v.f, counts: map[int]int{}}
	for _, o := range v.serial {
		x.counts[o.node.ID] = o.node.Count.Const
	}
	eachLoop(fills, func(l *vir.Loop) { x.counts[l.ID] = l.Count.Const })
	stored := func(in *vir.Instr) bool { return x.any(in, early) }
	if first, second = v.storing(fills, stored), v.storing(fills, func(in *vir.Instr) bool { return !stored(in) }); len(second) == 0 || len(first) == 0 {
		return nil, nil, nil, nil, refuse(v.n.Name, "all that lanes fill is used at once: the outermost unrolled loop has no halves of it")
	}
	apart := true
	vir.Walk(first, func(in *vir.Instr, _ []*vir.Loop) {
		apart = apart && !(in.Op == vir.OpStore && x.any(in, late))
	})
	if !apart {
		return nil, nil, nil, nil, refuse(v.n.Name, "both halves use what lanes fill at once")
	}
	return first, second, early, late, nil
}

// storing is the part of fills whose stores ok accepts, nil if it accepts none.
func (v *vectorizer) storing(fills []vir.Node, ok func(*vir.Instr) bool) (out []vir.Node) {
	need := map[vir.Reg]bool{}
	for _, n := range slices.Backward(fills) {
		switch n := n.(type) {
		case *vir.Loop:
			l := *n
			if l.Body = v.storing(n.Body, ok); l.Body != nil {
				out = append(out, &l)
			}
		case *vir.Instr:
			if n.Op == vir.OpStore && !ok(n) || n.Dst != vir.NoReg && !need[n.Dst] {
				continue
			}
			for _, r := range n.Args {
				need[r] = true
			}
			out = append(out, n)
		}
	}
	slices.Reverse(out)
	return out
}

// overlap compares what instructions access, in loops of lanes of these counts.
type overlap struct {
	f      *vir.Func
	counts map[int]int
}

// any says that a store may be to bytes that an instruction of body loads.
func (o *overlap) any(store *vir.Instr, body []vir.Node) bool {
	return slices.ContainsFunc(body, func(n vir.Node) bool {
		in := n.(*vir.Instr)
		if !in.HasMem() || in.Mem.Buf != store.Mem.Buf {
			return false
		}
		a, b := store.Mem.Stride, in.Mem.Stride
		for _, s := range a { // lanes that move both do not matter
			if slices.Contains(b, s) {
				both := func(x vir.Stride) bool { return x == s }
				a, b = slices.DeleteFunc(slices.Clone(a), both), slices.DeleteFunc(slices.Clone(b), both)
			}
		}
		low, high := o.reach(store, a)
		from, to := o.reach(in, b)
		return low < to && from < high
	})
}

// reach is the bytes that in accesses wherever the loops of strides stand.
func (o *overlap) reach(in *vir.Instr, strides []vir.Stride) (low, high int) {
	low, high = in.Mem.Off, in.Mem.Off+o.f.MemBytes(in)
	for _, s := range strides {
		high += s.Bytes * (o.counts[s.Loop] - 1)
	}
	return low, high
}

// moved is a copy of code in a loop for another iteration: the first, or, if the code stays in the loop, one that is ahead, or the
// last of the number that behind says. It has loops and registers of its own.
type moved struct {
	v            *vectorizer
	loop         int
	stays        bool
	ahead        int
	last         bool
	behind       vir.Extent
	carried, set []vir.Reg // registers from outside that the code sets, and the ones among them that the copy sets anew
	regs         map[vir.Reg]vir.Reg
	loops        map[int]int
	inner        int // loops that are open
	err          error
}

func (m *moved) nodes(body []vir.Node) (out []vir.Node) {
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			out = append(out, m.instr(n))
		case *vir.Loop:
			l := *n
			l.ID = m.v.loopID
			m.v.loopID++
			m.loops[n.ID] = l.ID
			l.Carried = nil
			for _, r := range n.Carried {
				if m.inner == 0 && slices.Contains(m.set, r) {
					from := m.reg(r)
					m.regs[r] = m.v.reg(m.v.typeOf(r))
					out = append(out, move(m.regs[r], from))
				}
				l.Carried = append(l.Carried, m.reg(r))
			}
			m.inner++
			l.Body = m.nodes(n.Body)
			m.inner--
			out = append(out, &l)
		}
	}
	return out
}

// reg is the register that stands for r.
func (m *moved) reg(r vir.Reg) vir.Reg {
	if to, ok := m.regs[r]; ok {
		return to
	}
	return r
}

func (m *moved) instr(in *vir.Instr) *vir.Instr {
	c := in.Clone()
	for i, r := range c.Args {
		c.Args[i] = m.reg(r)
	}
	if r := in.Dst; r != vir.NoReg {
		_, known := m.regs[r]
		if !known && !slices.Contains(m.carried, r) || m.inner == 0 && slices.Contains(m.set, r) {
			m.regs[r] = m.v.reg(m.v.typeOf(r))
		}
		c.Dst = m.reg(r)
	}
	if c.HasMem() {
		m.address(&c.Mem)
	}
	return c
}

// address moves an address to the iteration of the copy.
func (m *moved) address(a *vir.Mem) {
	var strides []vir.Stride
	for _, s := range a.Stride {
		if to, ok := m.loops[s.Loop]; ok {
			s.Loop = to
		}
		if s.Loop != m.loop {
			strides = append(strides, s)
			continue
		}
		if m.stays {
			strides = append(strides, s)
		}
		n := m.ahead
		if m.last {
			if n = -1; m.behind.Param < 0 {
				n = m.behind.Const - 1
			}
		}
		a.Off += n * s.Bytes
		switch {
		case s.Times != 0 && n != 0:
			m.err = refuse(m.v.n.Name, "an address moves by steps that are known at run time only")
		case m.last && m.behind.Param >= 0:
			var ok bool
			if *a, ok = a.Moved(vir.Apart{Multiple: vir.Multiple{Times: s.Bytes, By: m.behind.Param}}); !ok {
				m.err = refuse(m.v.n.Name, "an address of the last iteration depends on too many parameters")
			}
		}
	}
	slices.SortFunc(strides, byLoop)
	a.Stride = strides
}

// tileType is the type of the elements of e in the open rows and columns.
func (v *vectorizer) tileType(e format.DType) vir.Type {
	return vir.TileOf(e, v.lanes[0].N, v.lanes[1].N, vir.UseC)
}
