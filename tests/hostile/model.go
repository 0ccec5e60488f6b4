package hostile

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tmacc/tmacc/tests/ggufparts"
)

// MutateModel changes a few things of a model: its metadata, the descriptions of its tensors, their weights. The file that it
// returns is whole, unless bytes of it were changed as well.
func MutateModel(rng *rand.Rand, model *ggufparts.Parts) []byte {
	m := &mutant{rng, model.Clone()}
	total := 0
	for _, c := range changes {
		total += c.weight
	}
	for range 1 + rng.IntN(3) {
		at := rng.IntN(total)
		for _, c := range changes {
			if at -= c.weight; at < 0 {
				c.do(m)
				break
			}
		}
	}
	data := m.Bytes()
	if rng.IntN(8) == 0 {
		data = Mutate(rng, data, 1<<12)
	}
	return data
}

// changes are what may be changed, and how often.
var changes = []struct {
	weight int
	do     func(*mutant)
}{
	{20, (*mutant).number},
	{4, (*mutant).kind},
	{4, (*mutant).dropValue},
	{2, (*mutant).repeatValue},
	{4, (*mutant).text},
	{8, (*mutant).list},
	{4, (*mutant).words},
	{6, (*mutant).dropTensor},
	{4, (*mutant).repeatTensor},
	{4, (*mutant).rename},
	{4, (*mutant).swap},
	{8, (*mutant).extent},
	{10, (*mutant).reshape},
	{8, (*mutant).retype},
	{3, (*mutant).shift},
	{40, (*mutant).weights},
	{25, (*mutant).notFinite},
	{8, (*mutant).fill},
}

// mutant is a model that is being changed.
type mutant struct {
	rng *rand.Rand
	*ggufparts.Parts
}

// value draws a metadata value that a function accepts, nil if there is none.
func (m *mutant) value(accept func(*ggufparts.Value) bool) *ggufparts.Value {
	for range 200 {
		if len(m.Meta) == 0 {
			break
		}
		if v := &m.Meta[m.rng.IntN(len(m.Meta))]; accept(v) {
			return v
		}
	}
	return nil
}

// tensor draws a tensor, of a vector as often as of a matrix.
func (m *mutant) tensor() *ggufparts.Tensor {
	if len(m.Tensors) == 0 {
		m.Tensors = append(m.Tensors, ggufparts.Tensor{Name: "alone"})
	}
	dims := 1 + m.rng.IntN(2)
	for range 20 {
		if t := &m.Tensors[m.rng.IntN(len(m.Tensors))]; len(t.Shape) == dims {
			return t
		}
	}
	return &m.Tensors[m.rng.IntN(len(m.Tensors))]
}

// number changes a number of the metadata.
func (m *mutant) number() {
	v := m.value(func(v *ggufparts.Value) bool { return v.Kind != ggufparts.Text && v.Kind != ggufparts.Array })
	if v == nil {
		return
	}
	data := slices.Clone(v.Data)
	switch {
	case v.Kind == ggufparts.Float:
		floats := []float64{0, -1, 1, 1e-30, 1e30, math.MaxFloat32, -1e-6, math.NaN(), math.Inf(1), math.Inf(-1), 1e5}
		binary.LittleEndian.PutUint32(data, math.Float32bits(float32(floats[m.rng.IntN(len(floats))])))
	case len(data) == 4 && m.rng.IntN(2) == 0:
		n := binary.LittleEndian.Uint32(data)
		near := []uint32{n - 1, n + 1, 2 * n, n / 2, 3 * n, n / 3, n + 32, n - 32}
		binary.LittleEndian.PutUint32(data, near[m.rng.IntN(len(near))])
	default:
		copy(data, binary.LittleEndian.AppendUint64(nil, anOdd(m.rng)))
	}
	v.Data = data
}

// kind gives a value another kind.
func (m *mutant) kind() {
	v := m.value(func(v *ggufparts.Value) bool { return true })
	if v == nil {
		return
	}
	switch m.rng.IntN(3) {
	case 0:
		v.SetText("x")
	case 1:
		v.SetUint32(uint32(anOdd(m.rng)))
	case 2:
		v.SetTexts([]string{"a", ""})
	}
}

func (m *mutant) dropValue() {
	if n := len(m.Meta); n > 0 {
		i := m.rng.IntN(n)
		m.Meta = slices.Delete(m.Meta, i, i+1)
	}
}

func (m *mutant) repeatValue() {
	if v := m.value(func(v *ggufparts.Value) bool { return len(v.Data) < 1<<10 }); v != nil {
		m.Meta = append(m.Meta, *v)
	}
}

// text changes a text of the metadata.
func (m *mutant) text() {
	v := m.value(func(v *ggufparts.Value) bool { return v.Kind == ggufparts.Text })
	if v == nil {
		return
	}
	texts := []string{"", "llama", "qwen3", "qwen2", "bitnet", "bitnet-b1.58", "gpt2", "gpt-2", "llama-bpe", "default", "linear", "yarn", "longrope", "none", "\xff\x00\n", "x"}
	v.SetText(texts[m.rng.IntN(len(texts))])
}

// list changes a list of the metadata: its length, or the bytes of its elements.
func (m *mutant) list() {
	v := m.value(func(v *ggufparts.Value) bool { return v.Kind == ggufparts.Array })
	if v == nil {
		return
	}
	if v.Of == ggufparts.Text {
		all := v.Texts()
		v.SetTexts(all[:m.rng.IntN(len(all)+1)])
		return
	}
	size := len(v.Data) / max(1, int(v.N))
	if n := uint64(m.rng.IntN(int(v.N) + 1)); m.rng.IntN(2) == 0 {
		v.N, v.Data = n, v.Data[:int(n)*size]
		return
	}
	data := slices.Clone(v.Data)
	for range 1 + m.rng.IntN(8) {
		if len(data) >= 4 {
			at := m.rng.IntN(len(data)/4) * 4
			binary.LittleEndian.PutUint32(data[at:], []uint32{0, 1, 2, 3, 4, 5, 6, 7, 1 << 31, math.MaxUint32, 0x7fc00000, 0xff800000}[m.rng.IntN(12)])
		}
	}
	v.Data = data
}

