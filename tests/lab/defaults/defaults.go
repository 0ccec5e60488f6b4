// Package defaults writes and reads the default schedules that one commit of tmacc chooses on one machine.
//
// It uses little of the compiler, so that its folder can be copied into the checkout of an older commit: see docs/lab/README.md.
package defaults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/timing"
)

// Row is the default schedules of a product on a target.
type Row struct {
	Problem ir.Problem     `json:"problem"`
	Target  string         `json:"target"`
	Kernels []Kernel       `json:"kernels"`          // the narrowest first; none if Error says why
	Prepare schedule.Trace `json:"prepare"`          // of activations, for the tables that the kernels read
	Error   string         `json:"error,omitempty"`  // why there are no schedules
	Seconds float64        `json:"seconds"`          // CPU time until the schedules were chosen and their kernels printed
	Elapsed float64        `json:"elapsed"`          // the same by the clock on the wall
	CPU     string         `json:"cpu"`              // that chose
	Date    string         `json:"date"`             // 2026-11-27
	Commit  string         `json:"commit,omitempty"` // of the program, "" if it is not known
}

// Kernel is the schedule for one width of column blocks.
type Kernel struct {
	Cols  int            `json:"cols"`
	Trace schedule.Trace `json:"trace"`
}

// Name is the product and the target: "q4_0 amd64/avx2". Activations in groups of another size than usual are named too.
func (r *Row) Name() string { return Name(r.Problem, r.Target) }

// Name is what a row of p on a target is called.
func Name(p ir.Problem, target string) string {
	name := p.Name()
	if !p.Act.Floats() && p.Act.Group != blocks.UsualAct(p.Weight).Group {
		name += fmt.Sprint("/a", p.Act.Group)
	}
	return name + " " + target
}

// Usual are the products that defaults are compared for: all built-in formats, and the formats of all GGUF types.
func Usual() (all []ir.Problem, err error) {
	names := format.Names()
	for _, typeName := range blocks.Types() {
		w, _, err := blocks.Product(typeName)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
	}
	for _, name := range names {
		w, err := format.Lookup(name)
		if err != nil {
			return nil, err
		}
		all = append(all, ir.Problem{Weight: w, Act: blocks.UsualAct(w)})
	}
	return all, nil
}

// Untuned are products of formats that nobody has tuned: 5 levels in groups of 48, 6 bits with zero points, 7 levels in
// whole rows, 3 bits with minimums in groups of 16, and 4 books of 8 levels.
func Untuned() (all []ir.Problem) {
	books := []int{-120, -80, -45, -15, 15, 45, 80, 120, -120, -70, -35, -10, 10, 35, 70, 120, -110, -60, -25, -6, 6, 25, 60, 110, -90, -50, -20, -4, 4, 20, 50, 90}
	for _, w := range []format.Weight{
		{Name: "five-g48", Bits: 3, Levels: []int{-2, -1, 0, 1, 2}, Bound: 2.33, Per: format.PerGroup, Scale: format.F16, Group: 48},
		{Name: "six-g32-z", Bits: 6, Levels: format.UpFrom(-32, 64), Bound: 6, Per: format.PerGroup, Scale: format.F16, Group: 32, Zero: true},
		{Name: "seven", Bits: 3, Levels: format.UpFrom(-3, 7), Bound: 2.81, Per: format.PerRow, Scale: format.F32},
		{Name: "three-g16-m", Bits: 3, Levels: format.UpFrom(0, 8), Bound: 3, Per: format.PerGroup, Scale: format.F16, Group: 16, Min: true},
		{Name: "books4x8", Bits: 3, Levels: books, Bound: 3, Per: format.PerRow, Scale: format.F32, Books: 4, BookGroup: 32},
	} {
		all = append(all, ir.Problem{Weight: w, Act: blocks.UsualAct(w)})
	}
	return all
}

