package model

import (
	"slices"

	"github.com/tmacc/tmacc/runtime/abi"
)

// list is steps in the making, of some rows: all, but in the last layer those that are wanted. The first error stays.
type list struct {
	*layout
	span
	sequences []sequence
	steps     []abi.Step
	err       error
}

func (s *list) add(x abi.Step) { s.steps = append(s.steps, x) }

// place is a region from a number of bytes on.
func (s *list) place(r region, from int) abi.Place {
	memory := s.work
	if r.kept {
		memory = s.kept.memory
	}
	return abi.Place{Memory: memory, At: r.at + int64(from), Bytes: r.bytes - int64(from)}
}

// tensor is a tensor of an operator by its name.
type tensorAt struct {
	name string
	abi.Tensor
}

// at is a tensor in a region, which moves by steps from one call to the next.
func (s *list) at(name string, r region, from int, steps ...int) tensorAt {
	return tensorAt{name, abi.Tensor{Place: s.place(r, from), Steps: steps}}
}

// each is the rows of s in a region, for calls along rows, or what all rows share.
func (s *list) each(name string, r region) tensorAt { return s.at(name, r, s.first*r.row, r.row) }

// rowsOf is t with rows some bytes apart.
func (t tensorAt) rowsOf(bytes int) tensorAt {
	t.Row = bytes
	return t
}

// operator adds calls of an operator.
func (s *list) operator(beside bool, name string, sizes map[string]int, calls []int, tensors ...tensorAt) {
	of := s.on.Operator(name)
	if of == nil {
		s.fail(missing(name))
		return
	}
	s.calls(beside, of, sizes, calls, tensors...)
}

func (s *list) calls(beside bool, of *abi.Operator, sizes map[string]int, calls []int, tensors ...tensorAt) {
	x := &abi.Operating{Beside: beside, Operator: of, Sizes: sizes, Calls: calls, Tensors: make([]abi.Tensor, len(of.Tensors))}
	for i, t := range of.Tensors {
		n := slices.IndexFunc(tensors, func(have tensorAt) bool { return have.name == t.Name })
		if n < 0 {
			s.fail(missing(of.Name + " without a tensor " + t.Name))
			return
		}
		x.Tensors[i] = tensors[n].Tensor
	}
	s.add(x)
}

func (s *list) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// norm adds the norms of rows of k elements.
func (s *list) norm(out, x region, weights []float32, k int) {
	s.normTo(s.each("out", out), x, weights, k)
}

func (s *list) normTo(out tensorAt, x region, weights []float32, k int) {
	s.operator(false, "rmsnorm", map[string]int{"K": k}, []int{s.span.n}, append(s.weighted(weights, k), s.each("x", x), out)...)
}

// weighted is what norms of k elements read besides.
func (s *list) weighted(weights []float32, k int) []tensorAt {
	return []tensorAt{s.at("w", s.kept.vectors[&weights[0]], 0), s.at("share", s.kept.numbers[share(k)], 0), s.at("eps", s.kept.numbers[s.m.config.Epsilon], 0)}
}

// biased is the product by a matrix, plus a bias unless that is nil.
func (s *list) biased(x *matrix, bias []float32, out region) target {
	t := target{x: x, out: out}
	if bias != nil {
		t.end = &ending{Ending: abi.Ending{Operator: "add", Product: "x"}, other: "y", from: s.kept.vectors[&bias[0]], to: out}
	}
	return t
}

// target is a matrix, where its product goes, and the operator that it ends in; nil: none.
type target struct {
	x   *matrix
	out region
	end *ending
}

// ending is an operator of a product and another vector for each row. Only what it makes is used any more.
type ending struct {
	abi.Ending
	other    string // the name of its other input
	from, to region
	done     bool // by the kernel of the product
}

// multiply adds the products of matrices by the activations in a region, each times the scale of its matrix, and the operators that they end in: where kernels can, in one dispatch.
func (s *list) multiply(in region, all ...target) {
	s.products(in, slices.Clone(all))
	beside := false
	for _, t := range all {
		if e := t.end; e != nil && !e.done {
			s.operator(beside, e.Operator, map[string]int{"K": t.x.m}, []int{s.span.n}, s.each(e.Product, t.out), s.each(e.other, e.from), s.each("out", e.to))
			beside = true
		}
	}
}

