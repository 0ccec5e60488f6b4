package vir

// Unit runs single instructions for those who keep registers and addresses themselves. It is
// for one goroutine.
type Unit struct {
	lanes [4][MaxLanes]int64
	call  call
}

// Exec runs the instruction in of f. The bytes of its arguments are args, except for a folded one. The bytes of its
// result are dst, and mem are the MemBytes that it reads or writes. All may overlap.
func (u *Unit) Exec(f *Func, in *Instr, dst []byte, args [][]byte, mem []byte) error {
	u.call = call{in: in, mem: mem}
	c := &u.call
	for i := range in.Args {
		c.typ[i] = f.ArgType(in, i)
		c.arg[i] = u.lanes[i][:c.typ[i].Lanes]
		switch {
		case i != in.Fold-1:
			unpack(c.typ[i].Elem, c.arg[i], args[i])
		case in.FoldConst > 0:
			unpack(c.typ[i].Elem, c.arg[i], f.Consts[in.FoldConst-1])
		default:
			unpackFold(c.typ[i].Elem, c.arg[i], mem)
		}
	}
	if in.Op == OpConst {
		c.mem = f.Consts[in.Imm]
	}
	if in.Op.HasResult() {
		c.dst = f.Regs[in.Dst]
		c.out = u.lanes[len(in.Args)][:c.dst.Lanes]
	}
	if err := ops[in.Op].eval(c); err != nil {
		return err
	}
	if in.Op.HasResult() {
		pack(c.dst.Elem, dst, c.out)
	}
	return nil
}
