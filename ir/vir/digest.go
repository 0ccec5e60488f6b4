package vir

import (
	"crypto/sha256"
	"encoding/binary"
)

// Digest is equal for functions that differ in the sources of their instructions at most, and for no others that anybody will meet.
type Digest [sha256.Size]byte

// Digest is that of f.
func (f *Func) Digest() Digest {
	var d digester
	d.text(f.Name)
	d.numbers(len(f.Params), len(f.Consts), len(f.Regs), len(f.Grid))
	for _, p := range f.Params {
		d.text(p.Name)
		d.numbers(bit(p.Int), p.Most, bit(p.Words), p.Align, p.Shared)
	}
	for _, c := range f.Consts {
		d.text(string(c))
	}
	for _, t := range f.Regs {
		d.vector(t)
	}
	if f.Repeat != nil {
		d.numbers(1)
		d.repeat(*f.Repeat)
	}
	for _, r := range f.Grid {
		d.numbers(2)
		d.repeat(r)
	}
	d.body(f.Body)
	return sha256.Sum256(d.all)
}

// digester writes what tells functions apart.
type digester struct{ all []byte }

func (d *digester) numbers(xs ...int) {
	for _, x := range xs {
		d.all = binary.AppendVarint(d.all, int64(x))
	}
}

func (d *digester) text(s string) {
	d.numbers(len(s))
	d.all = append(d.all, s...)
}

func (d *digester) vector(t Type) { d.numbers(int(t.Elem), t.Lanes, t.Rows, int(t.Use)) }

func (d *digester) registers(all []Reg) {
	d.numbers(len(all))
	for _, r := range all {
		d.numbers(int(r))
	}
}

func (d *digester) repeat(r Repeat) {
	d.numbers(r.Count, len(r.Moves))
	for _, m := range r.Moves {
		d.numbers(m.Param, m.By)
	}
}

func (d *digester) body(body []Node) {
	d.numbers(len(body))
	for _, n := range body {
		switch n := n.(type) {
		case *Loop:
			d.numbers(-1, n.ID, n.Count.Const, n.Count.Param, n.Count.Less, n.List, bit(n.Lane), bit(n.Part), bit(n.Dealt), bit(n.Ahead), bit(n.Max))
			d.registers(n.Carried)
			d.body(n.Body)
		case *Instr:
			d.numbers(int(n.Op), int(n.Dst))
			d.registers(n.Args)
			d.all = binary.AppendVarint(d.all, n.Imm)
			d.numbers(n.Fold, n.FoldUnit, n.FoldConst)
			d.vector(n.FoldType)
			if n.HasMem() {
				d.all = n.Mem.AppendKey(d.all)
			}
		}
	}
}

// bit is 1 for true.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