// products is multiply without what kernels cannot make of products.
func (s *list) products(in region, all []target) {
	all = slices.DeleteFunc(all, func(t target) bool {
		if t.x.packed == nil {
			s.multiplyFloats(in, t)
		}
		return t.x.packed == nil
	})
	if s.multiplyAsFloats(in, all) {
		s.scale(all)
		return
	}
	var prepared []*actLayout
	for _, t := range all {
		if act := s.actOf(t.x, s.span.n); !slices.Contains(prepared, act) {
			s.quantize(len(prepared) > 0, in, act)
			prepared = append(prepared, act)
		}
	}
	for i, t := range all {
		x := &abi.Multiplying{Beside: i > 0, Matrix: t.x.packed.Loaded(), Act: s.place(s.actOf(t.x, s.span.n).region, 0)}
		for _, b := range s.layout.steps(t.x, s.span.n).Blocks {
			x.Runs = append(x.Runs, b.Run)
		}
		s.result(x, t, all[:i])
		s.add(x)
	}
	s.scale(all)
}

// multiplyAsFloats adds the products of matrices by one row as it is, if that is predicted to be faster than preparing it for all of them.
func (s *list) multiplyAsFloats(in region, all []target) bool {
	rows := 0
	for _, t := range all {
		rows += t.x.m
	}
	var steps []*abi.Multiplying
	for i, t := range all {
		run, ok := t.x.packed.Product().StepFloats(rows, t.x.k)
		if !ok || s.span.n != 1 || run.Bytes > in.row && !(in.zeros && int64(run.Bytes) <= in.bytes) {
			return false
		}
		steps = append(steps, &abi.Multiplying{Beside: i > 0, Matrix: t.x.packed.Loaded(), Act: s.place(in, s.first*in.row), Runs: []abi.Run{run}})
	}
	for i, t := range all {
		s.result(steps[i], t, all[:i])
		s.add(steps[i])
	}
	return len(all) > 0
}

// result says where a product goes, and lets it end in the operator of t if its kernels can. It does not run beside products that the operator reads.
func (s *list) result(x *abi.Multiplying, t target, before []target) {
	out := t.out
	if e := t.end; e != nil && s.ends(x, t) {
		out, e.done = e.to, true
		x.Beside = x.Beside && !slices.ContainsFunc(before, func(b target) bool { return b.out == e.from })
		x.End, x.Inputs = e.Ending, []abi.Tensor{{Place: s.place(e.from, s.first*e.from.row), Row: e.from.row}}
	}
	x.Out, x.Column = s.place(out, s.first*out.row), out.row
}

// ends says that the kernels of a product can end in the operator of t, and that there is room for whole tiles and blocks in what they read and write.
func (s *list) ends(x *abi.Multiplying, t target) bool {
	steps := s.layout.steps(t.x, s.span.n)
	rows := (t.x.m + steps.Whole - 1) / steps.Whole * steps.Whole
	room := func(r region) bool {
		return r.row == 0 && int64(4*rows) <= r.bytes || 4*rows <= r.row && int64((s.first+steps.Columns)*r.row) <= r.bytes
	}
	if t.x.packed.Scale() != 1 || !room(t.end.from) || !room(t.end.to) {
		return false
	}
	var all []ended
	for _, run := range x.Runs {
		of := ended{t.x.packed.Product(), run.Kernel, t.end.Ending}
		why, known := s.cannotEnd[of]
		if !known {
			why = steps.On.Ends(of.kernel, of.Ending)
			s.cannotEnd[of] = why
		}
		if why != nil {
			return false
		}
		all = append(all, of)
	}
	for _, of := range all {
		s.layout.ended[of] = true
	}
	return true
}

// scale multiplies products by the scales of their matrices.
func (s *list) scale(all []target) {
	beside := false
	for _, t := range all {
		if scale := t.x.packed.Scale(); scale != 1 {
			s.operator(beside, "scale", map[string]int{"K": t.x.m}, []int{s.span.n}, s.each("x", t.out), s.at("by", s.kept.numbers[scale], 0), s.each("out", t.out))
			beside = true
		}
	}
}

