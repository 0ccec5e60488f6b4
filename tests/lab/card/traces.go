package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/check"
)

// entry is a line of a file of schedules. Without a trace it is the first one of the problem's space.
type entry struct {
	Problem string             `json:"problem"`
	Product string             `json:"product,omitempty"` // the problem, as docs/lab/card.jsonl has it
	Cols    int                `json:"cols,omitempty"`
	Name    string             `json:"name"`
	Ns      map[string]float64 `json:"ns,omitempty"` // measured on another card, by shape
	Trace   schedule.Trace     `json:"trace"`
}

// refused is a schedule that does not run.
type refused struct {
	Problem string `json:"problem"`
	Name    string `json:"name"`
	Why     string `json:"why"`
	Wrong   bool   `json:"wrong,omitempty"` // its product has other bits than the definition
}

// candidate is a schedule that is compiled for the device, whose products have the bits of the definition.
type candidate struct {
	entry
	problem  ir.Problem
	kernel   *schedule.Kernel
	shader   *spirv.Shader
	params   []vir.Param
	pipeline *vulkan.Pipeline
	took     time.Duration // to compile, by the driver
	slow     bool          // at the shape before
}

// schedules are the default ones that the part before chose, and the ones of files.
func (x *lab) schedules() (all []entry, err error) {
	if x.known != "" {
		data, err := os.ReadFile(x.known)
		if err != nil {
			return nil, err
		}
		var r report
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", x.known, err)
		}
		all = r.Chosen
	}
	paths, err := tracesIn(x.traces)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		more, err := readTraces(path)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	all = slices.DeleteFunc(all, func(e entry) bool { return e.Problem != x.problems })
	if len(all) == 0 {
		all = []entry{{Problem: x.problems, Cols: 1, Name: "first of the space"}}
	}
	return all, nil
}

// tracesIn lists the files of schedules of a folder, or is the one file.
func tracesIn(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	paths, err := filepath.Glob(filepath.Join(path, "*.jsonl"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("-traces %s: no files of schedules, .jsonl", path)
	}
	return paths, err
}

// near is how many times as long as the fastest measured one a schedule may have taken to be tried again.
const near = 1.2

// fastest are the schedules that no measurement found much slower than others of their problem at each of their shapes. Those without measurements are among them.
func fastest(all []entry) []entry {
	best := map[string]float64{}
	for _, e := range all {
		for s, ns := range e.Ns {
			if b, ok := best[e.Problem+s]; !ok || ns < b {
				best[e.Problem+s] = ns
			}
		}
	}
	return slices.DeleteFunc(all, func(e entry) bool {
		for s, ns := range e.Ns {
			if ns <= near*best[e.Problem+s] {
				return false
			}
		}
		return len(e.Ns) > 0
	})
}

// readTraces reads the schedules of a file.
func readTraces(path string) (all []entry, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for n := 1; lines.Scan(); n++ {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if e.Problem = cmp.Or(e.Problem, e.Product); e.Name == "" {
			e.Name = fmt.Sprint(n)
		}
		e.Name = strings.TrimSuffix(filepath.Base(path), ".jsonl") + " " + e.Name
		all = append(all, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return fastest(all), nil
}

// compileAll compiles schedules, several at a time, and checks the bits of their products, within half of the time.
func (x *lab) compileAll(all []entry) (out []*candidate) {
	var mu sync.Mutex
	results, late := make([]*candidate, len(all)), 0
	until := time.Now().Add(time.Until(x.deadline) / 2)
	x.parallel(len(all), func(i int) {
		e := all[i]
		if time.Now().After(until) {
			mu.Lock()
			defer mu.Unlock()
			late++
			return
		}
		var c *candidate
		wrong := false
		err := caught(func() (err error) {
			if c, err = x.compile(e, 1<<30); err == nil {
				err = x.checked(c)
				wrong = err != nil
			}
			return err
		})
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			x.Refused = append(x.Refused, refused{e.Problem, e.Name, err.Error(), wrong})
			return
		}
		results[i] = c
	})
	for _, c := range results {
		if c != nil {
			out = append(out, c)
		}
	}
	if late > 0 {
		x.failed("schedules", fmt.Errorf("the last %d of %d were not tried: the others took half of the time", late, len(all)))
	}
	return out
}

// compile makes the pipeline of a schedule, whose shader has at most some bytes.
func (x *lab) compile(e entry, most int) (*candidate, error) {
	p, err := ir.Named(e.Problem)
	if err != nil {
		return nil, err
	}
	if len(e.Trace) == 0 {
		if e.Trace, err = firstTrace(p); err != nil {
			return nil, err
		}
	}
	e.Trace = schedule.Unquantized(e.Trace) // activations are prepared before
	k, err := schedule.Compile(p, e.Trace)
	if err != nil {
		return nil, err
	}
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		return nil, err
	}
	sh, err := x.print(f)
	if err != nil {
		return nil, err
	}
	if n := len(sh.Binary()); n > most {
		return nil, fmt.Errorf("a shader of %d bytes, at most %d are tried", n, most)
	}
	if n := vir.Product(sh.Lanes); n < leastLane && most < 1<<30 {
		return nil, fmt.Errorf("workgroups of %d lanes, at least %d are tried", n, leastLane)
	}
	c := &candidate{entry: e, problem: p, kernel: k, shader: sh, params: f.Params}
	buffers := len(sh.Buffers)
	if sh.Parts > 0 {
		buffers++ // of the sums that workgroups share
	}
	began := time.Now()
	c.pipeline, err = x.d.Pipeline(sh.Binary(), vulkan.Layout{Buffers: buffers, PushBytes: 4 * len(sh.Params), Subgroup: sh.Subgroup, FullSubgroups: sh.Subgroup > 0})
	c.took = time.Since(began)
	return c, err
}

// firstTrace is the first schedule of a problem's space, for one column.
func firstTrace(p ir.Problem) (schedule.Trace, error) {
	target, _ := spirv.ByName("spirv/dot")
	sp, err := space.For(p, target)
	if err != nil {
		return nil, err
	}
	x, err := sp.Columns(1).First()
	if err != nil {
		return nil, err
	}
	return x.Trace(), nil
}

// print is the shader of a function: with cooperative matrices only if it needs them.
func (x *lab) print(f *vir.Func) (*spirv.Shader, error) {
	var all []error
	for _, name := range []string{"spirv/dot", "spirv/coop"} {
		target, ok := spirv.ByName(name)
		if !ok || name == "spirv/coop" && !x.d.Features.CooperativeMatrix {
			continue
		}
		s, err := lower.Select(x.ctx, target, f)
		if err == nil {
			return target.Print(s, device.Controls(x.d))
		}
		all = append(all, fmt.Errorf("%s: %w", name, err))
	}
	return nil, errors.Join(all...)
}

// checked compares small products with the definition.
func (x *lab) checked(c *candidate) error {
	k := c.kernel
	rng := rand.New(rand.NewSource(1))
	columns := k.Cols
	if len(k.Nest.Grid) > 1 {
		columns = 2*k.Cols - k.Cols/2
	}
	unit := c.problem.Weight.Unit()
	for kind := check.Uniform; kind <= check.NotFinite; kind++ {
		depth := (2*k.StepK + 7 + unit - 1) / unit * unit
		t := check.New(rng, c.problem, k.Rows+1, columns, depth, kind)
		have, err := t.Run(k, func(args []vir.Arg) error { return x.call(c, args) })
		if err == nil {
			err = check.Equal(k, have, t.Naive(), t.M)
		}
		if err != nil {
			return fmt.Errorf("kind %d: %w", kind, err)
		}
	}
	return nil
}
