package native

import (
	"bytes"
	goruntime "runtime"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/machine"
)

// Code is kernels of one target that can be called: machine code in a worker process, or if
// this CPU does not run it, what package machine makes of it.
type Code struct {
	kernels []*lower.Kernel
	worker  *worker.Code // or nil
}

// Assemble makes ks, whose names differ, callable.
func Assemble(target lower.Target, ks []*lower.Kernel) (*Code, error) {
	file, err := target.Emit("main", ks)
	if err != nil {
		return nil, err
	}
	c := &Code{kernels: ks}
	if Here(target) {
		c.worker, err = worker.Load(worker.Options{}, file)
	} else if goruntime.GOARCH == "amd64" { // what the assembler refuses is no kernel either
		_, err = jit.Build(file)
	}
	return c, err
}

// Close ends the process.
func (c *Code) Close() {
	if c.worker != nil {
		c.worker.Close()
	}
}

// Func makes calls of kernel number i, which errors call what. All calls see buffers as they are before the first.
func (c *Code) Func(i int, what string) func(calls [][]vir.Arg) error {
	k := c.kernels[i]
	if c.worker == nil {
		return func(calls [][]vir.Arg) error { return emulate(k, calls) }
	}
	return func(calls [][]vir.Arg) error {
		fn, err := c.worker.Func(k.Func.Name, what)
		if err != nil {
			return err
		}
		return fn.RunAll(k.Func.Params, calls)
	}
}

// emulate runs each call on copies of the buffers that it stores to.
func emulate(k *lower.Kernel, calls [][]vir.Arg) error {
	stores := make([]bool, len(k.Func.Params))
	vir.Walk(k.Func.Body, func(in *vir.Instr, _ []*vir.Loop) {
		if in.Op == vir.OpStore {
			stores[in.Mem.Buf] = true
		}
	})
	var results [][2][]byte // what is stored to, and its copy
	for _, args := range calls {
		own := slices.Clone(args)
		for i, a := range args {
			if !stores[i] {
				continue
			}
			buf := bytes.Clone(a.Buf)
			results = append(results, [2][]byte{a.Buf, buf})
			for j, b := range args { // the same buffer may have several parameters
				if len(b.Buf) == len(buf) && unsafe.SliceData(b.Buf) == unsafe.SliceData(a.Buf) {
					own[j].Buf = buf
				}
			}
		}
		if err := machine.Run(k, own); err != nil {
			return err
		}
	}
	for _, r := range results {
		copy(r[0], r[1])
	}
	return nil
}
