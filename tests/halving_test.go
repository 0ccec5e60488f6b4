package tests

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/native"
)

// TestX86NeverAveragesSignedBytesAsUnsigned: the entries that halving_add averages have signs, and
// x86 averages bytes without. The same kernel is within its bound as it is, on every
// target, and out of it once its averages are taken of bytes without signs: the bound tells the two apart.
// lower/amd64 has the same of all pairs of bytes.
func TestX86NeverAveragesSignedBytesAsUnsigned(t *testing.T) {
	p, err := ir.Named("w1")
	if err != nil {
		t.Fatal(err)
	}
	c := rows8
	byAverages("f")(&c)
	for _, target := range native.Targets(t) {
		var vectors *vir.Func // before any pass
		k, err := native.Compile(target, p, c.Trace(p), func(_ string, f *vir.Func) {
			if vectors == nil {
				vectors = f.Clone()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		native.Load(t, target, k)
		x := check.New(rand.New(rand.NewSource(1)), p, k.Rows, k.Cols, 4*k.StepK, check.Uniform)
		if err := k.Check(x); err != nil {
			t.Errorf("%s: %v", target.Machine().Name, err)
		}
		if n := averageUnsigned(vectors); n == 0 {
			t.Errorf("%s: no average of bytes with signs in\n%v", target.Machine().Name, vectors)
		}
		_, err = x.Run(k.Kernel, func(args []vir.Arg) error { return vir.Eval(vectors, args) })
		if err == nil || !strings.Contains(err.Error(), "away from") {
			t.Errorf("%s: averages of bytes without signs: %v", target.Machine().Name, err)
		}
	}
}

// averageUnsigned replaces averages of signed bytes by averages of the same bytes without sign, and returns how many.
//
//	d = avgs a b    ->    d = bitcast avgu (bitcast a) (bitcast b)
func averageUnsigned(f *vir.Func) int {
	n := 0
	f.Body = vir.Map(f.Body, func(in *vir.Instr) []*vir.Instr {
		if in.Op != vir.OpAvgS {
			return []*vir.Instr{in}
		}
		n++
		var out []*vir.Instr
		unsigned := func(op vir.Op, args ...vir.Reg) vir.Reg {
			f.Regs = append(f.Regs, vir.Type{Elem: format.U8, Lanes: f.Regs[in.Dst].Lanes})
			d := vir.Reg(len(f.Regs) - 1)
			out = append(out, &vir.Instr{Op: op, Dst: d, Args: args})
			return d
		}
		d := unsigned(vir.OpAvgU, unsigned(vir.OpBitcast, in.Args[0]), unsigned(vir.OpBitcast, in.Args[1]))
		return append(out, &vir.Instr{Op: vir.OpBitcast, Dst: in.Dst, Args: []vir.Reg{d}})
	})
	return n
}
