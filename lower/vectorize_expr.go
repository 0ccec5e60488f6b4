package lower

import (
	"bytes"
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// vec computes e in all open lanes.
func (v *vectorizer) vec(e ir.Expr) (vir.Reg, error) {
	if v.tiled() {
		return v.tileVec(e)
	}
	if x, ok, err := v.number(e); ok || err != nil {
		return v.splat(v.laneType(e), x), err
	}
	if r, ok, err := v.constant(e); ok || err != nil {
		return r, err
	}
	switch e := e.(type) {
	case ir.Read:
		return v.read(e)
	case ir.Cast:
		if j, ok := e.X.(ir.Join); ok {
			return v.join(j, e.T)
		}
		return v.convert(e)
	case ir.Join:
		return v.join(e, e.Type())
	case ir.Choose:
		x, err := v.chosen(e)
		if err != nil {
			return 0, err
		}
		return v.vec(x)
	case ir.Lookup:
		return v.lookup(e)
	case ir.Unary:
		return v.unary(e)
	case ir.Binary:
		return v.binary(e)
	case ir.Axis:
		return v.counted(e)
	}
	return 0, refuse(e.String(), withoutData)
}

const withoutData = "differs from one iteration or lane to the next without data"

// counted is an axis that lanes of a workgroup count, as a number.
func (v *vectorizer) counted(e ir.Axis) (vir.Reg, error) {
	at, t := v.Axis(e.Name), v.laneType(e)
	sum := v.splat(t, int64(at))
	for _, o := range v.serial {
		if o.loop.Root != e.Name || o.node.Part {
			continue
		}
		if !o.node.Lane || t.Lanes > 1 {
			return 0, refuse(e.String(), withoutData)
		}
		number := v.op(t, vir.OpLane, int64(o.node.ID))
		sum = v.op(t, vir.OpAdd, 0, sum, v.op(t, vir.OpMul, 0, number, v.splat(t, int64(o.loop.Coef))))
	}
	return sum, nil
}

func (v *vectorizer) laneType(e ir.Expr) vir.Type {
	if v.tiled() {
		return v.tileType(e.Type())
	}
	return vir.Type{Elem: e.Type(), Lanes: v.width()}
}

// number evaluates an expression that reads nothing and is equal in all lanes, and in all
// iterations of open loops.
func (v *vectorizer) number(e ir.Expr) (x int64, ok bool, err error) {
	if !pure(e) || v.inSerial(e) {
		return 0, false, nil
	}
	lanes := v.width()
	if !slices.ContainsFunc(v.lanes, func(l nest.Loop) bool { return mentions([]ir.Expr{e}, l) }) {
		lanes = 1 // as in all
	}
	defer v.setLanes(0)
	for i := range lanes {
		v.setLanes(i)
		y, err := ir.EvalExpr(e, v)
		if err != nil {
			return 0, false, refuse(e.String(), "%v", err)
		}
		if i > 0 && x != y {
			return 0, false, nil
		}
		x = y
	}
	return x, true, nil
}

// pure says that e reads nothing.
func pure(e ir.Expr) bool {
	pure := true
	ir.Walk(e, func(n ir.Expr) {
		switch n.(type) {
		case ir.Read, ir.Join:
			pure = false
		}
	})
	return pure
}

// constant makes a vector of the values of an expression that reads nothing and differs
// from lane to lane.
func (v *vectorizer) constant(e ir.Expr) (r vir.Reg, ok bool, err error) {
	if !pure(e) || v.inSerial(e) {
		return 0, false, nil
	}
	t := v.laneType(e)
	data := make([]byte, 0, t.Bytes())
	defer v.setLanes(0)
	for i := range t.Lanes {
		v.setLanes(i)
		x, err := ir.EvalExpr(e, v)
		if err != nil {
			return 0, false, refuse(e.String(), "%v", err)
		}
		for b := range t.Elem.Bytes() {
			data = append(data, byte(x>>(8*b)))
		}
	}
	return v.lanesConst(t, data), true, nil
}

// lanesConst is a vector constant, the same register for the same bytes.
func (v *vectorizer) lanesConst(t vir.Type, data []byte) vir.Reg {
	i := slices.IndexFunc(v.f.Consts, func(c []byte) bool { return bytes.Equal(c, data) })
	if i < 0 {
		i = len(v.f.Consts)
		v.f.Consts = append(v.f.Consts, data)
	}
	return v.op(t, vir.OpConst, int64(i))
}

func (v *vectorizer) read(e ir.Read) (vir.Reg, error) {
	switch b := v.n.Buffers[e.T.Name].(type) {
	case nil:
		return v.temp(e)
	case *nest.Tables:
		return v.entry(e, b)
	case *nest.Codes:
		return v.masked(v.codeBits(b, e, 0))
	default:
		pos, mem, err := v.access(b, e.Index)
		if err != nil {
			return 0, err
		}
		return v.load(b, pos, mem, e.T.Elem)
	}
}

func (v *vectorizer) temp(e ir.Read) (vir.Reg, error) {
	key, lanes, err := v.tempIndex(e.T, e.Index)
	if err != nil {
		return 0, err
	}
	t := v.temps[key]
	switch {
	case t == nil:
		return 0, refuse(key, "read before it is set")
	case v.tiles[e.T]:
		return v.column(t, e), nil
	case len(lanes) == len(v.lanes):
		return t.reg, nil
	case len(lanes) == 0:
		return v.op(vir.Type{Elem: e.T.Elem, Lanes: v.width()}, vir.OpSplatLane, 0, t.reg), nil
	}
	return v.spread(t, lanes)
}

// spread repeats a value of the innermost open lanes over the outer ones.
func (v *vectorizer) spread(t *temp, lanes []string) (vir.Reg, error) {
	inner := v.lanes[len(v.lanes)-len(lanes):]
	for i, l := range inner {
		if l.Name != lanes[i] {
			return 0, refuse(lanes[0], "lanes cannot be spread over %s", l.Name)
		}
	}
	r, ty := t.reg, v.typeOf(t.reg)
	if ty.Bits() == 32 && ty.Lanes > 1 {
		word := v.op(vir.Type{Elem: format.I32, Lanes: 1}, vir.OpBitcast, 0, r)
		r = v.op(vir.Type{Elem: format.I32, Lanes: v.width() / ty.Lanes}, vir.OpSplatLane, 0, word)
		return v.cast(r, vir.Type{Elem: ty.Elem, Lanes: v.width()}), nil
	}
	return v.op(vir.Type{Elem: ty.Elem, Lanes: v.width()}, vir.OpTile, 0, r), nil
}

func (v *vectorizer) convert(e ir.Cast) (vir.Reg, error) {
	if r, ok, err := v.everyOther(e); ok || err != nil {
		return r, err
	}
	r, err := v.vec(e.X)
	if err != nil {
		return 0, err
	}
	for {
		from := v.typeOf(r)
		to := vir.Type{Elem: e.T, Lanes: from.Lanes}
		switch {
		case from == to:
			return r, nil
		case from.Elem.Bits() == e.T.Bits():
			return v.cast(r, to), nil
		case from.Elem.Bits() > e.T.Bits():
			return v.op(to, vir.OpTrunc, 0, r), nil
		}
		up := format.I32
		if e.T.Bits() == 16 {
			up = format.I16
		}
		if from.Elem >= format.U32 {
			return 0, refuse(e.String(), "no conversion from %v to %v", from.Elem, e.T)
		}
		r = v.op(vir.Type{Elem: up, Lanes: from.Lanes}, vir.OpWiden, 0, r)
	}
}

// everyOther is every other lane of a register in twice the bits. The register holds pairs of neighbours, and e widens one
// neighbour of each pair:
//
//	i16(v0:u8x32, 0)    ->    v1:i16x16 = and v0 255
//	i16(v0:u8x32, 1)    ->    v1:i16x16 = shru v0 8
func (v *vectorizer) everyOther(e ir.Cast) (r vir.Reg, ok bool, err error) {
	from := e.X.Type()
	x, isCast := e.X.(ir.Cast)
	read, isRead := e.X.(ir.Read)
	if isCast && x.X.Type().Bits() == from.Bits() {
		read, isRead = x.X.(ir.Read)
	}
	if !isRead || e.T.Bits() != 2*from.Bits() || v.n.Buffers[read.T.Name] != nil {
		return 0, false, nil
	}
	t, which, err := v.pair(read)
	if t == nil || err != nil {
		return 0, false, err
	}
	bits := int64(from.Bits())
	wide := vir.Type{Elem: e.T, Lanes: v.width()}
	r = v.cast(t.reg, wide)
	switch signed := from == format.I8 || from == format.I16; {
	case which == 0 && signed:
		return v.op(wide, vir.OpShrS, bits, v.op(wide, vir.OpShl, bits, r)), true, nil
	case which == 0:
		return v.op(wide, vir.OpAnd, 0, r, v.splat(wide, 1<<bits-1)), true, nil
	case signed:
		return v.op(wide, vir.OpShrS, bits, r), true, nil
	}
	return v.op(wide, vir.OpShrU, bits, r), true, nil
}

// pair finds the register that holds what e reads and its neighbours, twice the open
// lanes, and which of two neighbours e reads.
func (v *vectorizer) pair(e ir.Read) (t *temp, which int, err error) {
	for i, x := range e.Index {
		a, ok := x.(ir.Axis)
		if !ok || slices.ContainsFunc(v.lanes, func(l nest.Loop) bool { return l.Name == a.Name }) {
			continue
		}
		key, lanes, err := v.tempIndex(e.T, slices.Delete(slices.Clone(e.Index), i, i+1))
		if err != nil {
			return nil, 0, err
		}
		t := v.temps[key]
		if t != nil && len(lanes) == len(v.lanes) && slices.Equal(t.lanes, append(lanes, a.Name)) && v.typeOf(t.reg).Lanes == 2*v.width() {
			return t, v.Axis(a.Name), nil
		}
	}
	return nil, 0, nil
}

func (v *vectorizer) lookup(e ir.Lookup) (vir.Reg, error) {
	op, n := vir.Lookup(len(e.Table), false), len(e.Table)
	if op == vir.OpInvalid && n != 256 || e.T.Bits() != 8 {
		return 0, refuse(e.String(), "no lookup of %d entries of %v", n, e.T)
	}
	idx, err := v.vec(e.X)
	if err != nil {
		return 0, err
	}
	table := make([]byte, n)
	for i, x := range e.Table {
		table[i] = byte(x)
	}
	t := vir.Type{Elem: e.T, Lanes: v.width()}
	if op == vir.OpInvalid {
		return v.cast(v.lookHalves(idx, halve(table, nil)), t), nil
	}
	return v.lookTable(idx, e.T, op, n, table), nil
}

func (v *vectorizer) unary(e ir.Unary) (vir.Reg, error) {
	x, err := v.vec(e.X)
	if err != nil {
		return 0, err
	}
	op, ok := map[ir.Op]vir.Op{ir.Bits: vir.OpBitcast, ir.CvtF32: vir.OpCvtF32, ir.CvtI32: vir.OpCvtI32,
		ir.CvtHalf: vir.OpCvtHalf, ir.CvtF16: vir.OpCvtF16, ir.CanonNaN: vir.OpCanonNaN}[e.Op]
	if !ok {
		return 0, refuse(e.String(), "no vector operation")
	}
	return v.op(v.laneType(e), op, 0, x), nil
}

var binaryOps = map[ir.Op]vir.Op{ir.Add: vir.OpAdd, ir.Sub: vir.OpSub, ir.Mul: vir.OpMul, ir.Div: vir.OpDiv,
	ir.And: vir.OpAnd, ir.Or: vir.OpOr, ir.Max: vir.OpMaxF, ir.Min: vir.OpMinF, ir.MaxS: vir.OpMaxS, ir.CmpGtS: vir.OpCmpGtS, ir.AddSat: vir.OpAddSat, ir.SubSat: vir.OpSubSat}

var averageOps = map[format.DType]vir.Op{format.U8: vir.OpAvgU, format.U16: vir.OpAvgU, format.I8: vir.OpAvgS, format.I16: vir.OpAvgS}

func (v *vectorizer) binary(e ir.Binary) (vir.Reg, error) {
	if e.Op == ir.NegIf {
		return v.negIf(e)
	}
	if y, ok, err := v.number(e.Y); err != nil {
		return 0, err
	} else if ok && e.Type() != format.F32 {
		return v.byConstant(e, y)
	}
	if e.Op == ir.Or {
		return v.masked(v.fields(e))
	}
	x, err := v.vec(e.X)
	if err != nil {
		return 0, err
	}
	y, err := v.vec(e.Y)
	if err != nil {
		return 0, err
	}
	op, ok := binaryOps[e.Op]
	if e.Op == ir.Avg {
		op, ok = averageOps[e.Type()]
	}
	if !ok {
		return 0, refuse(e.String(), "no vector operation")
	}
	return v.op(v.laneType(e), op, 0, x, y), nil
}

// fields is a number whose bits outside have are anything: of codes as they are
// stored, or of fields that an or puts together, each shifted by a constant.
//
//	codes | books << 4    ->    v2:u8x64 = bitsel 15 (codes) (v1 << 4)
func (v *vectorizer) fields(e ir.Expr) (x vir.Reg, have int64, err error) {
	by, shifted := 0, e
	if b, ok := e.(ir.Binary); ok && b.Op == ir.Shl {
		y, ok, err := v.number(b.Y)
		if err != nil || !ok {
			return 0, 0, refuse(e.String(), "shifts by data")
		}
		by, shifted = int(y), b.X
	}
	all := int64(1)<<e.Type().Bits() - 1
	if b, r, ok := v.codes(shifted); ok {
		return v.codeBits(b, r, by)
	}
	if b, ok := e.(ir.Binary); ok && b.Op == ir.Or {
		return v.united(b)
	}
	if x, err = v.vec(shifted); err != nil || by == 0 {
		return x, all, err
	}
	return v.shiftBits(x, -by), all &^ (1<<by - 1), nil
}

// united joins two fields. The first has all its bits, unless both have only some of theirs.
func (v *vectorizer) united(e ir.Binary) (vir.Reg, int64, error) {
	x, haveX, err := v.fields(e.X)
	if err != nil {
		return 0, 0, err
	}
	y, haveY, err := v.fields(e.Y)
	if err != nil {
		return 0, 0, err
	}
	t := v.typeOf(x)
	if haveX&haveY == 0 {
		return v.op(t, vir.OpBitSel, 0, v.splat(t, haveX), x, y), haveX | haveY, nil
	}
	if x, err = v.masked(x, haveX, nil); err != nil {
		return 0, 0, err
	}
	y, err = v.masked(y, haveY, err)
	return v.op(t, vir.OpOr, 0, x, y), haveX | haveY, err
}

// byConstant is x op y for an integer y that is known.
func (v *vectorizer) byConstant(e ir.Binary, y int64) (vir.Reg, error) {
	if b, r, ok := v.codes(e.X); ok && e.Op == ir.Shl {
		return v.masked(v.codeBits(b, r, int(y)))
	}
	x, err := v.vec(e.X)
	if err != nil {
		return 0, err
	}
	t := v.laneType(e)
	switch e.Op {
	case ir.Mul:
		return v.times(x, y), nil
	case ir.Shl, ir.ShrS:
		if y == 0 {
			return x, nil
		}
		return v.op(t, map[ir.Op]vir.Op{ir.Shl: vir.OpShl, ir.ShrS: vir.OpShrS}[e.Op], y, x), nil
	case ir.Add, ir.Sub:
		if y == 0 {
			return x, nil
		}
	}
	return v.op(t, binaryOps[e.Op], 0, x, v.splat(t, y)), nil
}

// codes finds the buffer of e if e reads codes.
func (v *vectorizer) codes(e ir.Expr) (b *nest.Codes, r ir.Read, ok bool) {
	if r, ok = e.(ir.Read); ok {
		b, ok = v.n.Buffers[r.T.Name].(*nest.Codes)
	}
	return b, r, ok
}

// times multiplies integer lanes by a constant, by shifts where that is enough.
func (v *vectorizer) times(x vir.Reg, y int64) vir.Reg {
	t := v.typeOf(x)
	neg := y < 0
	if neg {
		y = -y
	}
	var sum vir.Reg = vir.NoReg
	switch {
	case y == 0:
		return v.splat(t, 0)
	case t.Elem.Bits() > 8 && bits.OnesCount64(uint64(y)) > 1:
		sum = v.op(t, vir.OpMul, 0, x, v.splat(t, y))
	default:
		for b := int64(0); y>>b != 0; b++ {
			if y>>b&1 == 0 || b >= int64(t.Elem.Bits()) {
				continue
			}
			p := x
			if b > 0 {
				p = v.op(t, vir.OpShl, b, x)
			}
			if sum == vir.NoReg {
				sum = p
			} else {
				sum = v.op(t, vir.OpAdd, 0, sum, p)
			}
		}
	}
	if neg {
		return v.op(t, vir.OpSub, 0, v.splat(t, 0), sum)
	}
	return sum
}
