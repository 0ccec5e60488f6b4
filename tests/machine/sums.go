package machine

import (
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// sums reads each of its buffers at one place and at others behind it, by the parameters that functions of package virgen have.
const sums = `func sums(x ptr, y ptr, out ptr, n int, list ptr, step int)
	loop l0 n
		v0:u8x16 = load x+64 l0*16
		v1:u8x16 = load x+80 step*1 l0*16
		prefetch x+96 step*1 l0*16
		v2:u8x16 = load y+64 l0*16
		v3:u8x16 = add v0 [y+96 step*1 l0*16 u8x16]
		v4:u8x16 = add v1 v2
		store out+64 l0*16 v3
		store out+512 step*1 l0*16 v4
	end
`

// Sums is a function and its kernel for t with so few general registers that its addresses are sums of two.
func Sums(tb testing.TB, t lower.Target) (*vir.Func, *lower.Kernel) {
	tb.Helper()
	f, err := vir.Parse(sums)
	if err != nil {
		tb.Fatal(err)
	}
	k, err := lower.Compile(general{t, 5}, f)
	if err != nil {
		tb.Fatal(err)
	}
	if n := len(slices.DeleteFunc(slices.Clone(k.Ops), func(o lower.MOp) bool { return o.Plus == 0 })); n != 4 {
		tb.Fatalf("%d addresses are sums of two, want 4\n%s", n, lower.Dump(k))
	}
	return f, k
}

// general is a target with another number of general registers.
type general struct {
	lower.Target
	n int
}

func (g general) Machine() lower.Machine {
	m := g.Target.Machine()
	m.NumGP = g.n
	return m
}
