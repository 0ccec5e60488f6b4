package vir

import (
	"math/rand/v2"
	"testing"
)

// FuzzParse checks that no text makes the package panic, and that what parses
// prints as text that parses to the same.
func FuzzParse(f *testing.F) {
	f.Add(everyForm)
	for seed := range uint64(8) {
		f.Add(randomFunc(rand.New(rand.NewPCG(seed, 3))).String())
	}
	f.Add("func f(a ptr)\n\tv0:u8x1024 = load a-1\n\tv1:u8x1024 = lookup16 v0 [a+0 u8x1024 splat 1]\n")
	f.Fuzz(func(t *testing.T, text string) {
		fn, err := Parse(text)
		if err != nil {
			return
		}
		printed := fn.String()
		again, err := Parse(printed)
		if err != nil {
			t.Fatalf("%v in\n%s", err, printed)
		}
		if again.String() != printed {
			t.Fatalf("have\n%swant\n%s", again, printed)
		}
		if Verify(fn) != nil {
			return
		}
		Ranges(fn)
		if fn.Clone().String() != printed {
			t.Fatalf("clone prints\n%s", fn.Clone())
		}
		args := make([]Arg, len(fn.Params))
		for i := range args {
			args[i] = Arg{Buf: seq(256), Int: 3}
		}
		_ = EvalLimit(fn, args, 10000)
		if fn.String() != printed {
			t.Fatal("Eval changed the function")
		}
	})
}
