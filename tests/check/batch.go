package check

import (
	"encoding/binary"
	"math/rand"

	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/schedule"
)

// Batch is calls of an operator that are made at once, along two axes.
type Batch struct {
	Calls [2]int
	cases []*OperatorCase
	rows  int64 // the seed of what all calls have in common
}

// mostAligned is what steps between calls are multiples of.
const mostAligned = 16

// NewBatch draws cases of o for the given sizes.
func NewBatch(rng *rand.Rand, o operator.Operator, sizes map[string]int, calls [2]int, wild bool) (*Batch, error) {
	b := &Batch{Calls: calls, rows: rng.Int63()}
	for range calls[0] * calls[1] {
		c, err := NewOperator(rng, o, sizes, wild)
		if err != nil {
			return nil, err
		}
		b.cases = append(b.cases, c)
	}
	return b, nil
}

// args are the arguments of each call.
func (b *Batch) args(k *schedule.OperatorKernel) (all [][]vir.Arg) {
	for _, c := range b.cases {
		all = append(all, c.Args(rand.New(rand.NewSource(b.rows)), k)) // rows of all calls are equally far apart
	}
	return all
}

// Args are the parameters of a kernel without scratch, which workgroups have themselves. Calls along axes that the kernel has not are left out.
func (b *Batch) Args(k *schedule.OperatorKernel) (args []vir.Arg) {
	all := b.args(k)
	for i, p := range k.Params {
		var a vir.Arg
		switch p.Role {
		case schedule.ScratchTensor:
			continue
		case schedule.InputTensor, schedule.OutputTensor:
			step := b.step(all, i)
			for _, one := range all {
				a.Buf = append(a.Buf, one[i].Buf...)
				a.Buf = append(a.Buf, make([]byte, step-len(one[i].Buf))...)
			}
		case schedule.CallCount:
			a.Int = int64(b.callsAlong(p.Axis))
		case schedule.CallStep:
			a.Int = b.callStep(k, all, p)
		case schedule.CallList:
			for i := range b.callsAlong(p.Axis) {
				a.Buf = binary.LittleEndian.AppendUint32(a.Buf, uint32(int64(i)*b.callStep(k, all, p)))
			}
		case schedule.ConstantStep:
			a.Int = int64(p.Value)
		default:
			a = all[0][i]
		}
		args = append(args, a)
	}
	return args
}

func (b *Batch) callsAlong(axis int) int {
	if axis < len(b.Calls) {
		return b.Calls[axis]
	}
	return 1
}

// step is how many bytes the tensor of parameter i moves from call to call.
func (b *Batch) step(all [][]vir.Arg, i int) int {
	return (len(all[0][i].Buf) + mostAligned - 1) / mostAligned * mostAligned
}

func (b *Batch) callStep(k *schedule.OperatorKernel, all [][]vir.Arg, p schedule.OperatorParam) int64 {
	for i, x := range k.Params {
		if x.Name == p.Tensor {
			step := int64(b.step(all, i))
			for axis := range p.Axis {
				step *= int64(b.callsAlong(axis))
			}
			return step
		}
	}
	return 0
}

// Compare holds what a kernel has made of args to the definition.
func (b *Batch) Compare(k *schedule.OperatorKernel, args []vir.Arg) error {
	all := b.args(k)
	for n, c := range b.cases {
		one := all[n]
		for i := range args {
			if k.Params[i].Role <= schedule.OutputTensor {
				one[i].Buf = args[i].Buf[n*b.step(all, i):][:len(one[i].Buf)]
			}
		}
		if err := c.Compare(k, one); err != nil {
			return err
		}
	}
	return nil
}
