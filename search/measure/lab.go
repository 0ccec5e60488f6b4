package measure

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/timing"
)

// Lab makes probes: it holds their kernels and buffers until Close.
type Lab struct {
	Host    timing.Host
	targets []lower.Target
	img     *jit.Image
	in, out timing.Memory // registers are loaded from in, results stored to out
	buffers map[bufferKey]*buffer
}

// ErrNoTarget is returned where no target's kernels run.
var ErrNoTarget = errors.New("measure: this machine runs the kernels of no target")

// The registers of a probe are loaded from and stored to a line each.
const scratchBytes = 64 * timing.LineBytes

// NewLab lowers and assembles the probes of every target that this machine runs.
func NewLab() (*Lab, error) {
	l := &Lab{Host: timing.ThisHost(), targets: Targets(), buffers: map[bufferKey]*buffer{}}
	if len(l.targets) == 0 {
		return nil, ErrNoTarget
	}
	var files []lower.File
	for i, t := range l.targets {
		f, err := assembly(nearest(l.Host, t), probeTexts(t, i == len(l.targets)-1))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	var err error
	if l.img, err = jit.Assemble(files...); err != nil {
		return nil, err
	}
	if l.in, err = timing.Allocate(scratchBytes, false); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if l.out, err = timing.Allocate(scratchBytes, false); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close frees kernels and buffers; no probe of the lab may run afterwards.
func (l *Lab) Close() error {
	errs := []error{l.in.Close(), l.out.Close()}
	if l.img != nil {
		errs = append(errs, l.img.Close())
	}
	for _, b := range l.buffers {
		errs = append(errs, b.mem.Close())
	}
	clear(l.buffers)
	return errors.Join(errs...)
}

// Class is the name, without architecture, of the target that has the instructions of the one called name on
// CPUs of any maker: probes and limits are of classes.
func Class(name string) string {
	if t := targets.ByName(name); t != nil {
		name = t.Machine().Class()
	}
	return name[strings.IndexByte(name, '/')+1:]
}

// Targets lists the classes of targets whose kernels this machine runs, from the fewest CPU
// features to the most.
func Targets() []lower.Target {
	return slices.DeleteFunc(TargetsOn(timing.ThisHost()), func(t lower.Target) bool { return t.Machine().Like != "" })
}

// TargetsOn lists the targets that h runs, the best last.
func TargetsOn(h timing.Host) []lower.Target {
	return slices.DeleteFunc(targets.All(), func(t lower.Target) bool {
		return targets.Arch(t) != h.Arch || h.Lacks(targets.Features(t)) != nil
	})
}

// nearest is of the targets of a class the last that h runs: of instructions that do the same it takes those that are quickest there.
func nearest(h timing.Host, class lower.Target) lower.Target {
	for _, t := range slices.Backward(TargetsOn(h)) {
		if t.Machine().Class() == class.Machine().Name {
			return t
		}
	}
	return class
}

// Targets are those of the lab's machine.
func (l *Lab) Targets() []lower.Target { return slices.Clone(l.targets) }

// target finds a target of this machine by its name, with or without its architecture.
func (l *Lab) target(name string) (lower.Target, error) {
	for _, t := range l.targets {
		if targets.ShortName(t) == Class(name) {
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
	return t.Emit("main", ks)
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

type bufferKey struct {
	bytes int
	huge  bool
}

// buffer is a working set. All probes of it take turns, so that none finds in a
// cache what another has just read.
type buffer struct {
	mem  timing.Memory
	next int
}

// take returns the next n bytes.
func (b *buffer) take(n int) []byte {
	if b.next+n > len(b.mem.Bytes) {
		b.next = 0
	}
	part := b.mem.Bytes[b.next : b.next+n]
	b.next += n
	return part
}

func (l *Lab) buffer(key bufferKey) (*buffer, error) {
	if b := l.buffers[key]; b != nil {
		return b, nil
	}
	mem, err := timing.Allocate(key.bytes, key.huge)
	if err != nil {
		return nil, err
	}
	b := &buffer{mem: mem}
	l.buffers[key] = b
	return b, nil
}

// Release frees the working sets of so many bytes; probes that read them may not
// run again.
func (l *Lab) Release(bytes int) error {
	var errs []error
	for _, huge := range []bool{true, false} {
		key := bufferKey{bytes, huge}
		if b := l.buffers[key]; b != nil {
			errs = append(errs, b.mem.Close())
			delete(l.buffers, key)
		}
	}
	return errors.Join(errs...)
}
