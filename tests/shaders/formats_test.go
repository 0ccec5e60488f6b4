package shaders

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

// leastGrouped is the least share of the schedules of CPUs that workgroups can take.
const leastGrouped = 0.75

// TestFormats compares products of all formats with the definition, by schedules of CPUs whose tiles of rows are
// workgroups: of one lane with vectors of rows, and of a lane for each row of a vector. Some CPU schedules allow only
// one of them.
func TestFormats(t *testing.T) {
	draw := drawn.New(t)
	tried, compared := 0, 0
	for _, name := range drawn.Some(draw, 12, format.Names()) {
		t.Run(name, func(t *testing.T) {
			p, err := ir.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			uses, err := chosen.Product(t.Context(), p, targets.ByName("arm64/dotprod"))
			if err != nil {
				t.Fatal(err)
			}
			uses = slices.DeleteFunc(uses, func(u search.Use) bool { return inMemory(t, p, u.Trace) })
			for _, u := range drawn.Some(draw, 2, uses) {
				for _, lanes := range []bool{false, true} {
					t.Run(fmt.Sprint(u.Cols, map[bool]string{false: " vectors", true: " lanes"}[lanes]), func(t *testing.T) {
						tried++
						if formatOnDevice(t, p, u.Trace, lanes) {
							compared++
						}
					})
				}
			}
		})
	}
	t.Logf("%d of %d schedules compared", compared, tried)
	if float64(compared) < leastGrouped*float64(tried) {
		t.Errorf("only %d of %d schedules have a shader", compared, tried)
	}
}

// inMemory says that a schedule sums in memory. A call has one for that, which workgroups would all write to at once: they refuse it.
func inMemory(t *testing.T, p ir.Problem, trace schedule.Trace) bool {
	k, err := schedule.Compile(p, trace)
	if err != nil {
		t.Fatal(err)
	}
	if k.Scratch == 0 {
		return false
	}
	if _, err := schedule.Compile(p, Grouped(trace, k.Nest.Loops, false)); err == nil || !strings.Contains(err.Error(), "workgroups have sums in registers only") {
		t.Errorf("workgroups that sum in one memory: %v", err)
	}
	return true
}

// formatOnDevice reports whether workgroups can take the schedule. If so, it compares the product.
func formatOnDevice(t *testing.T, p ir.Problem, trace schedule.Trace, lanes bool) bool {
	k, err := schedule.Compile(p, trace)
	if err != nil {
		t.Fatal(err)
	}
	k, err = schedule.Compile(p, Grouped(trace, k.Nest.Loops, lanes))
	if err != nil {
		t.Log(err)
		return false
	}
	f, err := lower.Vectorize(k.Nest, "matmul")
	if no := (*nest.Refused)(nil); errors.As(err, &no) {
		t.Log(err)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	target := spirv.Targets()[1]
	Accepted(t, Compiled(t, target, f, spirv.Controls{}))
	d := Device(t)
	sh := Compiled(t, target, f, Controls(d))
	c := check.New(rand.New(rand.NewSource(3)), p, 2*k.Rows+1, k.Cols, wholeK(p, 2*k.StepK+5), check.Uniform)
	compare(t, "device", c, k, func(args []vir.Arg) error { return Run(d, sh, f, args) })
	return true
}
