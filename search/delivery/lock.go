package delivery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// locked is the entry of the lock that w is compiled by on t, nil if there is none.
func (x *Package) locked(w *product, t lower.Target) *tune.Entry {
	if e := x.named(w, t); e != nil && e.For(w.Problem) && unproven(e, w.Problem) == nil {
		return e
	}
	return nil
}

// named is the entry of the lock for a product with the name of w. A given trace counts before it.
func (x *Package) named(w *product, t lower.Target) *tune.Entry {
	if w.Trace(t) != nil {
		return nil
	}
	return x.lock.Find(w.Problem, t)
}

// unproven says how sums of e could overflow if p allows larger K than usual, nil if they cannot: tuned schedules are
// proven for the K that they were tuned with.
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

// Tunable lists the targets on which a search on this machine can change the kernels of w through the lock. why says,
// for each of the other targets, why there is nothing to search.
func (x *Package) Tunable(w *order.Product) (on []lower.Target, why []string) {
	for _, t := range x.Targets {
		if reason := x.untunable(w, t); reason != "" {
			why = append(why, fmt.Sprintf("%s (%s)", t.Machine().Name, reason))
		} else {
			on = append(on, t)
		}
	}
	return on, why
}

// untunable says why no schedule of w is searched for t, "" if one is.
func (x *Package) untunable(w *order.Product, t lower.Target) string {
	e := x.lock.Find(w.Problem, t)
	switch missing := targeting.LacksCore(t, timing.ThisHost()); {
	case w.Trace(t) != nil:
		return "a trace is given"
	case missing != "":
		return "this machine lacks " + missing
	case e != nil && e.For(w.Problem) && unproven(e, w.Problem) != nil:
		return "the locked schedules are for smaller K, and would be lost"
	}
	return ""
}

// Warnings say, after Compile, which locks and entries are not used or do not fit, and which products have kernels of
// one width only. Each is one line.
func (x *Package) Warnings() []string {
	return slices.Concat(x.astray(), x.Misfits(), x.otherCores(), x.narrow())
}

// astray says that a lock lies beside the package, which is a module of its own without a lock. Then tmacc tune was given
// another directory, or chose one.
func (x *Package) astray() []string {
	own := filepath.Join(x.Dir, tune.LockName)
	beside := filepath.Join(filepath.Dir(filepath.Clean(x.Dir)), tune.LockName)
	path, err := LockPath(x.Dir)
	abs, fail := filepath.Abs(own)
	if err != nil || fail != nil || path != abs || exists(own) || !exists(beside) {
		return nil
	}
	return []string{fmt.Sprintf("%s is not used: %s is a module of its own, for which tmacc tune takes -o %s", beside, x.Dir, x.Dir)}
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Misfits names, after Compile, the entries of the lock that do not fit, one line each with a remedy: entries for unknown
// targets, for other products of the same name, for smaller K, or for other kernels than the compiler makes now.
func (x *Package) Misfits() (out []string) {
	for _, e := range x.lock.Entries {
		if why := x.noTarget(e.Target); why != "" {
			out = append(out, fmt.Sprintf("%s: %s on %s is not used: %s", tune.LockName, e.Product, e.Target, why))
		}
	}
	for _, w := range x.products {
		for _, t := range w.compiled.Variants {
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
func (x *Package) noTarget(name string) string {
	if t := targets.ByName(name); t != nil && t.Machine().Name == name || slices.ContainsFunc(x.Targets, func(t lower.Target) bool { return t.Machine().Name == name }) {
		return ""
	}
	if _, ok := spirv.ByName(name); ok {
		return ""
	}
	if _, _, ok := targeting.OtherCore(name); ok {
		return "" // it may be somebody's own core: otherCores names it
	}
	return "this tmacc has no such target, see tmacc targets"
}

// otherCores names the entries of the lock for a product and an instruction set of the package whose core has no
// kernels in the package.
func (x *Package) otherCores() (out []string) {
	for _, w := range x.products {
		for _, t := range targets.All() {
			m, e := t.Machine(), x.lock.Find(w.Problem, t)
			is := func(o lower.Target) bool { return o.Machine().Name == m.Name }
			has := func(o lower.Target) bool { return o.Machine().ISA.Name == m.ISA.Name }
			if e != nil && e.For(w.Problem) && !slices.ContainsFunc(x.Targets, is) && slices.ContainsFunc(x.Targets, has) {
				out = append(out, fmt.Sprintf("%s: %s on %s is not used: the package has no kernels for that core: add -core %s", tune.LockName, e.Product, m.Name, m.Core.Name))
			}
		}
		out = append(out, x.unknownCores(w)...)
	}
	return out
}

// unknownCores names the entries of the lock for w and an instruction set of the package whose core neither
// tmacc nor the package has. Another package may use them.
func (x *Package) unknownCores(w *product) (out []string) {
	for _, e := range x.lock.Entries {
		isa, core, ok := targeting.OtherCore(e.Target)
		is := func(o lower.Target) bool { return o.Machine().Name == e.Target }
		has := func(o lower.Target) bool { return o.Machine().ISA.Name == isa }
		if ok && e.Product == w.Problem.Name() && e.For(w.Problem) && !slices.ContainsFunc(x.Targets, is) && slices.ContainsFunc(x.Targets, has) {
			out = append(out, fmt.Sprintf("%s: %s on %s is not used: no built-in core is called %s: if it is one of yours, add -core FILE.json", tune.LockName, e.Product, e.Target, core))
		}
	}
	return out
}

// misfit says how p on t differs from what e was tuned for, "" if it does not.
func misfit(e *tune.Entry, p ir.Problem, t variant.Variant) string {
	if !e.For(p) {
		return "other levels, scales or activations than when it was tuned, so the entry is not used"
	}
	if overflow := unproven(e, p); overflow != nil {
		return fmt.Sprintf("schedules that are not exact for K up to %d, so the entry is not used (%v)", p.LimitK(), overflow)
	}
	return e.Others(t.Target, t.Kernels)
}

// tuneCommand is the command that tunes the product of an entry for the package.
func (x *Package) tuneCommand(e *tune.Entry, p ir.Problem) string {
	return TuneCommand(e, p) + " -o " + message.ShellWord(x.Dir)
}

// TuneCommand is the command that tunes p, the product of an entry, without the place where the result goes.
func TuneCommand(e *tune.Entry, p ir.Problem) string {
	group := ""
	if !p.Act.Floats() && p.Act.Group != blocks.UsualAct(p.Weight).Group {
		group = fmt.Sprintf(" -act-group %d", p.Act.Group)
	}
	target := e.Target
	if isa, core, ok := targeting.OtherCore(e.Target); ok {
		target = fmt.Sprintf("%s -core FILE.json (the core %s)", isa, core)
	}
	return fmt.Sprintf("tmacc tune -format %s%s -target %s", e.Product, group, target)
}

// narrow names the products that have kernels of one width only. Either a trace was given, or the lock has only kernels for
// one column, because nothing wider was tuned.
func (x *Package) narrow() (out []string) {
	for _, w := range x.products {
		for _, t := range w.compiled.Variants {
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
				use = fmt.Sprintf("narrower products use that kernel, padded, and take as long as products of %d", widest)
			}
			out = append(out, fmt.Sprintf("%s on %s: %s for %s only; %s", w.Label(), t.Target.Machine().Name, source, message.Count(widest, "column"), use))
		}
	}
	return out
}
