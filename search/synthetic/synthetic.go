// Package synthetic has models of published shapes with random weights, to measure with. A model is a GGUF file that is made
// while it is read: it takes memory for its header only, and the same place always has the same bytes.
package synthetic

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sort"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
)

// Model is the file of a synthetic model. Its methods may be called concurrently.
type Model struct {
	header  []byte // metadata and the descriptions of tensors, padded
	tensors []tensor
	size    int64
}

// tensor is a tensor of a model: rows of random weights, or the float32 numbers of values.
type tensor struct {
	name   string
	typ    string // in GGUF
	shape  []int  // the columns first
	values []float32
	noise  *blocks.Noise // nil: there are values
	seed   uint64
	row    int   // bytes
	offset int64 // from the beginning of the file
	size   int64 // bytes
}

// alignment is where tensors begin: at its multiples.
const alignment = 32

// New makes the model of a name, one of Names. The seed chooses its weights. Matrices have the standard deviation
// 1/sqrt(columns), and norms are 1, so that logits are finite.
func New(name string, seed uint64) (*Model, error) {
	s, err := lookup(name)
	if err != nil {
		return nil, err
	}
	m := &Model{tensors: s.tensors()}
	if err := m.draw(seed); err != nil {
		return nil, err
	}
	m.place(s)
	return m, nil
}

// draw chooses the random blocks of all matrices. Matrices of one type and length share them.
func (m *Model) draw(seed uint64) error {
	noises := map[string]*blocks.Noise{}
	for i := range m.tensors {
		t := &m.tensors[i]
		if t.values != nil {
			t.size = 4 * int64(len(t.values))
			continue
		}
		b, err := blocks.Lookup(t.typ)
		if err != nil {
			return err
		}
		kind := fmt.Sprint(t.typ, " ", t.shape[0])
		if noises[kind] == nil {
			rng := rand.New(rand.NewPCG(seed, uint64(len(noises))))
			if noises[kind], err = blocks.NewNoise(rng, t.typ, 1/math.Sqrt(float64(t.shape[0]))); err != nil {
				return err
			}
		}
		t.noise, t.row, t.seed = noises[kind], t.shape[0]/b.Values*b.Bytes, rand.NewPCG(seed, uint64(i)).Uint64()
		t.size = int64(t.row) * int64(t.shape[1])
	}
	return nil
}

// place writes the header and lays the tensors out behind it.
func (m *Model) place(s *shape) {
	offset := int64(0)
	for i := range m.tensors {
		m.tensors[i].offset = offset
		offset = aligned(offset + m.tensors[i].size)
	}
	m.header = s.header(m.tensors)
	for i := range m.tensors {
		m.tensors[i].offset += int64(len(m.header))
	}
	m.size = int64(len(m.header)) + offset
}

func aligned(n int64) int64 { return (n + alignment - 1) / alignment * alignment }

// Size is the length of the file in bytes.
func (m *Model) Size() int64 { return m.size }

// File returns the model as an open GGUF file, whose tensors are made when they are read.
func (m *Model) File() (*gguf.File, error) { return gguf.New(m, m.size) }

// ReadAt reads the file as io.ReaderAt says.
func (m *Model) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("synthetic: offset %d is negative", off)
	}
	for len(p) > n && off < m.size {
		wrote := m.readPart(p[n:], off)
		n, off = n+wrote, off+int64(wrote)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readPart reads at least one byte at an offset in the file: of the header, of one tensor, or of the zeros behind it.
func (m *Model) readPart(p []byte, off int64) int {
	if off < int64(len(m.header)) {
		return copy(p, m.header[off:])
	}
	i := sort.Search(len(m.tensors), func(i int) bool { return m.tensors[i].offset > off }) - 1
	t := &m.tensors[i]
	if at := off - t.offset; at < t.size {
		return t.read(p[:min(int64(len(p)), t.size-at)], at)
	}
	n := min(int64(len(p)), aligned(t.offset+t.size)-off)
	clear(p[:n])
	return int(n)
}

// read reads bytes of the tensor from an offset in it. It returns how many, at least one.
func (t *tensor) read(p []byte, at int64) int {
	if t.noise == nil {
		data, err := binary.Append(nil, binary.LittleEndian, t.values)
		if err != nil {
			panic("BUG: synthetic: " + err.Error())
		}
		return copy(p, data[at:])
	}
	r, from := at/int64(t.row), int(at%int64(t.row))
	if from == 0 && len(p) >= t.row {
		t.noise.Row(rand.NewPCG(t.seed, uint64(r)), p[:t.row])
		return t.row
	}
	row := make([]byte, t.row)
	t.noise.Row(rand.NewPCG(t.seed, uint64(r)), row)
	return copy(p, row[from:])
}
