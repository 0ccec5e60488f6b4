package lower

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/tests/virgen"
)

// unlimited is a back end without registers: it has the instructions of a toy and prints nothing.
type unlimited struct{ toy toy }

func (u unlimited) Machine() Machine {
	m := u.toy.m
	m.NumVec, m.NumGP = 0, 0
	return m
}
func (u unlimited) Rows() []Row                                  { return u.toy.rows }
func (u unlimited) Expand(_ *Builder, _ *vir.Instr) []*vir.Instr { return nil }

// TestSelect: a selected function computes the same bits, and each of its operations has the cheapest row for its types. No
// registers are needed for that.
func TestSelect(t *testing.T) {
	if _, ok := any(unlimited{}).(Target); ok {
		t.Fatal("unlimited is a Target")
	}
	machines := toys()
	for seed := range int64(100) {
		f := virgen.Func(rand.New(rand.NewSource(seed)), 10+int(seed)%40)
		target := machines[seed%int64(len(machines))]
		s, err := Select(t.Context(), unlimited{target}, f)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, n := range []int{0, virgen.MaxTrips} {
			if !bytes.Equal(run(t, s.Func, seed, n), run(t, f, seed, n)) {
				t.Fatalf("seed %d: selection changes the meaning of\n%s\nto\n%s", seed, f, s.Func)
			}
		}
		instrs := map[*vir.Instr]bool{}
		each(s.Func.Body, func(in *vir.Instr) {
			instrs[in] = true
			if err := cheapest(s, target.rows, in); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, s.Func.Format(in), err)
			}
		})
		if len(instrs) != len(s.Rows) {
			t.Fatalf("seed %d: %d instructions, %d rows", seed, len(instrs), len(s.Rows))
		}
		other, err := Select(t.Context(), target, f)
		if err != nil || other.Func.String() != s.Func.String() {
			t.Fatalf("seed %d: with registers, another selection: %v", seed, err)
		}
	}
}

// cheapest compares the row of an instruction with all rows of the target.
func cheapest(s *Selected, rows []Row, in *vir.Instr) error {
	types := func(f *vir.Func, in *vir.Instr) (args []vir.Type) {
		for i := range in.Args {
			args = append(args, f.ArgType(in, i))
		}
		return args
	}
	row, args, has := s.Rows[in], types(s.Func, in), s.Machine.Has
	switch {
	case row == nil:
		return errors.New("no row")
	case row.Op != in.Op || row.Need&^has != 0:
		return fmt.Errorf("the row is of %v", row.Op)
	case in.Op == vir.OpBitcast:
		if row.Dst.Bits() != s.Func.Regs[in.Dst].Bits() {
			return fmt.Errorf("the row copies %d bits", row.Dst.Bits())
		}
		return nil
	case !slices.Equal(row.Args, args) || in.Dst != vir.NoReg && row.Dst != s.Func.Regs[in.Dst]:
		return fmt.Errorf("the row is of %v and %v", row.Dst, row.Args)
	}
	for i := range rows {
		if r := &rows[i]; r.Op == in.Op && r.Dst == row.Dst && slices.Equal(r.Args, args) && r.Need&^has == 0 && r.Cost < row.Cost {
			return fmt.Errorf("%s takes %d, %s takes %d", row.Asm, row.Cost, r.Asm, r.Cost)
		}
	}
	return nil
}

// TestAllocate: allocating uses the selected function, which stays as it is and can be allocated again.
func TestAllocate(t *testing.T) {
	for seed := range int64(20) {
		f := virgen.Func(rand.New(rand.NewSource(seed)), 40)
		target := newToy(toyAll)
		target.m.NumVec, target.m.NumGP = 200, 50
		s, err := Select(t.Context(), target, f)
		if err != nil {
			t.Fatal(err)
		}
		text := s.Func.String()
		want, err := Compile(target, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, allocate := range []allocation{Allocate, Allocate, AllocateOnce} {
			if k, err := allocate(t.Context(), s); err != nil || Dump(k) != Dump(want) {
				t.Fatalf("seed %d: another kernel: %v", seed, err)
			}
		}
		if s.Func.String() != text {
			t.Fatalf("seed %d: allocation changes what was selected", seed)
		}
	}
}

// TestWithoutRow: an operation that is legal, and that no row is for, is a bug of ours.
func TestWithoutRow(t *testing.T) {
	defer func() {
		if msg, want := fmt.Sprint(recover()), "BUG: toy: legal, but without a row: v1:f32x4 = div v0 v0"; msg != want {
			t.Errorf("panic %q, want %q", msg, want)
		}
	}()
	f := parse(t, "func f(x ptr)\n\tv0:f32x4 = load x+0\n\tv1:f32x4 = div v0 v0\n\tstore x+0 v1\n")
	target := newToy(toyAll)
	target.rows = slices.DeleteFunc(target.rows, func(r Row) bool { return r.Op == vir.OpDiv })
	newTable(target).mustFind(f, f.Body[1].(*vir.Instr))
}

// TestTidied: the driver removes what a pass says that it leaves, equal values first.
func TestTidied(t *testing.T) {
	var names []string
	for _, p := range tidied([]pass{{name: "a"}, {name: "b", leaves: unusedCode}, {name: "c", leaves: equalValues}, {name: "d", leaves: equalValues | unusedCode}}) {
		names = append(names, p.name)
	}
	if got, want := fmt.Sprint(names), "[a b dce c cse d cse dce]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// SelectShort is Select of functions that are short enough, and refuses one instruction more.
func TestSelectShort(t *testing.T) {
	target := toys()[0]
	for seed := range int64(20) {
		f := virgen.Func(rand.New(rand.NewSource(seed)), 40)
		s, err := Select(t.Context(), target, f)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if same, err := SelectShort(t.Context(), target, f, 20*len(s.Rows)+200); err != nil || same.Func.String() != s.Func.String() {
			t.Errorf("seed %d: %v, or other code", seed, err)
		}
		refused := (*nest.Refused)(nil)
		if _, err := SelectShort(t.Context(), target, f, len(s.Rows)-1); !errors.As(err, &refused) {
			t.Errorf("seed %d: %d instructions, one less may be: %v", seed, len(s.Rows), err)
		}
	}
}
