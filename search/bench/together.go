package bench

import (
	"errors"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// NewGauges makes gauges of this machine, one for each thread that measures at the same time: they share no memory.
func NewGauges(n int) (all []*Gauge, err error) {
	for range n {
		g, err := NewGauge(timing.Options{})
		if err != nil {
			return nil, errors.Join(err, CloseGauges(all))
		}
		all = append(all, g)
	}
	return all, nil
}

// CloseGauges closes gauges and their labs.
func CloseGauges(gauges []*Gauge) error {
	var all error
	for _, g := range gauges {
		all = errors.Join(all, g.Close())
	}
	return all
}

// ReadTogether returns probes of the bandwidth that one thread for each gauge reads with the others, from where a mode reads.
func ReadTogether(gauges []*Gauge, mode string) ([]measure.Probe, error) {
	return together(gauges, func(g *Gauge) ([]measure.Probe, error) { return g.Read(mode, 0) })
}

// DotTogether returns probes of the dot product peak that one thread for each gauge reaches with the others, on a target.
func DotTogether(gauges []*Gauge, t targets.Target) ([]measure.Probe, error) {
	return together(gauges, func(g *Gauge) ([]measure.Probe, error) { return g.Dot(t) })
}

// together joins the best probes of all gauges, then the second ones, and so on.
func together(gauges []*Gauge, probes func(*Gauge) ([]measure.Probe, error)) ([]measure.Probe, error) {
	var each [][]measure.Probe
	for _, g := range gauges {
		p, err := probes(g)
		if err != nil {
			return nil, err
		}
		each = append(each, p)
	}
	if len(each) == 1 {
		return each[0], nil
	}
	var all []measure.Probe
	for i := range each[0] {
		var side []measure.Probe
		for _, p := range each {
			side = append(side, p[i])
		}
		all = append(all, measure.Together(side...))
	}
	return all, nil
}
