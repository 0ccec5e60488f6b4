package tune

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
)

// Given is the candidate of schedules for one packed matrix, compiled as they are for an application. The error says which does not compile, or that they are
// for several matrices.
func (t *Tuner) Given(traces ...schedule.Trace) (*Candidate, error) {
	c := &Candidate{}
	for _, trace := range traces {
		k, err := t.compile(trace)
		if err == nil && len(c.Kernels) > 0 && !k.Schedule.SharesBuffers(c.Kernels[0].Schedule) {
			err = apart(c.Kernels[0].Schedule, k.Schedule)
		}
		if err != nil {
			return nil, err
		}
		c.Kernels = append(c.Kernels, k)
	}
	var err error
	c.prepare, err = t.prepare(c.Kernels)
	return c, err
}

// Begin compiles schedules for a search to begin with: one for each number of activations, the fewest first, for one packed matrix. With an
// error it returns the schedules before the one that the error is about.
func (t *Tuner) Begin(traces ...schedule.Trace) (uses []search.Use, err error) {
	ns := t.widths()
	var first *schedule.Kernel
	for i, trace := range traces {
		if i == len(ns) {
			return uses, fmt.Errorf("one more than the %d numbers of activations that the search is for", len(ns))
		}
		k, err := t.begin(trace, i)
		switch {
		case err != nil:
			return uses, err
		case first == nil:
			first = k
		case !k.SharesBuffers(first):
			return uses, apart(first, k)
		}
		uses = append(uses, search.Use{Cols: k.Cols, Trace: trace})
	}
	return uses, nil
}

// begin compiles a schedule for a number of activations, as the search compiles candidates.
func (t *Tuner) begin(trace schedule.Trace, width int) (*schedule.Kernel, error) {
	x := t.compileGene(Gene{Trace: trace}, width)
	switch k := x.k.Schedule; {
	case errors.Is(x.err, errWide):
		return nil, tooWide(k.Cols, t.widths()[width])
	case errors.Is(x.err, errBounds):
		return nil, fmt.Errorf("%w: want a schedule with exact sums", x.err)
	}
	return x.k.Schedule, x.err
}

// apart is the error of schedules that read different packed matrices or prepared activations.
func apart(a, b *schedule.Kernel) error {
	return fmt.Errorf("the schedules for n = %d and %d are not for one packed matrix", a.Cols, b.Cols)
}

// tooWide is the error of a kernel of more columns than it is given activations.
func tooWide(cols, n int) error {
	return fmt.Errorf("%w: kernels of %d columns for %d activations", errWide, cols, n)
}

// Fits is nil if c has a kernel for each purpose, that is one of no more columns than activations.
func (t *Tuner) Fits(c *Candidate) error {
	if cols, n := c.Kernels[0].Schedule.Cols, t.widths()[0]; cols > n {
		return tooWide(cols, n)
	}
	return nil
}

// Near returns the candidates that differ from the default schedules in the kernel of one width and can be compiled. That
// kernel has other prefetches or does the same in another order.
func (t *Tuner) Near() (out []*Candidate, err error) {
	c := seed(t.widths(), slices.DeleteFunc(slices.Clone(t.Default), func(u search.Use) bool { return u.Cols > slices.Max(t.widths()) }))
	if _, err := t.point(c); err != nil {
		return nil, err
	}
	seen := map[string]bool{c.Hash: true}
	for _, n := range t.near(c) {
		if _, err := t.point(n); err == nil && !seen[n.Hash] && !t.IsDefault(n) {
			seen[n.Hash] = true
			out = append(out, n)
		}
	}
	return out, nil
}

// Differs lists the steps in which the kernels of c differ from the default's of the same width. With several widths it names the width.
func (t *Tuner) Differs(c *Candidate) string {
	var out []string
	for _, k := range c.Kernels {
		cols, own := k.Schedule.Cols, k.Schedule.Trace
		i := slices.IndexFunc(t.Default, func(u search.Use) bool { return u.Cols == cols })
		if i >= 0 && t.Default[i].Trace.Key() == own.Key() {
			continue
		}
		what := "other"
		if i >= 0 {
			what = differs(t.Default[i].Trace, own)
		}
		if len(t.widths()) > 1 {
			what = fmt.Sprintf("%d columns: %s", cols, what)
		}
		out = append(out, what)
	}
	return strings.Join(out, "; ")
}

// differs names the steps of b that a does not have, or else the steps of a that b lacks.
func differs(a, b schedule.Trace) string {
	lacks := func(a, b schedule.Trace) (out []string) {
		for _, s := range b {
			key := schedule.Trace{s}.Key()
			if !slices.ContainsFunc(a, func(o schedule.Step) bool { return schedule.Trace{o}.Key() == key }) {
				out = append(out, schedule.Trace{s}.String())
			}
		}
		return out
	}
	if more := lacks(a, b); len(more) > 0 {
		return strings.Join(more, "; ")
	}
	if less := lacks(b, a); len(less) > 0 {
		return "without " + strings.Join(less, "; ")
	}
	return "steps in another order"
}

// Verify compares the kernels of c with the definition, in a process of their own. An error for which c is not to blame is an *Unmeasured.
func (t *Tuner) Verify(c *Candidate) error {
	code, err := t.load([]*Candidate{c})
	if err != nil {
		return t.unassembled(c, err)
	}
	defer code.Close()
	x := t.target(c, 0)
	for j := range x.Kernels {
		if err := t.blame(code, t.verify(code, x, j)); err != nil {
			return err
		}
	}
	return nil
}