// Study are the products of the study of searches: of two formats that the compiler was made with, and of three others.
func Study() (all []ir.Problem) {
	for _, w := range []format.Weight{
		builtIn("w2"), builtIn("ternary"), builtIn("w4-g48"),
		{Name: "w5", Bits: 5, Levels: format.UpFrom(-16, 32), Per: format.PerRow, Scale: format.F32},
		{Name: "cb6", Bits: 3, Levels: []int{-97, -41, -12, 9, 38, 110}, Per: format.PerRow, Scale: format.F32}, // arbitrary
	} {
		all = append(all, ir.Problem{Weight: w, Act: blocks.UsualAct(w)})
	}
	return all
}

func builtIn(name string) format.Weight {
	w, err := format.Lookup(name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return w
}

// Products are the products that words name: "usual", "untuned" and "study" for the lists above, or built-in products.
func Products(words []string) (all []ir.Problem, err error) {
	for _, word := range words {
		var some []ir.Problem
		switch word {
		case "usual":
			some, err = Usual()
		case "untuned":
			some = Untuned()
		case "study":
			some = Study()
		default:
			var p ir.Problem
			if p, err = ir.Named(word); err == nil && !p.Act.Floats() {
				p.Act = blocks.UsualAct(p.Weight)
			}
			some = []ir.Problem{p}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	for _, p := range all {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name(), err)
		}
	}
	return all, nil
}

// Choose chooses the default schedules of p on t. The error is that of ctx: a product without schedules is a row that says why.
func Choose(ctx context.Context, p ir.Problem, t targets.Target) (Row, error) {
	return By(ctx, p, t, func() ([]search.Use, error) { return beam.Product(ctx, p, t) })
}

// By is Choose by another function for p on t than the default one.
func By(ctx context.Context, p ir.Problem, t targets.Target, choose func() ([]search.Use, error)) (Row, error) {
	r := Row{Problem: p, Target: t.Machine().Name}
	begun, used := time.Now(), timing.ProcessTime()
	uses, err := choose()
	if err == nil {
		err = r.compile(ctx, t, uses)
	}
	r.Seconds, r.Elapsed = (timing.ProcessTime() - used).Seconds(), time.Since(begun).Seconds()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r, nil
}

// compile compiles what was chosen, which finds the schedule of the preparation too.
func (r *Row) compile(ctx context.Context, t targets.Target, uses []search.Use) error {
	v, err := build.Variant(ctx, r.Problem, t, uses)
	if err != nil {
		return err
	}
	for _, k := range v.Kernels {
		r.Kernels = append(r.Kernels, Kernel{k.Schedule.Cols, k.Schedule.Trace})
	}
	r.Prepare = v.Prepare.Schedule.Trace
	return nil
}

// Write writes a row as a line of JSON.
func Write(w io.Writer, r Row) error {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// maxLine bounds a line of a file, in bytes.
const maxLine = 1 << 20

// Read reads what Write wrote. The error names the line: also one that this commit cannot read because it has other steps.
func Read(from io.Reader) (all []Row, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	seen := map[string]bool{}
	for n := 1; lines.Scan(); n++ {
		var r Row
		if err := format.UnmarshalStrict(bytes.TrimSpace(lines.Bytes()), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if name := r.Name(); seen[name] {
			return nil, fmt.Errorf("line %d: %s is in an earlier line too", n, name)
		} else {
			seen[name] = true
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", len(all)+1, err)
	}
	return all, nil
}

// Appendable refuses to read a path and then append to it, if it is there and no regular file: reading a pipe or a terminal waits for others.
func Appendable(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: want a regular file, which is read before it is appended to", path)
	}
	return nil
}

func (r *Row) check() error {
	switch {
	case r.Target == "" || strings.TrimSpace(r.Target) != r.Target:
		return fmt.Errorf("target is %q", r.Target)
	case (len(r.Kernels) == 0) != (r.Error != ""):
		return errors.New("want either kernels or an error")
	case !slices.IsSortedFunc(r.Kernels, func(a, b Kernel) int { return a.Cols - b.Cols }):
		return errors.New("kernels are not in ascending order of cols")
	}
	return r.Problem.Validate()
}
