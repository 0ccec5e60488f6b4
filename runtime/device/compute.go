package device

import (
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops/shaders"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// memory implements abi.Memory.
type memory struct {
	on *card
	b  *vulkan.Buffer
}

// recording implements abi.Recording.
type recording struct {
	on   *card
	s    *vulkan.Sequence
	sums *vulkan.Buffer // that workgroups share; nil: none do
	left bool           // a run has failed: the contents of sums are unknown
}

// Lists implements abi.Computer.
func (r *Runner) Lists(kernel int) error { return r.makes(kernel, form{listed: true}) }

// Ends implements abi.Computer.
func (r *Runner) Ends(kernel int, by abi.Ending) error { return r.makes(kernel, form{end: by}) }

// makes says why there is no kernel of a form, nil if there is one.
func (r *Runner) makes(kernel int, as form) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.ready()
	if err == nil {
		_, err = r.making(o, kernel, as)
	}
	return err
}

// Operator implements abi.Computer.
func (r *Runner) Operator(name string) *abi.Operator { return shaders.Find(name) }

// card is the open device.
func (r *Runner) card() (*card, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.ready()
	if err != nil {
		return nil, err
	}
	return o.card, nil
}

// Memory implements abi.Computer.
func (r *Runner) Memory(bytes int64) (abi.Memory, error) {
	c, err := r.card()
	if err != nil {
		return nil, err
	}
	if err := c.fits(bytes); err != nil {
		return nil, err
	}
	b, err := c.zeros((bytes+3)&^3 + behind)
	if err != nil {
		return nil, c.note(err)
	}
	return &memory{c, b}, nil
}

// Write implements abi.Memory.
func (m *memory) Write(at int64, data []byte) error { return m.on.noted(m.b.Upload(at, data)) }

// Read implements abi.Memory.
func (m *memory) Read(at int64, data []byte) error { return m.on.noted(m.b.Download(at, data)) }

// Lost implements abi.Memory.
func (m *memory) Lost() bool { return m.on.d.Lost() != nil }

// Free implements abi.Memory.
func (m *memory) Free() { m.b.Free() }

// Free implements abi.Recording.
func (x *recording) Free() {
	x.s.Free()
	if x.sums != nil {
		x.sums.Free()
	}
}

// noted is note of what may be nil.
func (c *card) noted(err error) error {
	if err != nil {
		return c.note(err)
	}
	return nil
}

// Record implements abi.Computer.
func (r *Runner) Record(steps []abi.Step) (abi.Recording, error) {
	c, err := r.card()
	if err != nil {
		return nil, err
	}
	var all []vulkan.Command
	var shared sums
	for _, s := range steps {
		var ds []*vulkan.Dispatch
		switch s := s.(type) {
		case *abi.Multiplying:
			ds, err = c.multiplying(s, &shared)
		case *abi.Operating:
			ds, err = c.operating(s)
		default:
			err = fmt.Errorf("device: a step is a %T", s)
		}
		if err != nil {
			return nil, c.note(err)
		}
		ds[0].Beside = s.RunsBeside() && len(all) > 0
		for _, d := range ds {
			all = append(all, d)
		}
	}
	x := &recording{on: c}
	if err := shared.place(c, &x.sums); err != nil {
		return nil, c.note(err)
	}
	if x.s, err = c.d.Record(all, vulkan.RecordOptions{}); err != nil {
		if x.sums != nil {
			x.sums.Free()
		}
		return nil, c.note(err)
	}
	return x, nil
}

// Run implements abi.Computer.
func (r *Runner) Run(x abi.Recording) error {
	s, ok := x.(*recording)
	if !ok {
		return errors.New("device: a recording of something else")
	}
	if s.left && s.sums != nil {
		if err := zero(s.sums); err != nil {
			return s.on.note(err)
		}
	}
	err := s.s.Run()
	s.left = err != nil
	return s.on.noted(err)
}

// Passing implements abi.Computer.
func (r *Runner) Passing(err error) bool {
	return errors.Is(err, vulkan.ErrLost) || errors.As(err, new(*vulkan.OutOfMemory))
}

// bound is what a shader sees of a place, and where in it the place begins.
func (c *card) bound(p abi.Place) (r vulkan.Range, at int, err error) {
	m, ok := p.Memory.(*memory)
	if !ok || m.on != c {
		return r, 0, errors.New("device: a place that is in no memory of this device")
	}
	begin := p.At &^ (c.d.Limits.RangeAlignment - 1)
	r = vulkan.Range{Buffer: m.b, Offset: begin, Size: min(p.At-begin+p.Bytes+behind, m.b.Size()-begin) &^ 3}
	if p.At < 0 || p.Bytes < 0 || p.At+p.Bytes > m.b.Size() || r.Size > c.d.Limits.Range {
		return r, 0, fmt.Errorf("device: %d bytes at %d of a memory of %d: %s sees at most %d at once", p.Bytes, p.At, m.b.Size(), c.d.Name, c.d.Limits.Range)
	}
	return r, int(p.At - begin), nil
}

