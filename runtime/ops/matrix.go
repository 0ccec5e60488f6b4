package ops

import (
	"fmt"

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
	x := &Matrix{m: m, k: k, elem: e}
	x.panels = make([]byte, (m+Panel-1)/Panel*x.panelBytes())
	for r := range m {
		to := x.panel(r / Panel)[r%Panel*size:]
		for i := range k {
			copy(to[i*Panel*size:][:size], data[(r*k+i)*size:])
		}
	}
	return x, nil
}

func (x *Matrix) panelBytes() int { return x.k * Panel * x.elem.Bytes() }

func (x *Matrix) panel(i int) []byte { return x.panels[i*x.panelBytes():][:x.panelBytes()] }

// Shape is the number of rows and of columns.
func (x *Matrix) Shape() (m, k int) { return x.m, x.k }

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
	if n < 0 || len(in) != n*x.k || len(dst) != n*x.m {
		return fmt.Errorf("ops: %d rows of activations: in has %d elements and dst %d; a matrix of %d rows and %d columns wants %d and %d",
			n, len(in), len(dst), x.m, x.k, n*x.k, n*x.m)
	}
	if n > 0 {
		pool.Run(&multiplication{x, dst, in, n}, (x.m+Panel-1)/Panel*blocks(n), 1, pool.Threads(threads))
	}
	return nil
}

// blockRows is how many rows of activations are multiplied by a panel before the next panel: they stay in a cache.
const blockRows = 64

func blocks(n int) int { return (n + blockRows - 1) / blockRows }

// multiplication is a call of Multiply. Item i is one panel and one block of rows.
type multiplication struct {
	x       *Matrix
	dst, in []float32
	n       int
}

// Do implements pool.Work.
func (w *multiplication) Do(_, first, end int) {
	for i := first; i < end; i++ {
		w.item(i/blocks(w.n), i%blocks(w.n)*blockRows)
	}
}

// item multiplies a panel by the rows from row on.
func (w *multiplication) item(panel, row int) {
	x, at, rows := w.x, panel*Panel, min(blockRows, w.n-row)
	in, dst := w.in[row*x.k:], w.dst[row*x.m+at:]
	if at+Panel <= x.m {
		Matmul(dst, x.m, in, x.k, rows, x.panel(panel), x.elem, x.k)
		return
	}
	var edge [8 * Panel]float32 // the last panel may be wider than dst
	for r := 0; r < rows; r += 8 {
		n := min(8, rows-r)
		Matmul(edge[:], Panel, in[r*x.k:], x.k, n, x.panel(panel), x.elem, x.k)
		for i := range n {
			copy(dst[(r+i)*x.m:][:x.m-at], edge[i*Panel:])
		}
	}
}
