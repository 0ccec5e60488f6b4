package lower

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/vir"
)

// Dump prints the machine operations of k, one per line: physical registers, the
// row's mnemonic, and the instruction it computes.
//
//	load     g0 = &x
//	loop l0  g1 = 8
//	         r0 = vmovdqu 64(g0)                      ; v0:i8x32 = load x+64 l0*128
//	end l0   g0 += 128
func Dump(k *Kernel) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kernel %s\n", k.Func.Name)
	if k.Func.Repeat != nil {
		fmt.Fprintf(&b, "%s\n", k.Func.FormatRepeat())
	}
	for i := range k.Ops {
		op := &k.Ops[i]
		switch op.Kind {
		case MInstr:
			fmt.Fprintf(&b, "         %-40s ; %s\n", dumpInstr(k, op), k.Func.Format(op.In))
		case MLoadParam:
			fmt.Fprintf(&b, "load     g%d = &%s\n", op.GP, k.Func.Params[op.Param].Name)
		case MScale:
			s, from := op.Scale, ""
			if s.Src >= 0 {
				from = fmt.Sprintf("g%d + ", s.Src)
			}
			fmt.Fprintf(&b, "scale    g%d = %s%d*g%d\n", s.Dst, from, s.Bytes, op.GP)
		case MLoopBegin:
			fmt.Fprintf(&b, "loop l%-2d g%d = %s", op.Loop, op.GP, dumpCount(k.Func, op.Count))
			for _, c := range op.Copy {
				fmt.Fprintf(&b, ", g%d = g%d", c.Dst, c.Src)
			}
			if l := op.List; l != nil {
				fmt.Fprintf(&b, ", g%d = &%s; each: g%d = number at g%d", l.GP, k.Func.Params[l.Param].Name, l.Number, l.GP)
				for _, s := range l.At {
					fmt.Fprintf(&b, ", g%d = g%d + %d*g%d", s.Dst, s.Src, s.Bytes, l.Number)
				}
			}
			b.WriteByte('\n')
		case MLoopEnd:
			fmt.Fprintf(&b, "end l%-3d g%d", op.Loop, op.GP)
			for _, a := range op.Adds {
				if a.By >= 0 {
					fmt.Fprintf(&b, ", g%d += g%d", a.GP, a.By)
					continue
				}
				fmt.Fprintf(&b, ", g%d += %d", a.GP, a.Bytes)
			}
			b.WriteByte('\n')
		default:
			panic(fmt.Sprintf("BUG: lower: machine operation of kind %d", op.Kind))
		}
	}
	return b.String()
}

func dumpCount(f *vir.Func, e vir.Extent) string {
	if e.Param >= 0 {
		return f.Params[e.Param].Name
	}
	return fmt.Sprint(e.Const)
}

func dumpInstr(k *Kernel, op *MOp) string {
	var words []string
	if op.Dst >= 0 {
		words = append(words, fmt.Sprintf("r%d =", op.Dst))
	}
	words = append(words, op.Row.Asm)
	if op.Base >= 0 && op.In.Fold == 0 {
		words = append(words, dumpMem(op))
	}
	for _, r := range op.Args {
		if r < 0 {
			words = append(words, dumpMem(op))
		} else {
			words = append(words, fmt.Sprintf("r%d", r))
		}
	}
	if op.In.Op.HasImm() {
		words = append(words, fmt.Sprintf("#%d", op.In.Imm))
	}
	return strings.Join(words, " ")
}

func dumpMem(op *MOp) string {
	if op.In.FoldConst > 0 {
		return fmt.Sprintf("c%d", op.In.FoldConst-1)
	}
	s := fmt.Sprintf("%d(g%d)", op.Disp, op.Base)
	if op.Plus > 0 {
		s += fmt.Sprintf("(g%d)", op.Plus-1)
	}
	if op.In.FoldUnit > 0 {
		s += fmt.Sprintf("{splat %d}", op.In.FoldUnit)
	}
	return s
}

// LoopCost is what one iteration of an innermost loop costs.
type LoopCost struct {
	Loop     int // loop id
	Instrs   int // vector instructions
	Overhead int // pointer additions, counter and branch
	Tenths   int // sum of Row.Cost: tenths of a cycle if nothing ran in parallel
	Bytes    int // read from buffers, constants not counted
}

// Cost measures the innermost loops of k in their order.
func Cost(k *Kernel) []LoopCost {
	var costs []LoopCost
	var c *LoopCost // of the loop at hand, while it is an innermost one
	for i := range k.Ops {
		op := &k.Ops[i]
		switch {
		case op.Kind == MLoopBegin:
			c = &LoopCost{Loop: op.Loop, Overhead: 2}
			if op.List != nil {
				c.Overhead += 1 + 2*len(op.List.At)
			}
		case op.Kind == MLoopEnd && c != nil:
			c.Overhead += len(op.Adds)
			costs = append(costs, *c)
			c = nil
		case op.Kind == MInstr && c != nil:
			c.Instrs++
			c.Tenths += op.Row.Cost
			if op.In.Op != vir.OpStore {
				c.Bytes += k.Func.MemBytes(op.In)
			}
		}
	}
	return costs
}
