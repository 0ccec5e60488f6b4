package ops

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync/atomic"

	"github.com/tmacc/tmacc/runtime/pool"
)

// Matrix is a matrix of floats, m rows of k, as panels of 32 rows: [ceil(m/32)][k][32] elements. Its methods may be
// called concurrently.
type Matrix struct {
	m, k   int
	elem   Elem
	panels []byte
}

// ElemOf is the type of elements that GGUF files call by this name. ok is false if it is none of floats.
func ElemOf(typeName string) (e Elem, ok bool) {
	for e := F32; e <= BF16; e++ {
		if e.String() == typeName {
			return e, true
		}
	}
	return 0, false
}

// NewMatrix makes panels of m rows of k elements that lie one after the other, as in a GGUF file. It is an error if data
// has another length, or if m or k is not positive.
func NewMatrix(e Elem, data []byte, m, k int) (*Matrix, error) {
	size := e.Bytes()
	if m <= 0 || k <= 0 || len(data)%size != 0 || len(data)/size/m != k || len(data) != m*k*size {
		return nil, fmt.Errorf("ops: %d bytes are no matrix of %d rows and %d columns of %s", len(data), m, k, e)
	}
	panels := make([]byte, MatrixBytes(e, m, k))
	if err := FillPanels(panels, e, bytes.NewReader(data), m, k); err != nil {
		return nil, err
	}
	return MatrixOf(e, panels, m, k)
}

// MatrixOf is a matrix whose panels are memory of the caller's, MatrixBytes of them.
func MatrixOf(e Elem, panels []byte, m, k int) (*Matrix, error) {
	if m <= 0 || k <= 0 || int64(len(panels)) != MatrixBytes(e, m, k) {
		return nil, fmt.Errorf("ops: %d bytes are no panels of %d rows and %d columns of %s", len(panels), m, k, e)
	}
	return &Matrix{m: m, k: k, elem: e, panels: panels}, nil
}