// quantize adds the preparation of activations.
func (s *list) quantize(beside bool, in region, act *actLayout) {
	row := s.first
	for _, b := range s.layout.steps(act.of.x, s.span.n).Blocks {
		calls := []int{b.Cols, b.Blocks}
		if b.Rows < b.Cols {
			calls = []int{b.Rows}
		}
		s.calls(beside, b.Quantizer, map[string]int{"K": act.of.x.k}, calls, s.at("x", in, row*in.row, in.row, b.Cols*in.row),
			s.at("act", act.region, b.At, b.Chunk, b.Bytes), s.at("sums", act.region, b.At+b.Sums, 4, b.Bytes), s.at("ascale", act.region, b.At+b.Scales, 4, b.Bytes))
		row, beside = row+b.Rows, true
	}
}

// record records a step of sequences.
func (r *resident) record(at *layout, sequences []sequence) (abi.Recording, error) {
	m, s := r.m, &list{layout: at, span: span{0, at.n}, sequences: sequences}
	s.norm(s.normed, s.hidden, m.layers[0].vectors[attentionNorm], m.config.Embedding)
	for i := range m.layers {
		s.project(i)
		if s.span.n == 0 {
			break
		}
		s.attend(i)
		s.feed(i)
	}
	if s.wanted.n > 0 && s.head {
		s.span = span{0, s.wanted.n}
		s.multiply(s.last, target{x: m.head, out: s.logits})
	}
	if s.err != nil {
		return nil, s.err
	}
	return r.on.Record(s.steps)
}

// mix adds the product that a part of a layer ends in to the hidden state, with its bias, and normed if it has a norm for it.
func (s *list) mix(in region, x *matrix, bias, ends []float32) {
	t := s.biased(x, bias, s.mixed)
	plain := t.end == nil && ends == nil
	if plain {
		t.end = &ending{Ending: abi.Ending{Operator: "add", Product: "y"}, other: "x", from: s.hidden, to: s.hidden}
	}
	if s.multiply(in, t); !plain {
		s.residual(ends)
	}
}

// residual adds what a part of a layer has computed to the hidden state, normed if it has a norm for it.
func (s *list) residual(ends []float32) {
	n, mixed := s.m.config.Embedding, s.mixed
	if ends != nil {
		s.norm(s.mixed2, mixed, ends, n)
		mixed = s.mixed2
	}
	s.operator(false, "add", map[string]int{"K": n}, []int{s.span.n}, s.each("x", s.hidden), s.each("y", mixed), s.each("out", s.hidden))
}

// feed adds the feed-forward part of a layer, and the norm of what comes next.
func (s *list) feed(layer int) {
	x := &s.m.layers[layer]
	if s.m.config.Experts.Count > 0 {
		s.feedExperts(layer)
		s.residual(x.vectors[feedEndNorm])
	} else {
		s.mix(s.network(x, gateWeights, upWeights), x.matrices[downWeights], nil, x.vectors[feedEndNorm])
	}
	if layer+1 < len(s.m.layers) {
		s.norm(s.normed, s.hidden, s.m.layers[layer+1].vectors[attentionNorm], s.m.config.Embedding)
	} else if s.wanted.n > 0 {
		s.normTo(s.at("out", s.last, 0, s.last.row), s.hidden, s.m.outputNorm, s.m.config.Embedding)
	}
}

// network adds a network that all positions have, up to what its last matrix multiplies.
func (s *list) network(x *layer, gate, up role) region {
	n := s.m.config.width()
	end := &ending{Ending: abi.Ending{Operator: s.m.row.gate.operator, Product: "up"}, other: "gate", from: s.gates, to: s.gated}
	s.multiply(s.normed, target{x: x.matrices[gate], out: s.gates}, target{x.matrices[up], s.ups, end})
	if weights := x.vectors[gatedNorm]; weights != nil {
		s.norm(s.gated2, s.gated, weights, n)
		return s.gated2
	}
	return s.gated
}
