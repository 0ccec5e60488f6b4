package measure

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/rig"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
)

// Lab makes probes, and times them here or on another machine. It holds their kernels and, here, what they read until Close.
type Lab struct {
	Host    timing.Host
	targets []lower.Target
	img     *jit.Image   // nil: of code
	rig     *rig.Rig     // of img
	code    *worker.Code // in a worker, if img is nil
}

// ErrNoTarget is returned where no target's kernels run.
var ErrNoTarget = errors.New("measure: this machine runs the kernels of no target")

// NewLab lowers and assembles the probes of every target that this machine runs, and maps them in this process.
func NewLab() (*Lab, error) {
	l, files, err := lowered(timing.ThisHost())
	if err != nil {
		return nil, err
	}
	if l.img, err = jit.Assemble(files...); err != nil {
		return nil, err
	}
	if l.rig, err = newRig(l.img); err != nil {
		return nil, errors.Join(err, l.img.Close())
	}
	return l, nil
}

// newRig calls the functions of code.
func newRig(code *jit.Image) (*rig.Rig, error) {
	return rig.New(func(name string) (func([]uint64), error) { f, err := code.Func(name); return f.Call, err })
}

// NewLabOn is a lab of probes that a worker calls on a machine, nil: this one. They have no Run.
func NewLabOn(m *worker.Machine) (*Lab, error) {
	l, files, err := lowered(m.Host())
	if err != nil {
		return nil, err
	}
	l.code, err = worker.Load(worker.Options{On: m}, files...)
	return l, err
}

// lowered is a lab without kernels, and these, for each target that h runs.
func lowered(h timing.Host) (*Lab, []lower.File, error) {
	l := &Lab{Host: h, targets: classesOn(h)}
	if len(l.targets) == 0 {
		return nil, nil, ErrNoTarget
	}
	var files []lower.File
	for i, t := range l.targets {
		f, err := assembly(BestOn(h, t.Machine().Name), probeTexts(t, i == len(l.targets)-1))
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	return l, files, nil
}

// Close frees kernels and memory; no probe of the lab may run afterwards.
func (l *Lab) Close() error {
	if l.code != nil {
		return l.code.Close()
	}
	return errors.Join(l.rig.Close(), l.img.Close())
}

// probe is one that calls c.
func (l *Lab) probe(name, unit string, amount float64, c rig.Call) (Probe, error) {
	p := Probe{Name: name, Unit: unit, Amount: amount, call: c}
	if l.rig == nil {
		return p, nil
	}
	var err error
	p.Run, err = l.rig.Func(c)
	return p, err
}

// inRegisters is a probe of a kernel of the lab that reads nothing, with n iterations.
func (l *Lab) inRegisters(name, unit string, amount float64, kernel string, n int) Probe {
	p, err := l.probe(name, unit, amount, rig.Call{Func: kernel, Steps: n})
	if err != nil {
		panic("BUG: measure: " + err.Error())
	}
	return p
}

// time times probes in interleaved rounds, where they run.
func (l *Lab) time(opt timing.Options, probes []Probe) ([]timing.Sample, error) {
	if l.rig != nil {
		return timing.Time(opt, runs(probes)...), nil
	}
	var calls []rig.Call
	for _, p := range probes {
		calls = append(calls, p.call)
	}
	return l.code.Probe(opt, calls...)
}

// Best times probes in interleaved rounds and returns what the fastest reached.
// Without probes it is the zero Ceiling.
func (l *Lab) Best(opt timing.Options, probes []Probe) (Ceiling, error) {
	samples, err := l.time(opt, probes)
	if err != nil {
		return Ceiling{}, err
	}
	return fastest(probes, samples, nil), nil
}

// Pick times probes briefly and returns the n fastest, the best first: few enough
// to be timed between the samples of a kernel.
func (l *Lab) Pick(opt timing.Options, probes []Probe, n int) ([]Probe, error) {
	samples, err := l.time(opt, probes)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(probes))
	for i := range order {
		order[i] = i
	}
	rate := func(i int) float64 { return probes[i].Rate(samples[i].Min) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rate(b), rate(a)) })
	var best []Probe
	for _, i := range order[:min(n, len(order))] {
		best = append(best, probes[i])
	}
	return best, nil
}

