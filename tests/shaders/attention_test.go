package shaders

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/runtime/ops/shaders"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// The attention that TestAttention computes: the queries of two positions, of two heads for each head of keys.
const (
	size, kvHeads, group = 64, 2, 2
	tokens, first        = 2, 97 // positions whose queries are computed, and the first of them
	rows                 = tokens * group
	blocks               = (first + tokens + ops.Block - 1) / ops.Block
)

// TestAttention computes attention over pages of a cache by the operators' shaders, with one dispatch for all heads, blocks and panels, and by package runtime/ops.
func TestAttention(t *testing.T) {
	for _, e := range []ops.Elem{ops.F32, ops.F16, ops.I8} {
		t.Run(e.String(), func(t *testing.T) {
			a := newAttention(e)
			want := a.onCPU()
			m := &memory{t: t, d: Device(t), buffers: map[string]*vulkan.Buffer{}}
			defer m.free()
			have := m.floats(a.onDevice(m))
			for i, v := range want {
				if math.Float32bits(have[i]) != math.Float32bits(v) {
					t.Fatalf("element %d is %v, want %v", i, have[i], v)
				}
			}
		})
	}
}

// attended is a cache and queries: pages [block][head] of keys [2 halves][size][32], of values [size/32][64][32], and of the scales of both if elements are integers.
type attended struct {
	elem                             ops.Elem
	half, keys, panel, scales, bytes int // of half of a head's keys, of its keys, of a panel of values, of its scales, of a head
	pages                            []byte
	queries                          []float32 // [head][row][size]
	first, end                       []int32   // [block][head][row]
}

func newAttention(e ops.Elem) *attended {
	rng := rand.New(rand.NewSource(3))
	a := &attended{elem: e, half: size * ops.Panel * e.Bytes(), panel: ops.Block * ops.Panel * e.Bytes()}
	a.keys = 2 * a.half
	if e == ops.I8 {
		a.scales = 4 * ops.Block
	}
	a.bytes = a.keys + size/ops.Panel*a.panel + 2*a.scales
	a.pages = make([]byte, blocks*kvHeads*a.bytes)
	for at := range first + tokens {
		for head := range kvHeads {
			a.store(rng, at, head)
		}
	}
	for range kvHeads * rows * size {
		a.queries = append(a.queries, float32(rng.NormFloat64()))
	}
	for block := range blocks {
		for i := range kvHeads * rows {
			at := first + i%rows/group - block*ops.Block
			a.first, a.end = append(a.first, 0), append(a.end, int32(min(at+1, ops.Block)))
		}
	}
	return a
}

// head is the memory of a head in a page.
func (a *attended) head(block, head int) []byte {
	return a.pages[(block*kvHeads+head)*a.bytes:][:a.bytes]
}