// FillPanels makes panels, MatrixBytes of them, of m rows of k elements that from has one after the other, with all threads. The rows
// behind the last are 0.
func FillPanels(panels []byte, e Elem, from io.ReaderAt, m, k int) error {
	to, err := MatrixOf(e, panels, m, k)
	if err != nil {
		return err
	}
	w := &filling{to: to, from: from, rows: make([][]byte, pool.Threads(math.MaxInt))}
	pool.Run(w, (m+Panel-1)/Panel, 1, len(w.rows))
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// filling is panels that are filled.
type filling struct {
	to     *Matrix
	from   io.ReaderAt
	rows   [][]byte // of each thread, for the rows of a panel
	failed atomic.Pointer[error]
}

// Do implements pool.Work.
func (w *filling) Do(thread, first, end int) {
	x := w.to
	size := x.elem.Bytes()
	line := x.k * size
	if w.rows[thread] == nil {
		w.rows[thread] = make([]byte, Panel*line)
	}
	for i := first; i < end && w.failed.Load() == nil; i++ {
		n := min(Panel, x.m-i*Panel)
		rows, to := w.rows[thread][:n*line], x.panel(i)
		if got, err := w.from.ReadAt(rows, int64(i)*Panel*int64(line)); got < len(rows) {
			err = fmt.Errorf("ops: rows %d to %d: %w", i*Panel, i*Panel+n-1, err)
			w.failed.Store(&err)
			return
		}
		if n < Panel {
			clear(to)
		}
		for r := range n {
			if row := rows[r*line:][:line]; size == 4 {
				spread4(to[r*4:], row)
			} else {
				spread2(to[r*2:], row)
			}
		}
	}
}

// spread4 puts a row of elements of 4 bytes into a lane of a panel.
func spread4(lane, row []byte) {
	for i := 0; i+4 <= len(row); i += 4 {
		binary.LittleEndian.PutUint32(lane[i*Panel:], binary.LittleEndian.Uint32(row[i:]))
	}
}

// spread2 does so with elements of 2 bytes.
func spread2(lane, row []byte) {
	for i := 0; i+2 <= len(row); i += 2 {
		binary.LittleEndian.PutUint16(lane[i*Panel:], binary.LittleEndian.Uint16(row[i:]))
	}
}

func (x *Matrix) panelBytes() int { return x.k * Panel * x.elem.Bytes() }

func (x *Matrix) panel(i int) []byte { return x.panels[i*x.panelBytes():][:x.panelBytes()] }

// MatrixBytes is the memory of a matrix of m rows and k columns.
func MatrixBytes(e Elem, m, k int) int64 {
	return int64((m+Panel-1)/Panel) * Panel * int64(k) * int64(e.Bytes())
}

// Bytes is the memory of x.
func (x *Matrix) Bytes() int64 { return int64(len(x.panels)) }

// Shape is the number of rows and of columns.
func (x *Matrix) Shape() (m, k int) { return x.m, x.k }

// Panels are the panels of x, and the type of their elements.
func (x *Matrix) Panels() (Elem, []byte) { return x.elem, x.panels }

// Row writes row r, k elements, to dst.
func (x *Matrix) Row(dst []float32, r int) error {
	if r < 0 || r >= x.m || len(dst) != x.k {
		return fmt.Errorf("ops: row %d into %d elements, of a matrix of %d rows and %d columns", r, len(dst), x.m, x.k)
	}
	LoadLane(dst, x.panel(r/Panel), x.elem, r%Panel)
	return nil
}

// Multiply multiplies x by n rows of activations, in[n][k], on up to `threads` threads, as runtime.Options counts them:
// dst[j*m+r] is row r times activations j. The result does not depend on the number of threads.
func (x *Matrix) Multiply(dst, in []float32, n, threads int) error {
	var w Products
	w.Add(x, dst)
	return w.Run(in, n, threads)
}

// Products are matrices that multiply the same activations under one fork and join. The zero value has none. Its memory is
// kept for the next Run.
type Products struct {
	calls []call
	in    []float32
	n     int
	edges [][]float32 // of each thread: a block of rows of a last panel, which may be wider than dst
}

// call is one matrix, and what becomes of its products.
type call struct {
	x   *Matrix
	dst []float32
}

// Add adds a matrix. Run sets dst, n rows of m elements.
func (w *Products) Add(x *Matrix, dst []float32) { w.calls = append(w.calls, call{x, dst}) }

// Run multiplies the matrices that have been added by n rows of activations, as Multiply does, and forgets them.
func (w *Products) Run(in []float32, n, threads int) error {
	defer w.forget()
	items := 0
	for _, c := range w.calls {
		if x := c.x; n < 0 || len(in) != n*x.k || len(c.dst) != n*x.m {
			return fmt.Errorf("ops: %d rows of activations: in has %d elements and dst %d; a matrix of %d rows and %d columns wants %d and %d",
				n, len(in), len(c.dst), x.m, x.k, n*x.k, n*x.m)
		}
		items += c.items(n)
	}
	w.in, w.n = in, n
	threads = pool.Threads(threads)
	for len(w.edges) < threads {
		w.edges = append(w.edges, make([]float32, blockRows*Panel))
	}
	pool.Run(w, items, 1, threads)
	return nil
}

// forget keeps nothing of the caller's alive.
func (w *Products) forget() {
	clear(w.calls)
	w.calls, w.in = w.calls[:0], nil
}

// blockRows is how many rows of activations are multiplied by a panel before the next panel: they stay in a cache.
const blockRows = 64

// items is how many panels and blocks of rows threads share.
func (c call) items(n int) int {
	return (c.x.m + Panel - 1) / Panel * ((n + blockRows - 1) / blockRows)
}

// Do implements pool.Work. Items of one matrix follow the items of another.
func (w *Products) Do(thread, first, end int) {
	for _, c := range w.calls {
		items, panels := c.items(w.n), (c.x.m+Panel-1)/Panel
		for i := max(first, 0); i < min(end, items); i++ {
			w.item(thread, c, i%panels, i/panels*blockRows)
		}
		first, end = first-items, end-items
	}
}

// item multiplies one panel by the rows from row on.
func (w *Products) item(thread int, c call, panel, row int) {
	x, at, rows := c.x, panel*Panel, min(blockRows, w.n-row)
	dst, stride := c.dst[row*x.m+at:], x.m
	narrow := at+Panel > x.m
	if narrow {
		dst, stride = w.edges[thread], Panel
	}
	Matmul(dst, stride, w.in[row*x.k:], x.k, rows, x.panel(panel), x.elem, x.k)
	if narrow {
		for r := range rows {
			copy(c.dst[(row+r)*x.m+at:][:x.m-at], dst[r*Panel:])
		}
	}
}