// multiplying is a product as dispatches. Tiles that a kernel takes at once are whole, so that the last rows of one may be written again by the next.
func (c *card) multiplying(s *abi.Multiplying, shared *sums) (all []*vulkan.Dispatch, err error) {
	x, ok := s.Matrix.(*Matrix)
	act, isAct := s.Act.Memory.(*memory)
	out, isOut := s.Out.Memory.(*memory)
	if !ok || !isAct || !isOut {
		return nil, errors.New("device: a product of things that are not on the device")
	}
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	o, err := x.ready()
	if err != nil {
		return nil, err
	}
	if o.card != c || act.on != c || out.on != c {
		return nil, errors.New("device: a product of matrices, activations and results on several devices")
	}
	list, err := c.listed(x, o, s)
	if err != nil {
		return nil, err
	}
	tile := x.r.layout.TileM
	inputs, err := c.ended(x, o, s)
	if err != nil {
		return nil, err
	}
	call := abi.DeviceCall{To: len(x.tiles) / x.tileBytes, Runs: s.Runs}
	for _, p := range x.outputs(&call, s.Column, form{list.Buffer != nil, s.End}).calls {
		k := x.r.variant.Numbered(p.run.Kernel)
		first := p.column*s.Column + 4*p.from*tile
		if end := first + p.bytes(k); 4*(p.from*tile+p.rows) > s.Column || int64(end) > s.Out.Bytes {
			return nil, fmt.Errorf("device: %d columns of rows %d and the next %d are written into %d bytes, %d for a column", p.blocks*k.Cols, p.from*tile, p.rows, s.Out.Bytes, s.Column)
		}
		for _, in := range inputs {
			from := 4*p.from*tile + p.column*in.row
			if end := int64(from + (k.Cols*p.blocks-1)*in.row + 4*p.rows); end > in.bytes {
				return nil, fmt.Errorf("device: a product of %d bytes ends in an operator whose input has %d", end, in.bytes)
			}
			in.at += from
			p.inputs = append(p.inputs, in)
		}
		p.list, p.listAt = list.Range, list.at+4*p.block
		p.act, p.at = p.act+int(s.Act.At), int(s.Out.At)+first
		d, err := x.dispatch(o, &p, act.b, out.b, shared)
		if err != nil {
			return nil, err
		}
		d.Beside = len(all) > 0 && (k.Rows <= tile || p.from == 0)
		all = append(all, d)
	}
	return all, nil
}

// ended is the other inputs of the operator that a product ends in, none if it ends in none.
func (c *card) ended(x *Matrix, o *opened, s *abi.Multiplying) (all []input, err error) {
	if s.End == (abi.Ending{}) {
		return nil, nil
	}
	for _, run := range s.Runs {
		if _, err := x.r.making(o, run.Kernel, form{end: s.End}); err != nil {
			return nil, err
		}
	}
	for _, t := range s.Inputs {
		in := input{row: t.Row, bytes: t.Bytes}
		if in.Range, in.at, err = c.bound(t.Place); err != nil {
			return nil, err
		}
		all = append(all, in)
	}
	return all, nil
}

// listed is the list of a product of blocks by a matrix each, nothing if it has none.
func (c *card) listed(x *Matrix, o *opened, s *abi.Multiplying) (l struct {
	vulkan.Range
	at int
}, err error) {
	if s.List.Memory == nil {
		return l, nil
	}
	if x.stack == nil || x.number != 0 || len(s.Runs) != 1 {
		return l, errors.New("device: a product by a list of matrices that are no stack, or by several kernels")
	}
	if _, err := x.r.making(o, s.Runs[0].Kernel, form{listed: true}); err != nil {
		return l, err
	}
	l.Range, l.at, err = c.bound(s.List)
	return l, err
}

// operating is calls of an operator as a dispatch.
func (c *card) operating(s *abi.Operating) ([]*vulkan.Dispatch, error) {
	k, err := c.operator(s.Operator)
	if err != nil {
		return nil, err
	}
	call := abi.OperatorCall{Sizes: s.Sizes, Calls: s.Calls}
	d := &vulkan.Dispatch{Pipeline: k}
	for _, t := range s.Tensors {
		b, at, err := c.bound(t.Place)
		if err != nil {
			return nil, fmt.Errorf("operator %s: %w", s.Operator.Name, err)
		}
		d.Buffers = append(d.Buffers, b)
		call.Tensors = append(call.Tensors, abi.OperatorPlace{Offset: at, Row: t.Row, Steps: t.Steps})
	}
	d.Push, d.Groups, err = s.Operator.Words(&call)
	return []*vulkan.Dispatch{d}, err
}

// operator is the pipeline of an operator.
func (c *card) operator(of *abi.Operator) (*vulkan.Pipeline, error) {
	c.mu.Lock()
	p := c.operators[of]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	k, err := c.kernel([]abi.Shader{{Code: of.Code, Params: make([]int, len(of.Push)), Buffers: make([]int, len(of.Tensors))}})
	if err != nil {
		return nil, fmt.Errorf("operator %s: %w", of.Name, err)
	}
	c.mu.Lock()
	c.operators[of] = k.pipeline
	c.mu.Unlock()
	return k.pipeline, nil
}
