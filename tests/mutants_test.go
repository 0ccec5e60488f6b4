package tests

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
)

const (
	mutantTrials = 500
	leastCaught  = 0.95
)

// TestMutatedFunctions is a test of the tests: a constant or an instruction of
// final vector IR is changed, and the product must change with it. It lists the
// changes that make no difference. TMACC_SEED replays a run.
func TestMutatedFunctions(t *testing.T) {
	seed := drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	fmt.Fprintf(os.Stderr, "TestMutatedFunctions: TMACC_SEED=%d\n", seed)
	rng := rand.New(rand.NewSource(int64(seed)))
	originals := mutantKernels(t, rng)
	caught, survivors := 0, []string{}
	for i := range mutantTrials {
		o := originals[i%len(originals)]
		m, what := mutant(rng, o.k.Machine.Func)
		if o.same(t, m) {
			survivors = append(survivors, fmt.Sprintf("%s: %s", o.name, what))
			continue
		}
		caught++
	}
	slices.Sort(survivors)
	t.Logf("%d of %d changes caught; no difference from\n%s", caught, mutantTrials, strings.Join(survivors, "\n"))
	if chance := 2 * math.Sqrt(leastCaught*(1-leastCaught)*mutantTrials); float64(caught) < leastCaught*mutantTrials-chance {
		t.Errorf("%d of %d changes caught, want %.0f %% and at most two standard deviations less", caught, mutantTrials, 100*leastCaught)
	}
}

// original is a kernel, calls of it and what they give.
type original struct {
	name string
	k    *native.Kernel
	args [][]vir.Arg
	out  [][]byte
}

// mutantKernels are the sequences and the schedules that run on every target.
func mutantKernels(t *testing.T, rng *rand.Rand) []*original {
	var out []*original
	for _, s := range sequences {
		r := check.ReadReplay(t, filepath.Join("sequences", s.file+".json"))
		out = append(out, newOriginal(t, rng, native.Target(t, s.target), r.Problem, r.Trace))
	}
	for _, s := range sameBits {
		p, err := ir.Named(s.format)
		if err != nil {
			t.Fatal(err)
		}
		if s.group > 0 {
			p.Act.Group = s.group
		}
		c := rows8
		if s.change != nil {
			s.change(&c)
		}
		for _, target := range native.Targets(t) {
			out = append(out, newOriginal(t, rng, target, p, c.Trace(p)))
		}
	}
	return out
}

