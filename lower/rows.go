package lower

import (
	"slices"
	"sync"

	"github.com/tmacc/tmacc/ir/vir"
)

// FindRow returns the cheapest row of t for in, the first of equal ones, or nil.
// A bitcast fits every row between registers of its size and use, whatever the lanes.
func FindRow(t Selector, f *vir.Func, in *vir.Instr) *Row { return newTable(t).find(f, in) }

// table is a back end and its usable rows by operation and result.
type table struct {
	Selector
	m    Machine
	rows map[rowKey][]*Row
	most int // instructions after legalize, 0: any number
}

// rowKey is an operation and the type of its result in one number, which maps find faster than a struct of them.
type rowKey uint64

func keyOf(op vir.Op, dst vir.Type) rowKey {
	if op == vir.OpBitcast {
		dst = vir.Type{Lanes: dst.Bits(), Use: dst.Use}
	}
	return rowKey(dst.Use)<<60 | rowKey(dst.Rows)<<48 | rowKey(dst.Lanes)<<32 | rowKey(dst.Elem)<<16 | rowKey(op)
}

// Can reports whether the machine of t has an instruction that ok accepts.
func Can(t Selector, ok func(Row) bool) bool {
	has := t.Machine().Has
	return slices.ContainsFunc(t.Rows(), func(r Row) bool { return r.Need&^has == 0 && ok(r) })
}

func newTable(t Selector) *table {
	m := t.Machine()
	return &table{Selector: t, m: m, rows: usable(t.Rows(), m.Has)}
}

// usableRows has the results of usable, by rowsOf. Every kernel that is selected for a target needs the same.
var usableRows sync.Map

type rowsOf struct {
	first *Row
	n     int
	has   Features
}

// usable are the rows that need no other features, by operation and result. Nobody changes them.
func usable(rows []Row, has Features) map[rowKey][]*Row {
	if len(rows) == 0 {
		return nil
	}
	id := rowsOf{&rows[0], len(rows), has}
	if known, ok := usableRows.Load(id); ok {
		return known.(map[rowKey][]*Row)
	}
	out := make(map[rowKey][]*Row, len(rows)/2)
	for i := range rows {
		r := &rows[i]
		if r.Need&has == r.Need {
			k := keyOf(r.Op, r.Dst)
			out[k] = append(out[k], r)
		}
	}
	usableRows.Store(id, out)
	return out
}

func (t *table) find(f *vir.Func, in *vir.Instr) *Row {
	var best *Row
	for _, r := range t.rows[keyOf(in.Op, resultType(f, in))] {
		if (best == nil || r.Cost < best.Cost) && fits(f, in, r) {
			best = r
		}
	}
	return best
}

// has says whether t has a row for op on exactly these types.
func (t *table) has(op vir.Op, dst vir.Type, args ...vir.Type) bool {
	return slices.ContainsFunc(t.rows[keyOf(op, dst)], func(r *Row) bool { return slices.Equal(r.Args, args) })
}

func fits(f *vir.Func, in *vir.Instr, r *Row) bool {
	if in.Op == vir.OpBitcast {
		return in.Fold == 0 && f.ArgType(in, 0).Use == r.Args[0].Use
	}
	if len(r.Args) != len(in.Args) {
		return false
	}
	for i, t := range r.Args {
		if f.ArgType(in, i) != t {
			return false
		}
	}
	if in.Fold == 0 {
		return true
	}
	if in.FoldConst > 0 && r.NoConst {
		return false
	}
	if in.FoldUnit > 0 {
		return in.FoldUnit == splatUnit && slices.Contains(r.FoldSplat, in.Fold)
	}
	return slices.Contains(r.Fold, in.Fold)
}

// splatUnit is the size in bytes of the broadcasts from memory that rows mean by
// FoldSplat.
const splatUnit = 4

// resultType is the type rows name as Dst: that of the result, or of the stored
// value, or none.
func resultType(f *vir.Func, in *vir.Instr) vir.Type {
	switch {
	case in.Dst != vir.NoReg:
		return f.Regs[in.Dst]
	case len(in.Args) > 0:
		return f.ArgType(in, 0)
	}
	return vir.Type{}
}
