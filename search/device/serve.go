package device

import (
	"bytes"
	"encoding/gob"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/device"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/search/worker"
)

// Server implements worker.Vulkan: the program with Vulkan runs it.
type Server struct {
	d    *vulkan.Device
	kept map[string]func() (float64, error) // products that are timed again and again
}

// Open implements worker.Vulkan.
func (s *Server) Open(name string) (*worker.Device, error) {
	d, err := vulkan.Open(vulkan.Options{Device: name})
	if err != nil {
		return nil, err
	}
	s.d = d
	return described(d)
}

// described is what d is.
func described(d *vulkan.Device) (*worker.Device, error) {
	free, err := d.FreeMemory()
	return &worker.Device{Name: d.Name, Type: string(d.Type), Driver: d.Driver, Version: d.Version, Software: device.Software(d),
		Range: d.Limits.Range, Memory: free, Controls: Controls(d), Untested: vulkan.Untested}, err
}

// Here is the device of a name that products of this process share.
func Here(name string) (*worker.Here, error) {
	d, err := device.Shared(name)
	if err != nil {
		return nil, err
	}
	is, err := described(d)
	return &worker.Here{Device: is, Name: name, On: device.Vulkan, ReadGBS: (&Server{d: d}).ReadGBS}, err
}

// Device implements worker.Vulkan.
func (s *Server) Device() (on abi.Device, failed func() error, free func()) {
	one := &device.One{Device: s.d}
	return one, one.Failed, one.Free
}

// Refused implements worker.Vulkan.
func (s *Server) Refused(err error) bool { return errors.As(err, new(*vulkan.Refused)) }

// Lost implements worker.Vulkan.
func (s *Server) Lost() bool { return s.d.Lost() != nil }

// fewest is the fewest products of a sequence: shorter ones tell little.
const fewest = 16

// mostCopies bounds the buffers of copies: some devices have 4096 in all.
const mostCopies = 512

// Timed implements worker.Vulkan. A product that is to be kept stays on the device until the process ends, if that has room for several.
func (s *Server) Timed(spec runtime.Spec, src format.Source, t worker.Timed) (run func() (float64, error), free func(), err error) {
	id, err := identity(spec, t)
	if err != nil {
		return nil, nil, err
	}
	if run, ok := s.kept[id]; ok {
		return run, func() {}, nil
	}
	run, free, err = s.timed(spec, src, t)
	if room, _ := s.d.FreeMemory(); err == nil && t.Keep && room > roomy*int64(t.Total) {
		if s.kept == nil {
			s.kept = map[string]func() (float64, error){}
		}
		s.kept[id], free = run, func() {}
	}
	return run, free, err
}

// roomy is how many times the copies of a product there must be room for if they are kept.
const roomy = 8

// identity is all that decides what a product does on the device, and how long it takes.
func identity(spec runtime.Spec, t worker.Timed) (string, error) {
	spec.Variants = slices.Clone(spec.Variants)
	for i := range spec.Variants {
		spec.Variants[i].Device = nil // which cannot be encoded
	}
	var id bytes.Buffer
	err := gob.NewEncoder(&id).Encode(worker.Timed{Spec: spec, M: t.M, N: t.N, K: t.K, Total: t.Total})
	return id.String(), err
}

func (s *Server) timed(spec runtime.Spec, src format.Source, t worker.Timed) (run func() (float64, error), free func(), err error) {
	x, err := Of(s.d, spec)
	if err != nil {
		return nil, nil, err
	}
	w, err := x.Weights(src, t.M, t.K)
	if err != nil {
		x.Free()
		return nil, nil, err
	}
	p, err := w.planned(t)
	if err != nil {
		w.Free()
		x.Free()
		return nil, nil, err
	}
	run = func() (float64, error) {
		each, err := p.Run()
		if err != nil {
			return 0, err
		}
		return float64(Times{Each: each}.Median().Nanoseconds()), nil
	}
	return run, func() { p.Free(); w.Free(); x.Free() }, nil
}

// planned is products by the copies that t asks for, in turn.
func (w *Weights) planned(t worker.Timed) (*device.Plan, error) {
	if err := w.Copies(min(mostCopies, 1+t.Total/w.Bytes())); err != nil {
		return nil, err
	}
	acts, runs, err := w.given(t.N, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		return nil, err
	}
	matrices := w.copies
	for len(matrices) < fewest {
		matrices = append(matrices[:len(matrices):len(matrices)], w.copies...)
	}
	return w.x.on.Runner.Plan(matrices, acts, runs)
}

// probed are the bytes that ReadGBS reads, of a software device fewer.
const probed, probedSoftware = 1 << 30, 16 << 20

// ReadGBS implements worker.Vulkan.
func (s *Server) ReadGBS() (float64, error) {
	o := Options{Bytes: probed, Rounds: 5}
	if device.Software(s.d) {
		o.Bytes = probedSoftware
	}
	return ReadGBS(s.d, o)
}

// Calibrate implements worker.Vulkan.
func (s *Server) Calibrate(like spirv.Speeds) (*spirv.Speeds, error) {
	o := Options{Rounds: 5}
	if device.Software(s.d) {
		o = Options{Bytes: probedSoftware, Groups: 64, Steps: 64, Rounds: 3}
	}
	measured, err := Calibrate(s.d, like, o)
	return &measured, err
}

// ReadGBS is the best bandwidth of shaders that read or copy memory, and of the device's own copies.
func ReadGBS(d *vulkan.Device, o Options) (float64, error) {
	m := &measurement{d: d, o: o.full(d)}
	defer m.free()
	if err := m.memory(); err != nil {
		return 0, err
	}
	reads, copies := m.reads(), m.copies()
	if device.Software(d) { // which compiles each for long, and they differ little
		reads, copies = reads[:1], copies[:1]
	}
	read, copied := m.best("", 1e9, reads), m.best("", 1e9, copies)
	best := max(read.Best, copied.Best)
	if r, err := m.copyCommand(); err == nil {
		best = max(best, r.Rate)
	}
	if best == 0 {
		return 0, errors.New("device: " + read.Error)
	}
	return best, nil
}
