package schedule_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
)

// fuzzed are the products that FuzzTrace replays traces on.
func fuzzed(t testing.TB) []ir.Problem {
	codebook := ir.Problem{Weight: format.Weight{Name: "codebook", Bits: 3, Levels: []int{-7, -1, 0, 2, 9}, Per: format.PerTensor, Scale: format.F32}}
	zeros := problem(t, "w4-g32-z")
	zeros.Act.Group = 16
	return []ir.Problem{problem(t, "w1"), problem(t, "w2"), problem(t, "w3"), problem(t, "w8"), codebook, problem(t, "w4-g32"), zeros}
}

// FuzzTrace: what UnmarshalJSON reads, MarshalJSON writes; replaying it is fast and
// refused with a type, or gives loops that compute the product.
func FuzzTrace(f *testing.F) {
	for _, tr := range seeds(f) {
		text, err := json.Marshal(tr)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	problems := fuzzed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var tr schedule.Trace
		if json.Unmarshal(data, &tr) != nil {
			return
		}
		text, err := json.Marshal(tr)
		if err != nil {
			t.Fatal(err)
		}
		var again schedule.Trace
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if other, err := json.Marshal(again); err != nil || !bytes.Equal(text, other) {
			t.Fatalf("%s becomes %s: %v", text, other, err)
		}
		_ = tr.String()
		replay(t, problems, tr)
	})
}

// seeds are traces that compile for some of fuzzed.
func seeds(t testing.TB) []schedule.Trace {
	return []schedule.Trace{{}, parse(t, prepareRows), parse(t, prepareGroups), parse(t, fmt.Sprintf(grouped, "affine", 1)),
		parse(t, fmt.Sprintf(grouped, "lookup", 4)), quads(t, 1, true, readAll), quads(t, 2, false, readAll),
		quads(t, 4, false, `,{"rfactor":{"loop":"f"}}`), pairsTrace(t, 2, 5, usual, scaled(4)),
		pairsTrace(t, 2, 10, fieldsOutside, scaled(4, "f")), pairsTrace(t, 4, 1, usual, scaled(0)), wholeBytes(t)}
}

// replay compiles tr for each problem, and returns how many kernels that makes.
func replay(t *testing.T, problems []ir.Problem, tr schedule.Trace) int {
	t.Helper()
	began, kernels := time.Now(), 0
	defer func() {
		if x := recover(); x != nil {
			t.Fatalf("%v\n%s", x, tr)
		}
	}()
	for _, p := range problems {
		k, err := schedule.Compile(p, tr)
		if !typed(err) {
			t.Fatalf("%T: %v\n%s", err, err, tr)
		}
		if err == nil {
			kernels++
			small(t, k)
		}
		if _, err := schedule.CompilePreparation(p, nil, tr); !typed(err) {
			t.Fatalf("%T: %v\n%s", err, err, tr)
		} else if err == nil {
			kernels++
		}
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("%v for %s", d, tr)
	}
	return kernels
}

// TestEdited replays traces with steps left out, exchanged, repeated and changed.
func TestEdited(t *testing.T) {
	seed := drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("TMACC_SEED=%d", seed)
	rng := rand.New(rand.NewSource(int64(seed)))
	problems, all, kernels := fuzzed(t), seeds(t), 0
	for range 1500 {
		tr := slices.Clone(all[rng.Intn(len(all))])
		for range 1 + rng.Intn(4) {
			tr = edit(rng, tr, all)
		}
		kernels += replay(t, problems[rng.Intn(len(problems)):][:1], tr)
	}
	t.Logf("%d kernels", kernels)
	if kernels < 100 {
		t.Errorf("only %d edited traces make a kernel", kernels)
	}
}

// edit changes one thing of tr.
func edit(rng *rand.Rand, tr schedule.Trace, all []schedule.Trace) schedule.Trace {
	if len(tr) == 0 {
		return tr
	}
	i, j := rng.Intn(len(tr)), rng.Intn(len(tr))
	switch rng.Intn(5) {
	case 0:
		return slices.Delete(tr, i, i+1)
	case 1:
		tr[i], tr[j] = tr[j], tr[i]
	case 2:
		if other := all[rng.Intn(len(all))]; len(other) > 0 {
			return slices.Insert(tr, i, other[rng.Intn(len(other))])
		}
	default:
		tr[i] = change(rng, tr[i], tr)
	}
	return tr
}

// change gives a field of a step another value: a number nearby, or a name that
// occurs in the trace.
func change(rng *rand.Rand, step schedule.Step, tr schedule.Trace) schedule.Step {
	words := strings.FieldsFunc(tr.String()+" lookup flush init begin planes words dot2 dot4 m n k g", func(r rune) bool { return r == ' ' || r == ';' })
	word := func() string { return words[rng.Intn(len(words))] }
	v := reflect.New(reflect.TypeOf(step)).Elem()
	v.Set(reflect.ValueOf(step))
	f := v.Field(rng.Intn(v.NumField()))
	switch x := f.Interface().(type) {
	case string:
		f.SetString(word())
	case int:
		f.SetInt(int64([]int{x + 1, x - 1, 2 * x, x / 2, 3 * x, 4096}[rng.Intn(6)]))
	case schedule.Pair:
		x[rng.Intn(2)] = word()
		f.Set(reflect.ValueOf(x))
	case []string:
		x = append(slices.Clone(x), word())
		rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
		f.Set(reflect.ValueOf(x[rng.Intn(2):]))
	}
	return v.Interface().(schedule.Step)
}

// typed reports whether err is one of the refusals that callers tell apart, or nil.
func typed(err error) bool {
	var illegal *schedule.Illegal
	var unfinished *schedule.Unfinished
	var overflow *schedule.Overflow
	var refused *nest.Refused
	return err == nil || errors.As(err, &illegal) || errors.As(err, &unfinished) || errors.As(err, &overflow) || errors.As(err, &refused)
}

// small compares k with the definition, if one tile is small.
func small(t *testing.T, k *schedule.Kernel) {
	p := k.Problem
	size := max(p.Weight.Unit(), p.GroupK(), 16)
	if k.Rows*k.Cols*k.StepK > 1<<12 || size > 1<<10 || len(k.Nest.Body) == 0 {
		return
	}
	for _, x := range []*check.Case{worst(p, size), check.New(rand.New(rand.NewSource(1)), p, 2, 1, size, check.Uniform)} {
		got, err := evaluate(x, k)
		if err == nil {
			err = check.Equal(k, got, x.Naive(), x.M)
		}
		if err != nil {
			t.Fatalf("%v: %v\n%v", p.Weight, err, k.Nest)
		}
	}
}
