package lower

import (
	"context"
	"fmt"

	"github.com/tmacc/tmacc/ir/vir"
)

// Selected is a function whose every operation is an instruction of the target. Its registers are virtual: each value
// has one of its own. A back end without a fixed number of registers prints it. For all others, Allocate makes a
// Kernel of it. An estimate of its cost needs no more than its rows and its loops.
type Selected struct {
	Func    *vir.Func           // legal; vir.Eval of it is still the kernel's meaning
	Rows    map[*vir.Instr]*Row // the instruction for each operation of Func
	Machine Machine             // what it was selected for

	table *table // finds the rows of what Allocate rewrites
}

// Select makes every operation of f one that the target has an instruction for, and chooses the cheapest instruction.
// Nothing here depends on how many registers there are. The error wraps an *Unsupported or a *nest.Refused, or it is that
// of vir.Verify for f.
func Select(ctx context.Context, t Selector, f *vir.Func, watch ...Watch) (*Selected, error) {
	if err := vir.Verify(f); err != nil {
		return nil, err
	}
	return newTable(t).selected(ctx, f, watch)
}

// SelectShort is Select of functions that become at most `most` instructions. It refuses others early: as soon as twice that number is
// seen, before equal ones are made one.
func SelectShort(ctx context.Context, t Selector, f *vir.Func, most int) (*Selected, error) {
	if err := vir.Verify(f); err != nil {
		return nil, err
	}
	x := newTable(t)
	x.most = 2 * most
	if n := x.registers(f); n > x.most {
		return nil, tooLong(f, n, most)
	}
	s, err := x.selected(ctx, f, nil)
	if err == nil && len(s.Rows) > most {
		return nil, tooLong(f, len(s.Rows), most)
	}
	return s, err
}

// Long says how many instructions a function would be, or more, that VectorizeShort or SelectShort refuses. It wraps a *nest.Refused.
type Long struct {
	Instrs int
	error
}

func (e *Long) Unwrap() error { return e.error }

func tooLong(f *vir.Func, n, most int) error {
	return &Long{n, refuse(f.Name, "%d instructions, at most %d: repeat less code", n, most)}
}

// registers is how many instructions f has, one on a wide vector as often as that fills registers.
func (t *table) registers(f *vir.Func) (n int) {
	each(f.Body, func(in *vir.Instr) {
		widest := 1
		if in.Dst != vir.NoReg {
			widest = f.Regs[in.Dst].Bits()
		}
		for i := range in.Args {
			widest = max(widest, f.ArgType(in, i).Bits())
		}
		n += (widest-1)/t.m.VecBits + 1
	})
	return n
}

// selected is Select of a function that has been verified.
func (t *table) selected(ctx context.Context, f *vir.Func, watch []Watch) (*Selected, error) {
	f, err := t.run(ctx, t.front(), f, watch)
	if err != nil {
		return nil, err
	}
	t = t.balanced(f)
	s := &Selected{Func: f, Rows: make(map[*vir.Instr]*Row, numSteps(f.Body)), Machine: t.m, table: t}
	each(f.Body, func(in *vir.Instr) { s.Rows[in] = t.mustFind(f, in) })
	return s, nil
}

// mustFind returns the cheapest row for in, an instruction of f, which is legal.
func (t *table) mustFind(f *vir.Func, in *vir.Instr) *Row {
	row := t.find(f, in)
	if row == nil {
		panic(fmt.Sprintf("BUG: %s: legal, but without a row: %s", t.m.Name, f.Format(in)))
	}
	return row
}

// front lists the passes that do not depend on how many registers there are, in an order that matters.
func (t *table) front() []pass {
	early := func(f *vir.Func) (*vir.Func, error) { return t.constants(f, false) }
	legal := func(f *vir.Func) (*vir.Func, error) { return t.constants(f, true) }
	return tidied([]pass{
		// One form of memory access for all that follows.
		{name: "unfold", run: unfold},
		{name: "tiles", run: t.tiles},
		// Constants first: a value computed from constants is a constant. Equal constants become one
		// register, and the next passes compare registers.
		{name: "constants", run: early, leaves: equalValues},
		// Of two equal masks only one is left to look at.
		{name: "masks", run: dropMasks},
		// Vectors and ranges are still whole here. Bytes come first, because later passes take their lanes
		// apart. Sums come last, because each part of a vector is a sum.
		{name: "narrow", run: t.narrow},
		{name: "bytes", run: t.byteShifts, leaves: unusedCode},
		{name: "interleave", run: t.interleave},
		{name: "pairs", run: t.pairs},
		// All code that is unused by now goes before legalize, which would expand it in vain.
		{name: "products", run: t.products, leaves: unusedCode},
		{name: "legalize", run: t.legalize},
		// Splitting and expanding has copied splats, loads and shifts. It has also made
		// masks of bits that a later instruction ignores.
		{name: "constants", run: legal, leaves: equalValues},
		// Of equal tables and equal masks only one is left to look at.
		{name: "lookups", run: t.lookups},
		{name: "masks", run: dropMasks, leaves: equalValues},
		// This masks the masks that are left; constants then computes the result.
		{name: "inward", run: inward},
		{name: "constants", run: legal, leaves: unusedCode},
		// Equal lanes are one register by now.
		{name: "whole", run: t.whole, leaves: unusedCode},
		// Zero is a value like others here, not yet a copy that the first product overwrites. Shifts
		// come first: without them, more is added to sums of products.
		{name: "unshift", run: unshift, leaves: unusedCode},
		{name: "begin", run: begin, leaves: unusedCode},
		// Last, because other passes do not know products by words.
		{name: "units", run: t.units, leaves: equalValues | unusedCode},
	})
}
