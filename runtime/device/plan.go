package device

import (
	"time"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// Plan is products of several matrices of one shape by the same activations, one after the other, that are recorded once. It is for measurements:
// results stay on the device, each over the one before.
type Plan struct {
	sequence *vulkan.Sequence
	act, out *vulkan.Buffer
	sums     *vulkan.Buffer // that workgroups share; nil: none do
	each     int            // dispatches of a product
}

// Plan records the products of all rows of matrices.
func (r *Runner) Plan(matrices []*Matrix, act []byte, runs []abi.Run) (_ *Plan, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := matrices[0].ready()
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	defer func() {
		if err != nil {
			p.Free()
		}
	}()
	if p.act, err = o.d.Buffer(int64(len(act)&^3 + behind)); err != nil {
		return nil, err
	}
	if err := p.act.Upload(0, act); err != nil {
		return nil, err
	}
	var all []vulkan.Command
	var shared sums
	for _, x := range matrices {
		c := &abi.DeviceCall{To: len(x.tiles) / x.tileBytes, Runs: runs}
		if _, err := x.ready(); err != nil {
			return nil, err
		}
		out := x.outputs(c, 0, form{})
		if p.out == nil {
			if p.out, err = o.d.Buffer(int64(out.bytes + behind)); err != nil {
				return nil, err
			}
		}
		commands, err := x.commands(o, out, p.act, p.out, &shared)
		if err != nil {
			return nil, err
		}
		p.each = len(commands)
		all = append(all, commands...)
	}
	if err := shared.place(o.card, &p.sums); err != nil {
		return nil, err
	}
	p.sequence, err = o.d.Record(all, vulkan.RecordOptions{Timed: true})
	return p, err
}

// Run runs the products. It returns how long each took by the clock of the device.
func (p *Plan) Run() ([]time.Duration, error) {
	if err := p.sequence.Run(); err != nil {
		return nil, err
	}
	times, err := p.sequence.Times()
	if err != nil {
		return nil, err
	}
	var each []time.Duration
	for i, t := range times {
		if i%p.each == 0 {
			each = append(each, 0)
		}
		each[len(each)-1] += t
	}
	return each, nil
}

// Free frees what the plan has on the device.
func (p *Plan) Free() {
	if p.sequence != nil {
		p.sequence.Free()
	}
	for _, b := range []*vulkan.Buffer{p.act, p.out, p.sums} {
		if b != nil {
			b.Free()
		}
	}
}
