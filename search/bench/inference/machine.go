package inference

import (
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/timing"
)

// Machines makes the probes of this machine, for several numbers of threads, or of a device.
type Machines struct {
	gauges []*bench.Gauge
	host   string
	device Machine // without gauges
}

// NewDevice measures how fast a device reads memory.
func NewDevice(on *shaders.Here) (*Machines, error) {
	rate, err := on.ReadGBS()
	return &Machines{host: on.String(), device: Machine{ReadGBS: rate}}, err
}

// NewMachines prepares probes of up to a number of threads. They take about 1 GiB of memory for each.
func NewMachines(threads int) (*Machines, error) {
	gauges, err := bench.NewGauges(threads)
	if err != nil {
		return nil, err
	}
	return &Machines{gauges: gauges, host: gauges[0].Lab.Host.String()}, nil
}

// Close frees the probes.
func (m *Machines) Close() error { return bench.CloseGauges(m.gauges) }

// Host is the machine in words.
func (m *Machines) Host() string { return m.host }

// With returns the fastest probes of a number of threads.
func (m *Machines) With(threads int) (Machine, error) {
	if m.gauges == nil {
		return m.device, nil
	}
	best := measure.BestOn(timing.ThisHost(), "")
	if best == nil {
		return Machine{}, measure.ErrNoTarget
	}
	some := m.gauges[:threads]
	read, err := bench.ReadTogether(some, measure.ModeDRAM)
	if err != nil {
		return Machine{}, err
	}
	dot, err := bench.DotTogether(some, best)
	if err != nil {
		return Machine{}, err
	}
	return Machine{Read: read[0], Dot: dot[0]}, nil
}
