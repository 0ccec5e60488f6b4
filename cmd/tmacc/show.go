package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
)

// stages are what show prints, in the order of the compiler.
var stages = []string{"problem", "expr", "trace", "nest", "layout", "vir", "passes", "machine", "asm"}

// showing is one call of tmacc show.
type showing struct {
	out     io.Writer
	p       ir.Problem
	t       lower.Target
	trace   schedule.Trace
	tables  *ir.Tables
	prepare bool
	stages  []string
}

func (c *cli) show() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Args: between(0, 0),
		Short: "print every stage of a kernel as text",
		Long: `Print what a kernel is at each stage of the compiler:

  problem   weights and activations, as JSON
  expr      the definition of the product
  trace     the schedule: one line, then the JSON that -trace reads
  nest      loops
  layout    where the packed weights lie
  vir       vector operations, the text that tmacc lower reads
  passes    vir after each pass that changed it
  machine   machine operations with registers
  asm       assembly`,
		Example: `  tmacc show -format w2 -stage trace,nest
  tmacc show -format w4-g32 -cols 8 -target avx2 -stage asm
  tmacc show -format w4 -stage vir > w4.vir && tmacc lower w4.vir -target avx512vbmi`,
	}
	f := cmd.Flags()
	name := f.String("format", "", "weight format, or a JSON file with one (required)")
	var act actFlags
	actVar(f, &act)
	cols := f.Int("cols", 1, "columns of activations per call of the kernel")
	target := f.String("target", "host", "target, see tmacc targets")
	trace := f.String("trace", "", "JSON `file` with the schedule to show instead of the default")
	stage := f.StringSlice("stage", []string{allWord}, "what to print; may be repeated")
	prepare := f.Bool("prepare", false, "show the kernel that prepares activations for the schedule")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *name == "" {
			return fmt.Errorf("show: no format: give one with -format, see tmacc formats")
		}
		s := showing{prepare: *prepare}
		var err error
		if s.p, err = c.product(*name, act); err != nil {
			return err
		}
		if s.t, err = oneTarget(*target); err != nil {
			return err
		}
		if s.stages, err = stageList(*stage); err != nil {
			return err
		}
		if *trace != "" {
			if s.trace, err = c.trace(*trace); err != nil {
				return err
			}
		}
		bar := newProgress(c.err, false)
		defer bar.done()
		bar.step("compiling %s for %s", *name, s.t.Machine().ShortName())
		text, err := s.show(cmd.Context(), *cols)
		bar.done()
		fmt.Fprint(c.out, text)
		return err
	}
	return cmd
}

// show is the stages as text, or those before the one that failed: of the trace that was given or the default schedule of so many columns.
func (s showing) show(ctx context.Context, cols int) (string, error) {
	var text strings.Builder
	s.out = &text
	given, err := s.trace != nil, error(nil)
	if !given {
		s.trace, err = s.choose(ctx, cols)
	}
	if err == nil && s.prepare {
		err = s.preparation(ctx, given)
	}
	if err == nil {
		err = s.print()
	}
	return text.String(), err
}

// stageList are the stages that words name, "all" among them.
func stageList(words []string) ([]string, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("-stage: names no stage: have %s, %s", strings.Join(stages, ", "), allWord)
	}
	for _, word := range words {
		if word != allWord && !slices.Contains(stages, word) {
			return nil, fmt.Errorf("unknown stage %q: have %s, %s", word, strings.Join(stages, ", "), allWord)
		}
	}
	if slices.Contains(words, allWord) {
		return stages, nil
	}
	return words, nil
}

// preparation turns the schedule of a product into that of what prepares activations for it. One that
// is given may be of the preparation itself, for the tables of the default schedules.
func (s *showing) preparation(ctx context.Context, given bool) (err error) {
	if k, err := schedule.Compile(s.p, s.trace); err == nil {
		s.tables = k.Tables
		s.trace, err = search.DefaultPrepare(s.p, k.Tables, k.Chunk, s.t)
		return err
	} else if !given {
		return err
	}
	s.tables, _, err = search.DefaultTables(ctx, s.p, s.t)
	return err
}

// choose is the default schedule.
func (s *showing) choose(ctx context.Context, cols int) (schedule.Trace, error) {
	uses, err := search.Default(ctx, s.p, s.t)
	if err != nil {
		return nil, err
	}
	var have []string
	for _, u := range uses {
		if u.Cols == cols {
			return u.Trace, nil
		}
		have = append(have, fmt.Sprint(u.Cols))
	}
	return nil, fmt.Errorf("no default schedule of %s on %s has %d columns: have %s", s.p.Name(), s.t.Machine().Name, cols, strings.Join(have, ", "))
}

// print writes the stages; with several of them, each under its name.
func (s *showing) print() error {
	graph, name := ir.Matmul(s.p), "matmul"
	var loops *nest.Nest
	var layout *format.Layout
	if s.prepare {
		k, err := schedule.CompilePreparation(s.p, s.tables, s.trace)
		if err != nil {
			return err
		}
		graph, name, loops = k.Graph, "prepare", k.Nest
	} else {
		k, err := schedule.Compile(s.p, s.trace)
		if err != nil {
			return err
		}
		loops, layout = k.Nest, k.Weights
	}
	f, err := lower.Vectorize(loops, name)
	if err != nil {
		return err
	}
	passes := passText(f)
	k, err := lower.Compile(s.t, f, passes.watch)
	if err != nil {
		return err
	}
	asm, err := lower.Emit(s.t, "kernels", k)
	if err != nil {
		return err
	}
	text := map[string]func() string{
		"problem": func() string { return jsonText(s.p) },
		"expr":    graph.String,
		"trace":   func() string { return s.trace.String() + "\n" + traceText(s.trace) },
		"nest":    loops.String,
		"layout":  func() string { return layoutText(layout) },
		"vir":     f.String,
		"passes":  passes.out.String,
		"machine": func() string { return lower.Dump(k) },
		"asm":     func() string { return string(asm.Data) },
	}
	for i, stage := range s.stages {
		if len(s.stages) > 1 {
			fmt.Fprintf(s.out, "%s== %s\n", strings.Repeat("\n", min(i, 1)), stage)
		}
		fmt.Fprintln(s.out, strings.TrimRight(text[stage](), "\n"))
	}
	return nil
}

// layoutText is l as JSON, a line for each part; activations are not packed by a layout of their own.
func layoutText(l *format.Layout) string {
	if l == nil {
		return "(rows of int8, then sums and scales)"
	}
	return strings.ReplaceAll(jsonText(l), `{"name"`, "\n {\"name\"")
}

// traceText is the JSON of t, a line for each step.
func traceText(t schedule.Trace) string {
	var lines []string
	for _, step := range t {
		data, err := json.Marshal(schedule.Trace{step})
		if err != nil {
			panic("BUG: trace: " + err.Error())
		}
		lines = append(lines, strings.Trim(string(data), "[]"))
	}
	return "[" + strings.Join(lines, ",\n ") + "]"
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(data)
}

// passWriter collects the function after each pass that changed it.
type passWriter struct {
	out  strings.Builder
	last string
}

func passText(f *vir.Func) *passWriter { return &passWriter{last: f.String()} }

func (w *passWriter) watch(pass string, f *vir.Func) {
	text := f.String()
	if text == w.last {
		fmt.Fprintf(&w.out, "-- %s: no change\n", pass)
		return
	}
	fmt.Fprintf(&w.out, "-- %s\n%s", pass, text)
	w.last = text
}
