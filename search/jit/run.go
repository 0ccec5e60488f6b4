package jit

import (
	"fmt"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Run emits k for t and runs it once on args, as vir.Eval runs its Func.
func Run(t lower.Target, k *lower.Kernel, args []vir.Arg) error {
	file, err := t.Emit("main", []*lower.Kernel{k})
	if err != nil {
		return err
	}
	img, err := Assemble(file)
	if err != nil {
		return err
	}
	defer img.Close()
	f, err := img.Func(k.Func.Name)
	if err != nil {
		return err
	}
	return f.Run(k.Func.Params, args)
}

// Run runs f twice on args, as vir.Eval does: once with guard pages right before
// the buffers, once right after them, so that an access that Eval refuses ends
// the process or leaves what lies around a buffer alone. It reports two runs
// that differ. Buffers hold the result.
func (f Func) Run(params []vir.Param, args []vir.Arg) error {
	if len(args) != len(params) {
		return fmt.Errorf("jit: %s: %d arguments for %d parameters", f.name, len(args), len(params))
	}
	first, err := f.run(params, args, true)
	if err != nil {
		return err
	}
	second, err := f.run(params, args, false)
	if err != nil {
		return err
	}
	for i := range first {
		if string(first[i]) != string(second[i]) {
			return fmt.Errorf("jit: %s: parameter %s depends on the alignment of the buffers", f.name, params[i].Name)
		}
		copy(args[i].Buf, first[i])
	}
	return nil
}

// run returns the buffers after a run.
func (f Func) run(params []vir.Param, args []vir.Arg, low bool) ([][]byte, error) {
	words := make([]uint64, max(1, len(params)))
	bufs := make([]guarded, len(params))
	defer func() {
		for _, b := range bufs {
			b.free()
		}
	}()
	for i, p := range params {
		if p.Int {
			words[i] = uint64(args[i].Int)
			continue
		}
		var err error
		if bufs[i], err = guard(len(args[i].Buf), low); err != nil {
			return nil, err
		}
		copy(bufs[i].buf, args[i].Buf)
		words[i] = address(bufs[i].buf)
	}
	f.Call(words)
	out := make([][]byte, len(params))
	for i := range params {
		out[i] = append([]byte(nil), bufs[i].buf...)
	}
	return out, nil
}
