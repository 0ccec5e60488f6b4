// Package device runs products on devices of Vulkan. Generated packages with shaders use it: Vulkan is the Device of
// their variants.
package device

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops/shaders"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// Vulkan is the Device of variants with shaders: the devices that Vulkan's loader finds.
var Vulkan abi.Device = all{}

type all struct{}

// Open implements abi.Device. Programs share a device for each name, and its pipelines.
func (all) Open(name string, v *abi.Variant, l *format.Layout) (abi.Runner, error) {
	return newRunner(v, l, func() (*card, error) { return shared.get(name) })
}

// One is a device of the caller's, who closes it. Runner is what it has opened last.
type One struct {
	*vulkan.Device
	Runner *Runner

	mu   sync.Mutex
	card *card // nil before the first product
}

// Open implements abi.Device.
func (x *One) Open(_ string, v *abi.Variant, l *format.Layout) (abi.Runner, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.card == nil {
		x.card = newCard(x.Device)
	}
	c := x.card
	r, err := newRunner(v, l, func() (*card, error) { return c, nil })
	if err != nil {
		return nil, c.note(err)
	}
	x.Runner = r
	return r, nil
}

// Failed is the first error that products of x had, of the device or of what it was asked for.
func (x *One) Failed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.card == nil {
		return nil
	}
	x.card.mu.Lock()
	defer x.card.mu.Unlock()
	return x.card.failed
}

// Free frees the pipelines and buffers that products of x have on the device. None of them may be used any more.
func (x *One) Free() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.card != nil {
		x.card.free()
	}
}

// Shared is the device of a name that products share, "" for the one that TMACC_DEVICE names or the preferred one. It is open for the rest of the
// program, or until it is lost.
func Shared(name string) (*vulkan.Device, error) {
	c, err := shared.get(name)
	if err != nil {
		return nil, err
	}
	return c.d, nil
}

// devices are open for the rest of the program, or until they are lost.
type devices struct {
	mu   sync.Mutex
	open map[string]*card
}

var shared = devices{open: map[string]*card{}}

// get is the device of a name. One that is lost, as any product may have found, is opened again.
func (s *devices) get(name string) (*card, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[name]; c != nil {
		if c.d.Lost() == nil {
			return c, nil
		}
		c.d.Close()
		delete(s.open, name)
	}
	d, err := vulkan.Open(vulkan.Options{Device: name})
	if err != nil {
		return nil, err
	}
	c := newCard(d)
	s.open[name] = c
	return c, nil
}

// Runner implements abi.Runner. One call at a time of a product uses the device.
type Runner struct {
	variant *abi.Variant
	layout  *format.Layout
	open    func() (*card, error)

	mu   sync.Mutex // guards what follows, and calls
	last *opened
	made map[made][]abi.Shader // of opened.made
}

// opened is the kernels of a product on an open device.
type opened struct {
	*card
	kernels []kernel
	made    map[made]kernel // those that have been asked for
}

// made is a kernel, by its number, with a form that is made when it is first asked for: most products never have it.
type made struct {
	kernel int
	form
}

// form is what a kernel does besides its product: multiply each block by a matrix of a list, or end in an operator.
type form struct {
	listed bool
	end    abi.Ending
}

func (x form) String() string {
	if x.listed {
		return "for a list of matrices"
	}
	return "that ends in operator " + x.end.Operator
}

// formed is a kernel of a form that has been asked for.
func (o *opened) formed(i int, as form) kernel {
	if as == (form{}) {
		return o.kernels[i]
	}
	return o.made[made{i, as}]
}

// kernel is a shader compiled for a device.
type kernel struct {
	*abi.Shader
	pipeline *vulkan.Pipeline
	without  []string // that the module asks of floats, and the device lacks
	lacks    error    // why the device does not run it, nil: it does
}

func newRunner(v *abi.Variant, l *format.Layout, open func() (*card, error)) (*Runner, error) {
	r := &Runner{variant: v, layout: l, open: open, made: map[made][]abi.Shader{}}
	_, err := r.ready()
	return r, err
}