// store writes random keys and values of a position.
func (a *attended) store(rng *rand.Rand, at, head int) {
	page, at := a.head(at/ops.Block, head), at%ops.Block
	key, value := make([]float32, size), make([]float32, size)
	for i := range key {
		key[i], value[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
	}
	panel := page[at/ops.Panel*a.half:]
	for i := range size / ops.Panel {
		row, to := value[i*ops.Panel:][:ops.Panel], page[a.keys+i*a.panel+at*ops.Panel*a.elem.Bytes():]
		if a.elem != ops.I8 {
			ops.StoreRow(to, a.elem, row)
			continue
		}
		scale := ops.Quantize(to[:ops.Panel], row)
		binary.LittleEndian.PutUint32(page[a.bytes-a.scales+4*at:], math.Float32bits(scale)) // one of both panels' will do
	}
	if a.elem != ops.I8 {
		ops.StoreK(panel, a.elem, key, at%ops.Panel)
		return
	}
	codes := make([]byte, size)
	binary.LittleEndian.PutUint32(page[a.bytes-2*a.scales+4*at:], math.Float32bits(ops.Quantize(codes, key)))
	ops.StoreLane(panel, codes, at%ops.Panel)
}

const attentionScale = 0.125

// onCPU computes block by block, as a model does.
func (a *attended) onCPU() (all []float32) {
	for head := range kvHeads {
		var o, top, total []float32
		for block := range blocks {
			page, s := a.head(block, head), make([]float32, rows*ops.Block)
			for half := range 2 {
				ops.Matmul(s[half*ops.Panel:], ops.Block, a.queries[head*rows*size:], size, rows, page[half*a.half:], a.elem, size)
			}
			a.scale(s, page[a.bytes-2*a.scales:])
			m, l, out := make([]float32, rows), make([]float32, rows), make([]float32, rows*size)
			i := (block*kvHeads + head) * rows
			ops.Softmax(s, rows, attentionScale, a.first[i:][:rows], a.end[i:][:rows], m, l)
			a.scale(s, page[a.bytes-a.scales:])
			for i := range size / ops.Panel {
				ops.Matmul(out[i*ops.Panel:], size, s, ops.Block, rows, page[a.keys+i*a.panel:], a.elem, ops.Block)
			}
			if block == 0 {
				o, top, total = out, m, l
			} else {
				ops.Merge(o, top, total, out, m, l, rows, size)
			}
		}
		ops.Finish(o, total, rows, size)
		all = append(all, o...)
	}
	return all
}

func (a *attended) scale(s []float32, scales []byte) {
	if a.scales == 0 {
		return
	}
	of := make([]float32, ops.Block)
	ops.LoadRow(of, scales, ops.F32)
	for r := range rows {
		ops.Mul(s[r*ops.Block:][:ops.Block], s[r*ops.Block:][:ops.Block], of)
	}
}

// onDevice is the name of the buffer with the result. Scores become exponentials in their place, and outputs are divided in theirs.
func (a *attended) onDevice(m *memory) string {
	const all, row = blocks * kvHeads * rows, 4 * ops.Block // rows of all blocks, and bytes of a row of scores
	m.upload("pages", a.pages)
	m.upload("q", words(a.queries))
	m.upload("first", words(a.first))
	m.upload("end", words(a.end))
	m.upload("scale", words([]float32{attentionScale}))
	for name, bytes := range map[string]int{"s": all * row, "m": 4 * all, "l": 4 * all, "out": all * 4 * size} {
		m.upload(name, make([]byte, bytes))
	}
	at := func(buffer string, offset, row int, steps ...int) where {
		return where{buffer, abi.OperatorPlace{Offset: offset, Row: row, Steps: steps}}
	}
	type is = map[string]where
	matmul := fmt.Sprintf("matmul_%s_%d", map[ops.Elem]string{ops.F32: "f32", ops.F16: "f16", ops.I8: "i8"}[a.elem], rows)
	m.run(matmul, map[string]int{"K": size}, []int{2, kvHeads, blocks}, is{
		"a":   at("q", 0, 4*size, 0, rows*4*size, 0),
		"b":   at("pages", 0, 0, a.half, a.bytes, kvHeads*a.bytes),
		"out": at("s", 0, row, 4*ops.Panel, rows*row, kvHeads*rows*row)})
	scale := func(from int) {
		if a.scales > 0 {
			m.run("mul", map[string]int{"K": ops.Block}, []int{rows, blocks * kvHeads}, is{
				"x": at("s", 0, 0, row, rows*row), "y": at("pages", from, 0, 0, a.bytes), "out": at("s", 0, 0, row, rows*row)})
		}
	}
	scale(a.bytes - 2*a.scales)
	m.run("softmax", map[string]int{"R": all}, nil, is{"s": at("s", 0, 0), "scale": at("scale", 0, 0), "first": at("first", 0, 0), "end": at("end", 0, 0),
		"e": at("s", 0, 0), "top1": at("m", 0, 0), "total1": at("l", 0, 0)})
	scale(a.bytes - a.scales)
	m.run(matmul, map[string]int{"K": ops.Block}, []int{size / ops.Panel, kvHeads, blocks}, is{
		"a":   at("s", 0, row, 0, rows*row, kvHeads*rows*row),
		"b":   at("pages", a.keys, 0, a.panel, a.bytes, kvHeads*a.bytes),
		"out": at("out", 0, 4*size, 4*ops.Panel, rows*4*size, kvHeads*rows*4*size)})
	o, top, total, next := "out", "m", "l", kvHeads*rows
	for block := 1; block < blocks; block++ { // each to memory of its own: no call reads what it writes
		to := fmt.Sprint(block)
		m.upload("o"+to, make([]byte, 4*size*next))
		m.upload("m"+to, make([]byte, 4*next))
		m.upload("l"+to, make([]byte, 4*next))
		m.run("merge", map[string]int{"R": next, "D": size}, nil, is{
			"o": at(o, 0, 4*size), "m": at(top, 0, 0), "l": at(total, 0, 0),
			"o2": at("out", block*next*4*size, 4*size), "m2": at("m", block*next*4, 0), "l2": at("l", block*next*4, 0),
			"out": at("o"+to, 0, 4*size), "top": at("m"+to, 0, 0), "total": at("l"+to, 0, 0)})
		o, top, total = "o"+to, "m"+to, "l"+to
	}
	m.run("finish", map[string]int{"R": next, "D": size}, nil, is{"o": at(o, 0, 4*size), "l": at(total, 0, 0), "out": at(o, 0, 4*size)})
	return o
}

// words are the bytes of numbers of 32 bits.
func words[T float32 | int32](x []T) (out []byte) {
	for _, v := range x {
		bits := uint32(int32(v))
		if f, ok := any(v).(float32); ok {
			bits = math.Float32bits(f)
		}
		out = binary.LittleEndian.AppendUint32(out, bits)
	}
	return out
}

// memory is buffers of a device, by name.
type memory struct {
	t       *testing.T
	d       *vulkan.Device
	buffers map[string]*vulkan.Buffer
}

// where is a tensor in a buffer.
type where struct {
	buffer string
	abi.OperatorPlace
}

func (m *memory) upload(name string, data []byte) {
	m.t.Helper()
	b, err := m.d.Buffer(int64(len(data)&^3 + 8))
	if err == nil {
		err = b.Upload(0, data)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.buffers[name] = b
}

// run makes calls of an operator.
func (m *memory) run(name string, sizes map[string]int, calls []int, tensors map[string]where) {
	m.t.Helper()
	x, o := shaders.Find(name), *operator.Find(name)
	c := &abi.OperatorCall{Sizes: sizes, Calls: calls}
	var buffers []*vulkan.Buffer
	for _, t := range x.Tensors {
		buffers, c.Tensors = append(buffers, m.buffers[tensors[t.Name].buffer]), append(c.Tensors, tensors[t.Name].OperatorPlace)
	}
	if slices.Contains(buffers, nil) || len(tensors) != len(x.Tensors) {
		m.t.Fatalf("%s wants the tensors %v", name, x.Tensors)
	}
	push, groups, err := x.Words(c)
	if err != nil {
		m.t.Fatal(err)
	}
	trace, err := operators.ShadedOperator{Name: name, Operator: o}.Trace()
	if err != nil {
		m.t.Fatal(err)
	}
	_, _, sh, err := operatorOf(o, trace, Controls(m.d)) // without what the device lacks
	if err != nil {
		m.t.Fatal(err)
	}
	p, err := m.d.Pipeline(sh.Binary(), vulkan.Layout{Buffers: len(buffers), PushBytes: len(push)})
	if err == nil {
		defer p.Free()
		err = m.d.Run(p, groups, buffers, push)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *memory) floats(name string) (out []float32) {
	m.t.Helper()
	data := make([]byte, m.buffers[name].Size()&^7)
	if err := m.buffers[name].Download(0, data); err != nil {
		m.t.Fatal(err)
	}
	for ; len(data) > 0; data = data[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return out
}

func (m *memory) free() {
	for _, b := range m.buffers {
		b.Free()
	}
}