// Class is the name, without architecture, of the target that has the instructions of the one called name on
// CPUs of any maker: probes and limits are of classes.
func Class(name string) string {
	if t := targets.ByName(name); t != nil {
		name = t.Machine().Class()
	}
	isa, _, _ := strings.Cut(name, "+") // of a user's own core, which is in no list
	return isa[strings.IndexByte(isa, '/')+1:]
}

// Targets lists the classes of targets whose kernels this machine runs, from the fewest CPU
// features to the most.
func Targets() []lower.Target { return classesOn(timing.ThisHost()) }

func classesOn(h timing.Host) []lower.Target {
	return slices.DeleteFunc(TargetsOn(h), func(t lower.Target) bool { return !t.Machine().Ordinary() })
}

// TargetsOn lists the targets that h runs, the best last.
func TargetsOn(h timing.Host) []lower.Target {
	return slices.DeleteFunc(targets.All(), func(t lower.Target) bool {
		m := t.Machine()
		return m.Arch() != h.Arch || h.Lacks(targets.Features(t)) != nil || !m.For(h.ID())
	})
}

// BestOn is the best target of a class that h runs, with the core that h has if it is known. The class "" stands for all. nil: h runs none.
func BestOn(h timing.Host, class string) lower.Target {
	for _, t := range slices.Backward(TargetsOn(h)) {
		if class == "" || Class(t.Machine().Name) == Class(class) {
			return t
		}
	}
	return nil
}

// Targets are the targets that the lab's machine runs.
func (l *Lab) Targets() []lower.Target { return slices.Clone(l.targets) }

// target finds a target of this machine by its name, with or without its architecture.
func (l *Lab) target(name string) (lower.Target, error) {
	for _, t := range l.targets {
		if t.Machine().ShortName() == Class(name) {
			return t, nil
		}
	}
	return nil, fmt.Errorf("measure: this machine does not run target %q", name)
}

// assembly lowers probes for t and prints them.
func assembly(t lower.Target, texts []string) (lower.File, error) {
	var ks []*lower.Kernel
	for _, text := range texts {
		k, err := compile(t, text)
		if err != nil {
			return lower.File{}, fmt.Errorf("measure: %s: %w\n%s", t.Machine().Name, err, text)
		}
		ks = append(ks, k)
	}
	return lower.Emit(t, "main", ks...)
}

// compile lowers a probe. One that lost instructions on the way would show a rate
// that the machine does not have, so that is an error.
func compile(t lower.Target, text string) (*lower.Kernel, error) {
	f, err := vir.Parse(text)
	if err != nil {
		return nil, err
	}
	k, err := lower.Compile(t, f)
	if err != nil {
		return nil, err
	}
	want, have := work(f), work(k.Func)
	for op, n := range want {
		if op != vir.OpLoad && have[op] != n {
			return nil, fmt.Errorf("%s: %d %v in the loop have become %d", f.Name, n, op, have[op])
		}
	}
	return k, nil
}

// work counts the operations inside loops.
func work(f *vir.Func) map[vir.Op]int {
	n := map[vir.Op]int{}
	vir.Walk(f.Body, func(in *vir.Instr, loops []*vir.Loop) {
		if len(loops) > 0 {
			n[in.Op]++
		}
	})
	return n
}

// free frees the working sets of the given size in bytes; probes that read them may not
// run again.
func (l *Lab) free(bytes int) error {
	if l.rig == nil {
		return nil // a worker keeps none
	}
	return errors.Join(l.rig.Free(rig.Set{Bytes: bytes, Huge: true}), l.rig.Free(rig.Set{Bytes: bytes}))
}