// words changes elements of a list of texts.
func (m *mutant) words() {
	v := m.value(func(v *ggufparts.Value) bool { return v.Kind == ggufparts.Array && v.Of == ggufparts.Text && v.N > 0 })
	if v == nil {
		return
	}
	all := v.Texts()
	for range 1 + m.rng.IntN(4) {
		texts := []string{"", " ", "a", "a b", "\xff\xfe", "\n", "a b c", all[m.rng.IntN(len(all))], "<0x41>", "▁"}
		all[m.rng.IntN(len(all))] = texts[m.rng.IntN(len(texts))]
	}
	v.SetTexts(all)
}

func (m *mutant) dropTensor() {
	if n := len(m.Tensors); n > 0 {
		i := m.rng.IntN(n)
		m.Tensors = slices.Delete(m.Tensors, i, i+1)
	}
}

func (m *mutant) repeatTensor() { m.Tensors = append(m.Tensors, *m.tensor()) }

// rename gives a tensor a name that no model has, or one that another tensor has.
func (m *mutant) rename() {
	t := m.tensor()
	names := []string{"", "x", t.Name + "x", "output.weight", "rope_freqs.weight", "blk.0.attn_q.bias", "blk.0.attn_q_norm.weight", "blk.7.attn_q.weight", m.tensor().Name}
	t.Name = names[m.rng.IntN(len(names))]
}

// swap exchanges the names of two tensors.
func (m *mutant) swap() {
	a, b := m.tensor(), m.tensor()
	a.Name, b.Name = b.Name, a.Name
}

// extent changes a shape without the bytes.
func (m *mutant) extent() {
	t := m.tensor()
	switch n := len(t.Shape); m.rng.IntN(4) {
	case 0:
		t.Shape = append(t.Shape, anOdd(m.rng))
	case 1:
		t.Shape = t.Shape[:max(0, n-1)]
	case 2:
		slices.Reverse(t.Shape)
	default:
		if n > 0 {
			t.Shape[m.rng.IntN(n)] = anOdd(m.rng)
		}
	}
}

// reshape gives a tensor another shape and the bytes for it.
func (m *mutant) reshape() {
	t := m.tensor()
	if len(t.Shape) == 0 {
		return
	}
	i := m.rng.IntN(len(t.Shape))
	switch m.rng.IntN(4) {
	case 0:
		t.Shape[i] *= 2
	case 1:
		t.Shape[i] /= 2
	case 2:
		t.Shape[i] += 256
	case 3:
		t.Shape[i] = 256
	}
	m.provide(t)
}

// retype gives a tensor another type and the bytes for it.
func (m *mutant) retype() {
	t := m.tensor()
	types := []uint32{0, 1, 2, 3, 6, 8, 10, 12, 14, 16, 20, 23, 24, 28, 30, 34, 35, 36, 39, 40, 41, 42, 99}
	t.Type = types[m.rng.IntN(len(types))]
	m.provide(t)
}

// mostBytes bounds the bytes that a mutant gets.
const mostBytes = 1 << 22

// provide gives a tensor bytes for its type and shape: its own first, then random ones.
func (m *mutant) provide(t *ggufparts.Tensor) {
	size := t.Size()
	if size > mostBytes {
		return
	}
	data := slices.Clone(t.Data[:min(uint64(len(t.Data)), size)])
	for uint64(len(data)) < size {
		data = append(data, byte(m.rng.Uint32()))
	}
	t.Data = data
}

// shift moves the place of a tensor in the file.
func (m *mutant) shift() {
	m.tensor().Shift = []uint64{1, 4, 32, 64, 1 << 20, math.MaxUint64, math.MaxUint64 - 31, 1 << 62}[m.rng.IntN(8)]
}

// weights makes some bytes of a tensor random.
func (m *mutant) weights() {
	t := m.tensor()
	data := slices.Clone(t.Data)
	for range 1 << m.rng.IntN(10) {
		if len(data) > 0 {
			data[m.rng.IntN(len(data))] = byte(m.rng.Uint32())
		}
	}
	t.Data = data
}

// notFinite writes numbers that are not finite, or nearly not, at random places: as float32, or as the halves that scales are.
func (m *mutant) notFinite() {
	t := m.tensor()
	data := slices.Clone(t.Data)
	for range 1 << m.rng.IntN(6) {
		if len(data) < 4 {
			break
		}
		if t.Type == 0 {
			bits := []uint32{0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 0, 0x80000000, 1}[m.rng.IntN(8)]
			binary.LittleEndian.PutUint32(data[m.rng.IntN(len(data)/4)*4:], bits)
		} else {
			bits := []uint16{0x7e00, 0x7c00, 0xfc00, 0x7bff, 0xfbff, 0, 0x8000, 1}[m.rng.IntN(8)]
			binary.LittleEndian.PutUint16(data[m.rng.IntN(len(data)/2)*2:], bits)
		}
	}
	t.Data = data
}

// fill makes all bytes of a tensor the same.
func (m *mutant) fill() {
	t := m.tensor()
	t.Data = slices.Repeat([]byte{[]byte{0, 0xff, 0x7b, 0x7f}[m.rng.IntN(4)]}, len(t.Data))
}
