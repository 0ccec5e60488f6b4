// Package device runs products on devices of Vulkan. Generated packages with shaders use it: Vulkan is the Device of
// their variants.
package device

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// Vulkan is the Device of variants with shaders: the devices that Vulkan's loader finds.
var Vulkan abi.Device = all{}

type all struct{}

// Open implements abi.Device. Programs share a device for each name.
func (all) Open(name string, v *abi.Variant, l *format.Layout) (abi.Runner, error) {
	r := &Runner{variant: v, layout: l, open: func(lost *vulkan.Device) (*vulkan.Device, error) { return shared.get(name, lost) }}
	if _, err := r.ready(); err != nil {
		return nil, err
	}
	return r, nil
}

// One is a device of the caller's, who closes it. Runner is what it has opened last.
type One struct {
	*vulkan.Device
	Runner *Runner
}

// Open implements abi.Device.
func (x *One) Open(_ string, v *abi.Variant, l *format.Layout) (abi.Runner, error) {
	r := &Runner{variant: v, layout: l, open: func(*vulkan.Device) (*vulkan.Device, error) { return x.Device, nil }}
	if _, err := r.ready(); err != nil {
		return nil, err
	}
	x.Runner = r
	return r, nil
}

// Shared is the device of a name that products share, "" for the one that TMACC_DEVICE names or the preferred one. It is open for the rest of the
// program, or until it is lost.
func Shared(name string) (*vulkan.Device, error) { return shared.get(name, nil) }

// devices are open for the rest of the program, or until they are lost.
type devices struct {
	mu   sync.Mutex
	open map[string]*vulkan.Device
}

var shared = devices{open: map[string]*vulkan.Device{}}

// get is the device of a name. If it is the one that was lost, it is opened again.
func (s *devices) get(name string, lost *vulkan.Device) (*vulkan.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.open[name]; d != nil && d != lost {
		return d, nil
	}
	if lost != nil {
		lost.Close()
	}
	delete(s.open, name)
	d, err := vulkan.Open(vulkan.Options{Device: name})
	if err != nil {
		return nil, err
	}
	s.open[name] = d
	return d, nil
}

// Runner implements abi.Runner. One call at a time uses the device.
type Runner struct {
	variant *abi.Variant
	layout  *format.Layout
	open    func(lost *vulkan.Device) (*vulkan.Device, error)

	mu   sync.Mutex // guards what follows, and calls
	last *opened
}

// opened is what lives and dies with an open device.
type opened struct {
	d        *vulkan.Device
	kernels  []kernel
	act, out *vulkan.Buffer // that grow with calls
	lost     bool
}

// kernel is a shader compiled for a device.
type kernel struct {
	*abi.Shader
	pipeline *vulkan.Pipeline
}

// ready is the open device with its pipelines. After a loss, of this runner or of another, the device is opened again.
func (r *Runner) ready() (*opened, error) {
	var lost *vulkan.Device
	if r.last != nil && r.last.lost {
		lost = r.last.d
	}
	d, err := r.open(lost)
	if err != nil {
		return nil, err
	}
	if r.last != nil && r.last.d == d {
		return r.last, nil
	}
	o := &opened{d: d}
	if len(r.variant.Shaders) != len(r.variant.Kernels) {
		return nil, fmt.Errorf("%s: %d shaders of %d kernels", r.variant.Target, len(r.variant.Shaders), len(r.variant.Kernels))
	}
	for i, ks := range r.variant.Shaders {
		x := &r.variant.Kernels[i]
		if x.Rows%r.layout.TileM != 0 {
			return nil, fmt.Errorf("kernel %s: %d rows, tiles have %d: bind all rows of a tile inside the groups", x.Name, x.Rows, r.layout.TileM)
		}
		k, err := pipeline(d, ks)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", x.Name, err)
		}
		o.kernels = append(o.kernels, k)
	}
	r.last = o
	return o, nil
}

// pipeline compiles the first of some shaders that d can run.
func pipeline(d *vulkan.Device, ks []abi.Shader) (kernel, error) {
	var all error
	for i := range ks {
		s := &ks[i]
		if s.Sum != 0 && s.Sum != crc32.ChecksumIEEE(s.Code) {
			return kernel{}, errors.New("the shader is of another package: run tmacc compile again")
		}
		p, err := d.Pipeline(fitted(s.Code, d), vulkan.Layout{Buffers: len(s.Buffers), PushBytes: 4 * len(s.Params), Subgroup: s.Subgroup, FullSubgroups: s.Subgroup > 0})
		if err == nil {
			return kernel{s, p}, nil
		}
		all = errors.Join(all, err)
	}
	return kernel{}, all
}

// Room implements abi.Runner.
func (r *Runner) Room() (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.ready()
	if err != nil {
		return 0, err
	}
	return o.d.FreeMemory()
}

// String is the name of the device, and its type.
func (r *Runner) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Named(r.last.d)
}

// Named is the name of a device, and its type.
func Named(d *vulkan.Device) string { return fmt.Sprintf("%s (%s)", d.Name, d.Type) }

// Software says that the CPU does the work of a device.
func Software(d *vulkan.Device) bool { return d.Type == vulkan.Software }

// note remembers that the device was lost.
func (o *opened) note(err error) error {
	if errors.Is(err, vulkan.ErrLost) {
		o.lost = true
	}
	return err
}

// grow makes b have room for a number of bytes.
func (o *opened) grow(b **vulkan.Buffer, bytes int) error {
	if *b != nil && (*b).Size() >= int64(bytes) {
		return nil
	}
	if *b != nil {
		(*b).Free()
		*b = nil
	}
	var err error
	*b, err = o.d.Buffer(int64(bytes))
	return err
}
