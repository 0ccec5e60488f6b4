package device

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/spirv/module"
	"github.com/tmacc/tmacc/runtime/device"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// Calibrate measures the speeds of d. What no shader shows is as in like: how many lanes, workgroups and registers a processor
// holds, and lines in proportion to instructions.
func Calibrate(d *vulkan.Device, like spirv.Speeds, o Options) (s spirv.Speeds, err error) {
	m := &measurement{d: d, o: o.full(d)}
	defer m.free()
	if err := m.memory(); err != nil {
		return s, err
	}
	s = like
	s.Devices = []string{d.Name}
	s.Shared, s.Subgroup, s.Groups = d.Limits.Shared, cmp.Or(d.Subgroup.Size, like.Subgroup), max(1, like.Groups)
	for _, measure := range []func(*spirv.Speeds) error{m.bandwidth, m.instructions, m.launches, m.waits, m.matrices} {
		if err := measure(&s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// few is a part of candidates on a software device, which compiles each for long, and for which they differ little.
func (m *measurement) few(all []candidate) []candidate {
	if device.Software(m.d) {
		return all[:min(1, len(all))]
	}
	return all
}

// failed is the error of a rate that nothing has.
func failed(r Rate) error {
	if r.Best > 0 {
		return nil
	}
	return fmt.Errorf("device: %s", cmp.Or(r.Error, "it measures nothing"))
}

func (m *measurement) bandwidth(s *spirv.Speeds) error {
	r := m.best("", 1e9, m.few(m.reads()))
	s.Read = digits(r.Best)
	return failed(r)
}

// instructions measures products and sums of words, one instruction each: of all processors, and of one workgroup, which one
// processor runs.
func (m *measurement) instructions(s *spirv.Speeds) error {
	all := m.best("", 2e9, m.few(m.arithmetic(false)))
	if err := failed(all); err != nil {
		return err
	}
	lanes, alone := min(1024, m.d.Limits.Invocations), *m
	alone.o.Groups = 1
	alone.o.Steps *= 16
	one := alone.best("", 2e9, []candidate{alone.chains(lanes, 8, false)})
	lane := alone.best("", 2e9, []candidate{alone.chains(s.Subgroup, 2, false)})
	dots := m.best("", 8e9, m.few(m.arithmetic(true)))
	s.Dots, s.Lines = digits(dots.Best), digits(s.Lines/s.Instructions*all.Best)
	s.Instructions, s.Processors = digits(all.Best), max(1, int(math.Round(all.Best/one.Best)))
	s.Step = digits(float64(s.Subgroup) / lane.Best)
	return errors.Join(failed(dots), failed(one), failed(lane))
}

// launches measures how long dispatches take, and what one that reads little takes besides.
func (m *measurement) launches(s *spirv.Speeds) error {
	l, err := m.launch()
	if err != nil {
		return err
	}
	small := m.part(little)
	if !(small.GBs > 0) {
		return errors.New("device: it reads nothing")
	}
	s.Launch = digits(l.After)
	s.Start = digits(max(0, little/small.GBs-l.After-little/s.Read))
	return nil
}

// little is the bytes of a read that takes hardly longer than the start.
const little = 2 << 20

// waits measures loads of one subgroup, each at an address that the one before it says.
func (m *measurement) waits(s *spirv.Speeds) error {
	const loads = 512
	step := int(m.o.Bytes) / (4 * wide) / (loads + 1) &^ 63
	p, err := m.d.Pipeline(chase(s.Subgroup), vulkan.Layout{Buffers: 2, PushBytes: 8})
	if err != nil {
		return err
	}
	defer p.Free()
	took := func(n int) (time.Duration, error) {
		return m.timed(&vulkan.Dispatch{Pipeline: p, Groups: [3]int{1, 1, 1}, Buffers: []vulkan.Range{m.from.All(), m.to.All()}, Push: words(n, step)})
	}
	all, err := took(loads)
	if err != nil {
		return err
	}
	half, err := took(loads / 2)
	s.Latency = max(1, digits(float64(all-half)/(loads/2)))
	return err
}

// matrices measures cooperative matrices of bytes, and lists their shapes.
func (m *measurement) matrices(s *spirv.Speeds) error {
	s.Matrices, s.Shapes = 0, nil
	for _, c := range m.d.Cooperative {
		shape := [3]int{c.M, c.N, c.K}
		if c.A != "s8" || !measured(c) || slices.Contains(s.Shapes, shape) {
			continue
		}
		if s.Shapes = append(s.Shapes, shape); s.Matrices == 0 {
			s.Matrices = digits(m.best(kind(c), 1e12, m.few(m.multiplied(kind(c)))).Best)
		}
	}
	return nil
}

// digits is x with four digits: the next ones are of chance.
func digits(x float64) float64 {
	if x <= 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-3)
	return math.Round(math.Round(x/unit)*unit*1e6) / 1e6
}

// chase is a shader whose lanes read elements, each some elements behind the one before it, or one more as the value there says. The push
// constants are how often, and how far.
func chase(local int) []byte {
	s := newLoops(local, 2)
	s.Declare(module.OpMemoryModel, module.AddressingModelLogical, module.MemoryModelGLSL450)
	from, to := s.buffer(0, wide), s.buffer(1, 1)
	_, lane := s.begin()
	step := s.constant(1)
	place := s.repeat(s.constant(0), s.uint, []module.ID{lane}, func(_ module.ID, values []module.ID) []module.ID {
		x := s.Emit(module.OpCompositeExtract, s.uint, s.Emit(module.OpLoad, s.vector(wide), s.at(from, wide, values[0])), 0)
		bit := s.word(module.OpShiftRightLogical, x, s.number(31))
		return []module.ID{s.word(module.OpIAdd, s.word(module.OpBitwiseXor, values[0], bit), step)}
	})
	s.keep(to, place[0], lane)
	return s.end()
}
