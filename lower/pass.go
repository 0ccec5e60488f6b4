package lower

import (
	"context"
	"fmt"

	"github.com/tmacc/tmacc/ir/vir"
)

// A pass makes a function of the same meaning from a function, which it does not change.
type pass struct {
	name   string
	run    func(*vir.Func) (*vir.Func, error)
	leaves litter
	sweeps bool // what it leaves once, it leaves as it is: it need not run again before another pass has changed the body
}

// litter says what a pass leaves behind that a later pass must not see. The driver removes it.
type litter int

const (
	equalValues litter = 1 << iota // registers that hold the same value
	unusedCode                     // instructions whose results nothing reads
)

// tidied adds a pass that cleans up after each pass that leaves something behind. Equal values come first: making them
// one register leaves bitcasts and shifts that nothing reads.
func tidied(passes []pass) []pass {
	var out []pass
	for _, p := range passes {
		out = append(out, p)
		if p.leaves&equalValues != 0 {
			out = append(out, pass{name: "cse", run: cse})
		}
		if p.leaves&unusedCode != 0 {
			out = append(out, pass{name: "dce", run: dce, sweeps: true})
		}
	}
	return out
}

// Watch sees the function after each pass.
type Watch func(pass string, f *vir.Func)

// maxRegs limits the virtual registers of a function after expansions. A function with more takes seconds to compile.
const maxRegs = vir.MaxRegs / 2

// run applies passes one after the other. Interrupted, it returns the error of ctx. It verifies the last function, and if somebody watches, the function after each pass.
func (t *table) run(ctx context.Context, passes []pass, f *vir.Func, watch []Watch) (*vir.Func, error) {
	out, swept := f, []vir.Node{nil}
	for _, p := range passes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if p.sweeps && vir.SameBody(out.Body, swept) && len(watch) == 0 {
			continue
		}
		g, err := p.run(out)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if n := len(g.Regs); n > maxRegs {
			return nil, refuse(f.Name, "%d values after %s, at most %d: repeat less code", n, p.name, maxRegs)
		}
		if len(watch) > 0 {
			t.verify(p.name, g)
		}
		for _, w := range watch {
			w(p.name, g)
		}
		out = g
		if p.sweeps {
			swept = g.Body
		}
	}
	if len(watch) == 0 && vir.Verify(out) != nil {
		t.run(ctx, passes, f, []Watch{func(string, *vir.Func) {}}) // again, to name the pass
		panic(fmt.Sprintf("BUG: %s: %s fails to verify only after all passes", t.m.Name, f.Name))
	}
	return out, nil
}

func (t *table) verify(pass string, f *vir.Func) {
	if err := vir.Verify(f); err != nil {
		panic(fmt.Sprintf("BUG: %s: after %s: %v\n%s", t.m.Name, pass, err, f))
	}
}