func newOriginal(t *testing.T, rng *rand.Rand, target lower.Target, p ir.Problem, trace schedule.Trace) *original {
	t.Helper()
	k, err := native.Compile(target, p, trace)
	if err != nil {
		t.Fatal(err)
	}
	o := &original{name: fmt.Sprintf("%s on %s", p.Weight, target.Machine().Name), k: k}
	for _, kind := range []check.Kind{check.Uniform, check.Outlier, check.Zeros, check.NotFinite} {
		c := check.New(rng, p, k.Rows, k.Cols, 2*k.StepK, kind)
		c.OddNaNs()
		_, err := c.Run(k.Kernel, func(args []vir.Arg) error {
			o.args = append(o.args, args)
			out := slices.Clone(args)
			out[0].Buf = make([]byte, len(args[0].Buf))
			err := vir.Eval(k.Machine.Func, out)
			o.out = append(o.out, out[0].Buf)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// same says whether f gives what o does, without leaving its buffers.
func (o *original) same(t *testing.T, f *vir.Func) bool {
	t.Helper()
	for i, args := range o.args {
		args = slices.Clone(args)
		args[0].Buf = make([]byte, len(args[0].Buf))
		if err := vir.Eval(f, args); err != nil || !bytes.Equal(args[0].Buf, o.out[i]) {
			return false
		}
	}
	return true
}

// mutant returns f with one change, and says which. Prefetches stay: they have no
// meaning to change.
func mutant(rng *rand.Rand, f *vir.Func) (*vir.Func, string) {
	for {
		g := f.Clone()
		var all []*vir.Instr
		vir.Walk(g.Body, func(in *vir.Instr, _ []*vir.Loop) {
			if in.Op != vir.OpPrefetch && in.Op != vir.OpPrefetch2 {
				all = append(all, in)
			}
		})
		in := all[rng.Intn(len(all))]
		before := g.Format(in)
		change := mutations[rng.Intn(len(mutations))]
		if !change(rng, g, in) || vir.Verify(g) != nil {
			continue
		}
		if in.Dst == vir.NoReg && in.Op == vir.OpPrefetch {
			return g, before + "  ->  (dropped)"
		}
		if after := g.Format(in); after != before {
			return g, before + "  ->  " + after
		}
	}
}

// mutations change in, an instruction of f, or return false.
var mutations = []func(rng *rand.Rand, f *vir.Func, in *vir.Instr) bool{
	mutateImm, mutateConst, mutateOffset, mutateStride, mutateOp, dropInstr,
}

func mutateImm(rng *rand.Rand, f *vir.Func, in *vir.Instr) bool {
	switch in.Op {
	case vir.OpSplat:
		in.Imm ^= 1 << rng.Intn(f.Regs[in.Dst].Elem.Bits())
	case vir.OpShl, vir.OpShrU, vir.OpShrS:
		in.Imm = int64(rng.Intn(f.Regs[in.Dst].Elem.Bits()))
	case vir.OpHalf:
		in.Imm = 1 - in.Imm
	default:
		return false
	}
	return true
}

// mutateConst flips a bit of the constant that in loads, for in only.
func mutateConst(rng *rand.Rand, f *vir.Func, in *vir.Instr) bool {
	if in.Op != vir.OpConst {
		return false
	}
	c := slices.Clone(f.Consts[in.Imm])
	c[rng.Intn(len(c))] ^= 1 << rng.Intn(8)
	f.Consts = append(f.Consts, c)
	in.Imm = int64(len(f.Consts) - 1)
	return true
}

func readsMemory(in *vir.Instr) bool { return in.Op.HasMem() || in.Fold > 0 }

// distance is a number of bytes, up or down.
func distance(rng *rand.Rand) int { return (1 - 2*rng.Intn(2)) << rng.Intn(8) }

func mutateOffset(rng *rand.Rand, f *vir.Func, in *vir.Instr) bool {
	in.Mem.Off += distance(rng)
	return readsMemory(in)
}

func mutateStride(rng *rand.Rand, f *vir.Func, in *vir.Instr) bool {
	if !readsMemory(in) || len(in.Mem.Stride) == 0 {
		return false
	}
	s := &in.Mem.Stride[rng.Intn(len(in.Mem.Stride))]
	s.Bytes += distance(rng)
	return s.Bytes != 0
}

// alike are operations on the same types.
var alike = [][]vir.Op{
	{vir.OpAdd, vir.OpSub}, {vir.OpAnd, vir.OpOr, vir.OpXor, vir.OpAndNot}, {vir.OpShl, vir.OpShrU, vir.OpShrS},
	{vir.OpMinS, vir.OpMaxS}, {vir.OpRedAdd, vir.OpRedMaxS}, {vir.OpMul, vir.OpAdd},
}

func mutateOp(rng *rand.Rand, f *vir.Func, in *vir.Instr) bool {
	for _, ops := range alike {
		if slices.Contains(ops, in.Op) {
			in.Op = ops[rng.Intn(len(ops))]
			return true
		}
	}
	return false
}

// dropInstr leaves the result of in as it was, if it is carried, makes it an
// argument of in, or 0. A store becomes a prefetch.
func dropInstr(rng *rand.Rand, f *vir.Func, in *vir.Instr) bool {
	switch {
	case in.Op == vir.OpStore:
		*in = vir.Instr{Op: vir.OpPrefetch, Dst: vir.NoReg, Mem: in.Mem}
		return true
	case in.Dst == vir.NoReg:
		return false
	}
	args := slices.DeleteFunc(slices.Clone(in.Args), func(r vir.Reg) bool {
		return r == vir.NoReg || f.Regs[r].Bits() != f.Regs[in.Dst].Bits()
	})
	switch {
	case slices.Contains(in.Args, in.Dst):
		args = []vir.Reg{in.Dst}
	case len(args) == 0 || in.Op == vir.OpBitcast:
		*in = vir.Instr{Op: vir.OpSplat, Dst: in.Dst}
		return true
	}
	*in = vir.Instr{Op: vir.OpBitcast, Dst: in.Dst, Args: []vir.Reg{args[rng.Intn(len(args))]}}
	return true
}
