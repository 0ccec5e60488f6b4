package shaders

import (
	"bytes"
	"context"
	"errors"
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/virgen"
)

// TestRandom runs random vector IR, with addresses and steps of any alignment.
func TestRandom(t *testing.T) {
	n, ran := drawn.Env(t, "TMACC_SHADERS", 20), 0
	for seed := range n {
		rng := rand.New(rand.NewSource(int64(seed)))
		f := virgen.Func(rng, 10+rng.Intn(40))
		f.Repeat = nil
		for i, p := range f.Params {
			if p.Int {
				f.Params[i].Align = 1
			}
		}
		for _, target := range spirv.Targets() {
			s, err := lower.Select(context.Background(), target, f)
			if no := (*lower.Unsupported)(nil); errors.As(err, &no) {
				continue // a division, or a float of 16 bits
			}
			if err != nil {
				t.Fatal(err)
			}
			ran++
			onDevice(t, target, f, s, virgen.Args(rng, f, rng.Intn(virgen.MaxTrips+1)))
		}
	}
	if ran < n {
		t.Errorf("%d of %d functions ran", ran, 2*n)
	}
}

// TestRandomTiles runs random vector IR with products of cooperative matrices of every shape.
func TestRandomTiles(t *testing.T) {
	d := Device(t)
	for _, target := range spirv.Targets() {
		if target.Machine().Has&spirv.Tiles == 0 {
			continue
		}
		for seed := range drawn.Env(t, "TMACC_SHADERS", 20) {
			rng := rand.New(rand.NewSource(int64(seed)))
			x := spirv.Shapes[seed%len(spirv.Shapes)]
			f := virgen.Tiles(rng, x.From, x.Rows, x.Columns, x.Depth, max(Controls(d).Subgroup, 8))
			s, err := lower.Select(context.Background(), target, f)
			if err != nil {
				t.Fatalf("%v\n%v", err, f)
			}
			onDevice(t, target, f, s, virgen.TileArgs(rng, x.From, 1+rng.Intn(3)))
		}
	}
}

// onDevice compares what a function leaves in its buffers after selection, by Eval and by the device, with what Eval says of it before.
func onDevice(t *testing.T, target spirv.Target, f *vir.Func, s *lower.Selected, args []vir.Arg) {
	t.Helper()
	sh, err := target.Print(s, spirv.Controls{})
	if err != nil {
		t.Fatal(err)
	}
	Accepted(t, sh)
	d := Device(t)
	if sh, err = target.Print(s, Controls(d)); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(args []vir.Arg) error{"selected": func(args []vir.Arg) error { return vir.Eval(s.Func, args) }}
	if Runs(d, sh) {
		calls["on device"] = func(args []vir.Arg) error { return Run(d, sh, s.Func, args) }
	}
	for what, call := range calls {
		want, have := copied(args), copied(args)
		if err := vir.Eval(f, want); err != nil {
			t.Fatal(err)
		}
		if err := call(have); err != nil {
			t.Fatal(err)
		}
		for i, a := range want {
			if !bytes.Equal(a.Buf, have[i].Buf) {
				t.Errorf("%s %s: %s differs from byte %d on:\n%v", target.Machine().Name, what, f.Params[i].Name, differ(a.Buf, have[i].Buf), s.Func)
			}
		}
	}
}

func copied(args []vir.Arg) []vir.Arg {
	out := make([]vir.Arg, len(args))
	for i, a := range args {
		out[i] = vir.Arg{Int: a.Int, Buf: bytes.Clone(a.Buf)}
	}
	return out
}

func differ(a, b []byte) int {
	i := 0
	for a[i] == b[i] {
		i++
	}
	return i
}
