package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/tune"
)

// locked is the entry of the lock that w is compiled by on t, nil if there is none.
func (x *compilation) locked(w *wanted, t lower.Target) *tune.Entry {
	if e := x.named(w, t); e != nil && e.For(w.Problem) && unproven(e, w.Problem) == nil {
		return e
	}
	return nil
}

// named is the entry of the lock for what has the name of w.
func (x *compilation) named(w *wanted, t lower.Target) *tune.Entry {
	if w.Trace(t) != nil {
		return nil
	}
	return x.lock.Find(w.Problem, t)
}

// unproven is how sums of e could overflow for K of p that are larger than usual, nil if they cannot: what is tuned is
// proven for the K that it was tuned with.
func unproven(e *tune.Entry, p ir.Problem) (problem *schedule.Overflow) {
	if p.LimitK() <= ir.DefaultMaxK {
		return nil
	}
	for _, k := range e.Kernels {
		if _, err := schedule.Compile(p, k.Trace); errors.As(err, &problem) {
			return problem
		}
	}
	return nil
}

// astray says that a lock lies beside the package, which is a module of its own and has none: tmacc tune was told, or left to choose,
// another directory.
func (x *compilation) astray() []string {
	own := filepath.Join(x.dir, tune.LockName)
	beside := filepath.Join(filepath.Dir(filepath.Clean(x.dir)), tune.LockName)
	path, err := lockPath(x.dir)
	abs, fail := filepath.Abs(own)
	if err != nil || fail != nil || path != abs || exists(own) || !exists(beside) {
		return nil
	}
	return []string{fmt.Sprintf("%s is not used: %s is a module of its own, for which tmacc tune takes -o %s", beside, x.dir, x.dir)}
}

// exists says that there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// misfits says of the entries of the lock which are for targets that there are not, for other products of the same names, for
// smaller K or for other kernels, and what to do about it.
func (x *compilation) misfits() (out []string) {
	for _, e := range x.lock.Entries {
		if why := x.noTarget(e.Target); why != "" {
			out = append(out, fmt.Sprintf("%s: %s on %s is not used: %s", tune.LockName, e.Product, e.Target, why))
		}
	}
	for _, w := range x.products {
		for _, t := range w.product.Variants {
			e := x.named(w, t.Target)
			if e == nil {
				continue
			}
			remedy := "run " + x.tuneCommand(e, w.Problem)
			if w.Problem.LimitK() > ir.DefaultMaxK {
				remedy = "compile for smaller K" // tmacc tune is for the usual ones
			}
			if why := misfit(e, w.Problem, t); why != "" {
				out = append(out, fmt.Sprintf("%s: %s on %s has %s: %s, or remove the entry", tune.LockName, e.Product, e.Target, why, remedy))
			}
		}
	}
	return out
}

// noTarget says why there is no target of a name, "" if there is one.
func (x *compilation) noTarget(name string) string {
	if t := targets.ByName(name); t != nil && t.Machine().Name == name || slices.ContainsFunc(x.targets, func(t lower.Target) bool { return t.Machine().Name == name }) {
		return ""
	}
	if _, _, ok := targeting.OtherCore(name); ok {
		return "" // it may be somebody's own core: otherCores names it
	}
	return "this tmacc has no such target, see tmacc targets"
}

// otherCores names the entries of the lock that are for a product and an instruction set of the package, but for a core that it
// has no kernels for.
func (x *compilation) otherCores() (out []string) {
	for _, w := range x.products {
		for _, t := range targets.All() {
			m, e := t.Machine(), x.lock.Find(w.Problem, t)
			is := func(o lower.Target) bool { return o.Machine().Name == m.Name }
			has := func(o lower.Target) bool { return o.Machine().ISA.Name == m.ISA.Name }
			if e != nil && e.For(w.Problem) && !slices.ContainsFunc(x.targets, is) && slices.ContainsFunc(x.targets, has) {
				out = append(out, fmt.Sprintf("%s: %s on %s is not used: the package has no kernels for that core: add -core %s", tune.LockName, e.Product, m.Name, m.Core.Name))
			}
		}
		out = append(out, x.unknownCores(w)...)
	}
	return out
}

// unknownCores names the entries of the lock for w and an instruction set of the package, but for a core that neither
// tmacc nor the package has. Another package may use them.
func (x *compilation) unknownCores(w *wanted) (out []string) {
	for _, e := range x.lock.Entries {
		isa, core, ok := targeting.OtherCore(e.Target)
		is := func(o lower.Target) bool { return o.Machine().Name == e.Target }
		has := func(o lower.Target) bool { return o.Machine().ISA.Name == isa }
		if ok && e.Product == w.Problem.Name() && e.For(w.Problem) && !slices.ContainsFunc(x.targets, is) && slices.ContainsFunc(x.targets, has) {
			out = append(out, fmt.Sprintf("%s: %s on %s is not used: no built-in core is called %s: if it is one of yours, add -core FILE.json", tune.LockName, e.Product, e.Target, core))
		}
	}
	return out
}

// misfit says what p has on t that e was not tuned for, "" if nothing.
func misfit(e *tune.Entry, p ir.Problem, t variant.Variant) string {
	if !e.For(p) {
		return "other levels, scales or activations than when it was tuned, so the entry is not used"
	}
	if overflow := unproven(e, p); overflow != nil {
		return fmt.Sprintf("schedules that are not exact for K up to %d, so the entry is not used (%v)", p.LimitK(), overflow)
	}
	var widths []string
	for i, k := range t.Kernels { // by columns, as in the lock
		if hash, err := tune.KernelHash(t.Target, k.Text); err != nil || hash != e.Kernels[i].Hash {
			widths = append(widths, counted(k.Schedule.Cols, "column"))
		}
	}
	if len(widths) == 0 {
		return ""
	}
	by := ""
	if e.Compiler != "" && e.Compiler != gomod.Unknown {
		by = " by tmacc " + e.Compiler
	}
	return fmt.Sprintf("other kernels (for %s) than were measured%s: the traces were changed, or the compiler", strings.Join(widths, ", "), by)
}

// tuneCommand is what tunes the product of an entry.
func (x *compilation) tuneCommand(e *tune.Entry, p ir.Problem) string {
	group := ""
	if p.Act.Group != blocks.UsualAct(p.Weight).Group {
		group = fmt.Sprintf(" -act-group %d", p.Act.Group)
	}
	return fmt.Sprintf("tmacc tune -format %s%s -target %s -o %s", e.Product, group, e.Target, x.dir)
}

// narrow names the products that have kernels of one width only: by a trace that was given, or for one column by the lock,
// though they were tuned for nothing wider.
func (x *compilation) narrow() (out []string) {
	for _, w := range x.products {
		for _, t := range w.product.Variants {
			var source string
			widest := t.Kernels[len(t.Kernels)-1].Schedule.Cols
			switch e := x.locked(w, t.Target); {
			case w.Trace(t.Target) != nil:
				source = "the trace is"
			case widest == 1 && e != nil && !slices.ContainsFunc(e.Figures, func(f tune.Figures) bool { return f.N > 1 }):
				source = "locked"
			default:
				continue
			}
			use := "larger products use that kernel column by column"
			if widest > 1 {
				use = fmt.Sprintf("products of fewer use that kernel, padded, and take as long as those of %d", widest)
			}
			out = append(out, fmt.Sprintf("%s on %s: %s for %s only; %s", w.Label(), t.Target.Machine().Name, source, counted(widest, "column"), use))
		}
	}
	return out
}
