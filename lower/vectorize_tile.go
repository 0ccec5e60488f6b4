package lower

import (
	"slices"

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
		if one, ok, err := v.number(e.Y); err == nil && ok && one == 1 && e.Op == ir.Mul && e.Type() != format.F32 {
			return x, nil
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

// tileType is the type of the elements of e in the open rows and columns.
func (v *vectorizer) tileType(e format.DType) vir.Type {
	return vir.TileOf(e, v.lanes[0].N, v.lanes[1].N, vir.UseC)
}
