package arm64

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// TestEveryOperation lowers every operation on every combination of types that
// vir allows, from one lane to four registers, and runs it.
func TestEveryOperation(t *testing.T) {
	for _, target := range Targets() {
		t.Run(target.Machine().Name, func(t *testing.T) { everyOperation(t, target) })
	}
}

func everyOperation(t *testing.T, target lower.Target) {
	rnd := rand.New(rand.NewSource(6))
	var b batch
	seen := map[vir.Op]int{}
	for _, op := range vir.Ops() {
		for _, types := range signatures(op) {
			r := &lower.Row{Op: op, Dst: types[0], Args: types[1:]}
			for _, imm := range immediates(r)[:min(3, len(immediates(r)))] {
				f, sizes := rowFunc(fmt.Sprint("k", len(b.kernels)), r, imm, 3, rnd)
				if vir.Verify(f) != nil {
					continue
				}
				k, err := lower.Compile(target, f)
				if p := (*lower.Pressure)(nil); errors.As(err, &p) {
					continue
				}
				if err != nil {
					t.Errorf("%v\n%v", err, f)
					continue
				}
				seen[op]++
				b.kernels = append(b.kernels, k)
				b.call(t, f, rowArgs(r, sizes, false, rnd))
				b.call(t, f, rowArgs(r, sizes, true, rnd))
			}
		}
	}
	others := []vir.Op{vir.OpBarrier, vir.OpLoadRows, vir.OpLoadColumns, vir.OpStoreRows, vir.OpStoreColumns, vir.OpMatMul, vir.OpColumn, vir.OpLane} // of lanes of workgroups, and of tiles, which have a test in lower
	for _, op := range vir.Ops() {
		if seen[op] == 0 && !slices.Contains(others, op) {
			t.Errorf("%v was never lowered", op)
		}
	}
	b.run(t, target)
}

// signatures lists candidates for the types of op, the result first: all that vir
// allows of up to 64 bytes, and others.
func signatures(op vir.Op) [][]vir.Type {
	var out [][]vir.Type
	var all []vir.Type
	for _, e := range anyElem {
		for n := 1; n*e.Bytes() <= 64; n *= 2 {
			all = append(all, vir.Type{Elem: e, Lanes: n})
		}
	}
	for _, t := range all {
		of := func(e format.DType, n int) vir.Type { return vir.Type{Elem: e, Lanes: n} }
		half := of(t.Elem, t.Lanes/2)
		switch op {
		case vir.OpStore, vir.OpPrefetch, vir.OpPrefetch2, vir.OpLoad, vir.OpLoadSplat, vir.OpConst, vir.OpSplat:
			out = append(out, append([]vir.Type{t}, make([]vir.Type, op.NumArgs())...))
			if op == vir.OpStore {
				out[len(out)-1][1] = t
			}
		case vir.OpJoin:
			out = append(out, []vir.Type{t, half, half})
		case vir.OpDot4:
			for _, e := range []format.DType{format.U8, format.I8} {
				out = append(out, []vir.Type{t, t, of(e, 4*t.Lanes), of(format.I8, 4*t.Lanes)})
			}
		case vir.OpDot4Unit:
			for _, e := range []format.DType{format.U8, format.I8} {
				for m := 4; m <= 64; m *= 2 {
					out = append(out, []vir.Type{t, t, of(e, 4*t.Lanes), of(format.I8, m)})
				}
			}
		case vir.OpMMLA:
			for _, e := range []format.DType{format.U8, format.I8} {
				out = append(out, []vir.Type{t, t, of(e, 4*t.Lanes), of(format.I8, 16)})
			}
		case vir.OpDot2:
			out = append(out, []vir.Type{t, t, of(format.I16, 2*t.Lanes), of(format.I16, 2*t.Lanes)})
		case vir.OpDot2Wrap:
			out = append(out, []vir.Type{t, of(format.I16, 2*t.Lanes), of(format.I16, 2*t.Lanes)})
		case vir.OpMulWide, vir.OpDot1:
			for _, e := range []format.DType{format.U8, format.I8} {
				for _, m := range []int{t.Lanes, 2 * t.Lanes} {
					if args := []vir.Type{of(e, m), of(format.I8, m)}; op == vir.OpMulWide {
						out = append(out, append([]vir.Type{t}, args...))
					} else {
						out = append(out, append([]vir.Type{t, t}, args...))
					}
				}
			}
		case vir.OpCmpGtF:
			out = append(out, []vir.Type{t, of(format.F32, t.Lanes), of(format.F32, t.Lanes)})
		case vir.OpSum2:
			out = append(out, []vir.Type{t, t, of(format.I16, 2*t.Lanes)})
		case vir.OpDot2Sat:
			out = append(out, []vir.Type{t, of(format.U8, 2*t.Lanes), of(format.I8, 2*t.Lanes)})
		case vir.OpLookupPair:
			for m := 4; m <= 64; m *= 2 {
				table := of(t.Elem, m)
				out = append(out, []vir.Type{t, of(t.Elem.Unsigned(), t.Lanes), table, table})
			}
		default:
			if n := op.Entries(); n > 0 {
				out = append(out, []vir.Type{t, of(t.Elem.Unsigned(), t.Lanes), of(t.Elem, max(n, t.Lanes))})
				continue
			}
			switch op.NumArgs() {
			case 1:
				for _, a := range all {
					out = append(out, []vir.Type{t, a})
				}
			case 2:
				out = append(out, []vir.Type{t, t, t})
			default:
				out = append(out, []vir.Type{t, t, t, t})
			}
		}
	}
	return out
}
