package model

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/runtime/ops"
)

// checkHead is an error if Options.Head is no type that a head can get.
func checkHead(typeName string) error {
	if all := blocks.Quantized(); typeName != "" && !slices.Contains(all, typeName) {
		return errorf("option Head", "is %q; want %s, or nothing: as in the file", typeName, strings.Join(all, " or "))
	}
	return nil
}

// typeOf is the GGUF type that a plan's matrix has in memory: that of the file, or of Options.Head. The latter is for the head, for an embedding that is the head
// or of floats, and only if it makes the matrix smaller.
func (l *loader) typeOf(x *plan) (string, error) {
	own := x.tensor.TypeName()
	_, float := ops.ElemOf(own)
	tied := l.f.Tensor(tensors[headWeights].name) == nil
	if l.head == "" || x.role != headWeights && (x.role != embedding || !tied && !float) {
		return own, nil
	}
	b, err := blocks.Lookup(l.head)
	if err != nil {
		return "", err
	}
	size, err := b.Size(x.m, x.k)
	if err != nil {
		return "", errorf(quoted(x.tensor.Name), "cannot be %s, as option Head says: %v", l.head, err)
	}
	if int64(size) >= x.tensor.Size {
		return own, nil
	}
	return l.head, nil
}

// quantizing reads a plan's matrix in blocks of the type that it has in memory, and makes them of what the file has.
type quantizing struct {
	x       *plan
	line    int64     // bytes of a row
	workers sync.Pool // of *quantizingRow
}

// quantizingRow makes the blocks of one row at a time.
type quantizingRow struct {
	*blocks.Quantizer
	values []float32
	data   []byte                            // of the row
	read   func(row int, to []float32) error // from the file
}

func newQuantizing(x *plan) (*quantizing, error) {
	b, err := blocks.Lookup(x.typeName)
	if err != nil {
		return nil, err
	}
	line, err := b.Size(1, x.k)
	return &quantizing{x: x, line: int64(line)}, err
}

// ReadAt implements io.ReaderAt.
func (s *quantizing) ReadAt(p []byte, off int64) (n int, err error) {
	w, _ := s.workers.Get().(*quantizingRow)
	if w == nil {
		if w, err = s.newRow(); err != nil {
			return 0, err
		}
	}
	defer s.workers.Put(w)
	for ; n < len(p) && off/s.line < int64(s.x.m); off = off + s.line - off%s.line {
		if err := w.make(int(off / s.line)); err != nil {
			return n, err
		}
		n += copy(p[n:], w.data[off%s.line:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// make makes the blocks of a row.
func (w *quantizingRow) make(row int) error {
	err := w.read(row, w.values)
	if err == nil {
		err = w.Row(w.data, w.values)
	}
	if err != nil {
		return fmt.Errorf("row %d: %w", row, err)
	}
	return nil
}

func (s *quantizing) newRow() (*quantizingRow, error) {
	q, err := blocks.NewQuantizer(s.x.typeName)
	if err != nil {
		return nil, err
	}
	w := &quantizingRow{Quantizer: q, values: make([]float32, s.x.k), data: make([]byte, s.line)}
	w.read, err = rowsOf(s.x)
	return w, err
}

// rowsOf makes the function that reads a row of a plan's matrix from the file.
func rowsOf(x *plan) (func(row int, to []float32) error, error) {
	if elem, float := ops.ElemOf(x.tensor.TypeName()); float {
		data := make([]byte, x.k*elem.Bytes())
		return func(row int, to []float32) error {
			if n, err := x.tensor.ReadAt(data, int64(row)*int64(len(data))); n < len(data) {
				return err
			}
			ops.LoadRow(to, data, elem)
			return nil
		}, nil
	}
	r, err := blocks.NewReader(x.tensor.TypeName(), x.tensor, x.m, x.k)
	if err != nil {
		return nil, err
	}
	return func(row int, to []float32) error {
		src, err := r.Rows(row, row+1)
		if err != nil {
			return err
		}
		return r.Weight().Dequantize(to, src)
	}, nil
}