// ready is the open device with the kernels that it can run. After a loss the device is opened again, and runs the same ones.
func (r *Runner) ready() (*opened, error) {
	c, err := r.open()
	if err != nil {
		return nil, err
	}
	if r.last != nil && r.last.card == c {
		return r.last, nil
	}
	if len(r.variant.Shaders) != len(r.variant.Kernels) {
		return nil, fmt.Errorf("%s: %d shaders of %d kernels", r.variant.Target, len(r.variant.Shaders), len(r.variant.Kernels))
	}
	o := &opened{card: c, made: map[made]kernel{}}
	all := r.variant.Shaders
	if f := r.variant.Fused; f != nil {
		all = append(all[:len(all):len(all)], f.Shaders)
	}
	var lacks error
	runs := 0
	for i, ks := range all {
		x := r.variant.Numbered(i)
		if x.Rows%r.layout.TileM != 0 {
			return nil, fmt.Errorf("kernel %s: %d rows, tiles have %d: bind all rows of a tile inside the groups", x.Name, x.Rows, r.layout.TileM)
		}
		k, err := c.kernel(ks)
		if err == nil && k.lacks != nil && r.last != nil && r.last.kernels[i].lacks == nil {
			err = k.lacks
		}
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", x.Name, err)
		}
		if k.lacks != nil {
			lacks = errors.Join(lacks, fmt.Errorf("kernel %s: %w", x.Name, k.lacks))
		} else if i < len(r.variant.Kernels) {
			runs++
		}
		o.kernels = append(o.kernels, k)
	}
	if runs == 0 {
		return nil, lacks
	}
	r.last = o
	return o, nil
}

// making is a kernel of a form. It is compiled when it is first asked for.
func (r *Runner) making(o *opened, i int, as form) (kernel, error) {
	of := made{i, as}
	if k, ok := o.made[of]; ok {
		return k, k.lacks
	}
	if r.made[of] == nil {
		all, err := r.shaders(i, as)
		if err != nil {
			return kernel{}, fmt.Errorf("device: kernel %s %v: %w", r.variant.Numbered(i).Name, as, err)
		}
		r.made[of] = all
	}
	k, err := o.kernel(r.made[of])
	if err != nil {
		return kernel{}, fmt.Errorf("device: kernel %s %v: %w", r.variant.Numbered(i).Name, as, err)
	}
	if k.lacks != nil {
		k.lacks = fmt.Errorf("device: kernel %s %v: %w", r.variant.Numbered(i).Name, as, k.lacks)
	}
	o.made[of] = k
	return k, k.lacks
}

// shaders makes the shaders of a kernel of a form.
func (r *Runner) shaders(i int, as form) ([]abi.Shader, error) {
	switch v := r.variant; {
	case as.listed && v.Listed != nil:
		return v.Listed(v.Kernels[i].Cols)
	case !as.listed && v.Ended != nil:
		if side := v.Numbered(i).Rows / r.layout.TileM; side > 0 && sides(r)%side != 0 {
			return nil, fmt.Errorf("writes rows twice that others of the product write")
		}
		return v.Ended(i, as.end)
	}
	return nil, errors.New("the product has no shaders of the form")
}

// kernel compiles the first of some shaders that the device can run. One without such a shader says what the device lacks. Other faults of shaders are errors.
func (c *card) kernel(ks []abi.Shader) (kernel, error) {
	var all error
	refused := true
	for i := range ks {
		s := &ks[i]
		if s.Sum != 0 && s.Sum != crc32.ChecksumIEEE(s.Code) {
			return kernel{}, errors.New("the shader is of another package: run tmacc compile again")
		}
		code, without := fitted(s.Code, c.d)
		p, err := c.pipeline(s, code)
		if err == nil {
			return kernel{s, p, without, nil}, nil
		}
		if errors.Is(err, vulkan.ErrLost) {
			return kernel{}, err
		}
		all = errors.Join(all, err)
		refused = refused && errors.As(err, new(*vulkan.Refused))
	}
	if refused && all != nil {
		return kernel{Shader: &ks[0], lacks: all}, nil
	}
	return kernel{}, all
}

// Kernel implements abi.Runner: how large the subgroups are that a kernel asks for.
func (r *Runner) Kernel(i int) (how string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &r.last.kernels[i]
	if k.lacks != nil {
		return "", k.lacks
	}
	if k.Subgroup > 0 {
		how = fmt.Sprintf("in subgroups of %d lanes", k.Subgroup)
	}
	return how, nil
}

// Room implements abi.Runner.
func (r *Runner) Room() (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.ready()
	if err != nil {
		return 0, err
	}
	n, err := o.d.FreeMemory()
	return n + o.spareBytes(), err
}

// String is the name of the device, and its type.
func (r *Runner) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Named(r.last.d)
}

// Differs implements abi.Runner: what the device cannot be asked of floats.
func (r *Runner) Differs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, k := range r.last.kernels {
		all = append(all, k.without...)
	}
	if len(r.variant.Quantizers) > 0 { // float operators run there, too, and ask for all controls
		_, without := fitted(shaders.Find("rmsnorm").Code, r.last.d)
		all = append(all, without...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// Named is the name of a device, and its type.
func Named(d *vulkan.Device) string { return fmt.Sprintf("%s (%s)", d.Name, d.Type) }

// Software says that the CPU does the work of a device.
func Software(d *vulkan.Device) bool { return d.Type == vulkan.Software }
