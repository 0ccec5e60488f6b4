package native

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/machine"
	"github.com/tmacc/tmacc/tests/qemu"
)

// Code is kernels of one target that can be called: machine code in a worker process, or if
// this CPU does not run it, what package machine makes of it.
type Code struct {
	kernels []*lower.Kernel
	worker  *worker.Code // or nil
}

// Assemble makes ks, whose names differ, callable.
func Assemble(target lower.Target, ks []*lower.Kernel) (*Code, error) {
	file, err := lower.Emit(target, "main", ks...)
	if err != nil {
		return nil, err
	}
	c := &Code{kernels: ks}
	if Here(target) {
		c.worker, err = worker.Load(worker.Options{On: qemu.On(target)}, file)
	} else if goruntime.GOARCH == "amd64" { // what the assembler refuses is no kernel either
		_, err = jit.Build("amd64", file)
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
		text := sync.OnceValue(func() []byte { return machine.Text(k) })
		return func(calls [][]vir.Arg) error { return emulate(k, text(), calls) }
	}
	return func(calls [][]vir.Arg) error {
		fn, err := c.worker.Func(k.Func.Name, what)
		if err != nil {
			return err
		}
		return fn.RunAll(k.Func.Params, calls)
	}
}

// remembered are results of calls of package machine that found no fault, by keys of all that they depend on: targets with
// the same features have many kernels in common, which are run once.
var remembered sync.Map

// emulate runs each call of k, whose text is machine.Text's, on copies of the buffers that it stores to.
func emulate(k *lower.Kernel, text []byte, calls [][]vir.Arg) error {
	stores := make([]bool, len(k.Func.Params))
	vir.Walk(k.Func.Body, func(in *vir.Instr, _ []*vir.Loop) {
		if in.Op == vir.OpStore {
			stores[in.Mem.Buf] = true
		}
	})
	key := keyOf(text, calls)
	results, known := remembered.Load(key)
	if !known {
		all, err := runAll(k, stores, calls)
		if err != nil {
			return err
		}
		remembered.Store(key, all)
		results = all
	}
	rest := results.([][]byte)
	for _, args := range calls {
		for i, a := range args {
			if stores[i] {
				copy(a.Buf, rest[0])
				rest = rest[1:]
			}
		}
	}
	return nil
}

// runAll is what each call leaves in the buffers that are stored to, in their order.
func runAll(k *lower.Kernel, stores []bool, calls [][]vir.Arg) (results [][]byte, err error) {
	for _, args := range calls {
		own := slices.Clone(args)
		for i, a := range args {
			if !stores[i] {
				continue
			}
			buf := bytes.Clone(a.Buf)
			results = append(results, buf)
			for j, b := range args { // the same buffer may have several parameters
				if len(b.Buf) == len(buf) && unsafe.SliceData(b.Buf) == unsafe.SliceData(a.Buf) {
					own[j].Buf = buf
				}
			}
		}
		if err := machine.Run(k, own); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// keyOf is a sum of a kernel's text and of the arguments of calls: numbers, contents of buffers, and which buffers are the same.
func keyOf(text []byte, calls [][]vir.Arg) [sha256.Size]byte {
	h := sha256.New()
	h.Write(text)
	type buffer struct {
		first *byte
		size  int
	}
	known := map[buffer]int{}
	for _, args := range calls {
		fmt.Fprintf(h, "\ncall")
		for _, a := range args {
			b := buffer{unsafe.SliceData(a.Buf), len(a.Buf)}
			n, ok := known[b]
			if !ok {
				n = len(known)
				known[b] = n
				fmt.Fprintf(h, " new %d ", b.size)
				h.Write(a.Buf)
			}
			fmt.Fprintf(h, " %d %d", a.Int, n)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
