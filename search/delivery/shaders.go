package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// selectors are all targets.
func (x *Package) selectors() (all []lower.Selector) {
	for _, t := range x.Targets {
		all = append(all, t)
	}
	for _, t := range x.Shaders {
		all = append(all, t)
	}
	return all
}

// buildShaders compiles w for devices: by the given trace, else by the lock, else by the default schedules.
func (x *Package) buildShaders(ctx context.Context, w *product, t spirv.Target) (*variant.Shaders, defaults.Origin, error) {
	uses, by, err := x.shaderUses(ctx, w, t)
	if err != nil {
		return nil, by, err
	}
	v, err := build.Shaders(ctx, w.Problem, t, uses, shaders.Packaged...)
	if err == nil {
		err = v.Check()
	}
	if err != nil && by == defaults.Lock {
		err = &tune.LockError{Path: tune.LockName, Problem: message.Line(err)}
	}
	for i := range v.Kernels {
		v.Kernels[i].Shaders = distinct(v.Kernels[i].Shaders)
	}
	if v.Fused != nil {
		v.Fused.Shaders = distinct(v.Fused.Shaders)
	}
	return &v, by, err
}

// distinct are shaders without those that are the one before.
func distinct(all []*spirv.Shader) []*spirv.Shader {
	return slices.CompactFunc(all, func(a, b *spirv.Shader) bool { return bytes.Equal(a.Binary(), b.Binary()) })
}

func (x *Package) shaderUses(ctx context.Context, w *product, t spirv.Target) ([]search.Use, defaults.Origin, error) {
	if trace := w.Trace(t); trace != nil {
		return []search.Use{{Trace: trace}}, defaults.Trace, nil
	}
	if e := x.lock.Find(w.Problem, t); e != nil && e.For(w.Problem) {
		return e.Uses(), defaults.Lock, nil
	}
	uses, err := shaders.Default(ctx, w.Problem, t)
	return uses, defaults.Default, err
}

// tryShaders compiles the given traces of shaders.
func (x *Package) tryShaders(ctx context.Context, w *product) error {
	for _, t := range x.Shaders {
		g, ok := w.Traces[t.Machine().Name]
		if !ok {
			continue
		}
		if _, _, err := x.buildShaders(ctx, w, t); err != nil {
			return fmt.Errorf("trace %s of %s: %w", g.Path, w.Name(), w.Blamed(err))
		}
	}
	return nil
}

// verifyShaders compares all shaders with the definition on the device that there is. Without one they are proven, and not run.
func (x *Package) verifyShaders(ctx context.Context) error {
	if len(x.Shaders) == 0 {
		return nil
	}
	found, lab := NotRun, (*shaders.Lab)(nil)
	if !x.Unchecked {
		var err error
		lab, err = shaders.Open(ctx, "", func(what string) { x.say(Note(what)) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			x.say(Note("shaders are not run here: " + message.Line(err)))
			found = NotHere
		default:
			defer lab.Close()
			for _, what := range lab.Device().Cautions() {
				x.say(Note(what))
			}
		}
	}
	for _, w := range x.products {
		for i := range w.compiled.Shaders {
			v := &w.compiled.Shaders[i]
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if lab != nil {
				var err error
				if found, err = x.verifyOn(ctx, lab, w, v); err != nil {
					return err
				}
			}
			for name, k := range w.shaded(v) {
				x.exact[name] = found.of(k.Schedule)
			}
		}
	}
	return nil
}

// verifyOn compares all shaders of v that a device can run with the definition. A package has several, and devices take the first that they can run.
func (x *Package) verifyOn(ctx context.Context, lab *shaders.Lab, w *product, v *variant.Shaders) (Exactness, error) {
	found := NotHere
	for _, one := range shaders.Alternatives(v) {
		x.say(Checking{w.Problem, v.Target})
		err := lab.Test(ctx, w.Problem, &one)
		refused := (*shaders.Refused)(nil)
		switch {
		case err == nil:
			found = w.compared()
		case errors.As(err, &refused):
			x.say(Note(fmt.Sprintf("%s on %s: shaders%s are not run here: %s", w.Label(), v.Target.Machine().Name, asking(&one), message.Line(errors.New(refused.Why)))))
		case worker.IsFault(err):
			return "", &Fault{w.Problem, v.Target, err}
		default:
			return "", err
		}
	}
	return found, nil
}

// asking says what subgroups shaders of v need, "" if any will do.
func asking(v *variant.Shaders) string {
	for _, k := range v.Kernels {
		if n := k.Shaders[0].Subgroup; n > 0 {
			return fmt.Sprintf(" with subgroups of %d lanes", n)
		}
	}
	return ""
}

// shaded are the kernels of v with their names, the one that takes floats last.
func (w *product) shaded(v *variant.Shaders) iter.Seq2[string, *variant.Shaded] {
	return func(yield func(string, *variant.Shaded) bool) {
		for i := range v.Kernels {
			if k := &v.Kernels[i]; !yield(w.compiled.ShaderName(v, k.Schedule.Cols), k) {
				return
			}
		}
		if v.Fused != nil {
			yield(w.compiled.FloatsName(v), v.Fused)
		}
	}
}

func (x *Package) reportShaders(w *product, v *variant.Shaders) (kernels []Kernel) {
	_, atK := w.largest()
	for name, k := range w.shaded(v) {
		s := k.Schedule
		kernels = append(kernels, Kernel{Name: name, Target: v.Target.Machine().Name, Rows: s.Rows, Cols: s.Cols, Bits: s.Weights.Part(format.Codes).CodeBits(),
			Stored: bench.StoredBits(s.Weights, atK), Exact: x.exact[name], Trace: s.Trace})
	}
	return kernels
}
