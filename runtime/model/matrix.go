package model

import (
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/runtime/pool"
)

// matrix is m rows of k weights: packed for a product, or panels of 32 rows.
type matrix struct {
	m, k   int
	packed *runtime.Matrix // nil: panels
	panels []byte          // [ceil(m/32)][k][32] elements
	elem   ops.Elem
}

// panelBytes is the size of one panel.
func (x *matrix) panelBytes() int { return x.k * ops.Panel * x.elem.Bytes() }

// numPanels is how many panels hold m rows.
func numPanels(m int) int { return (m + ops.Panel - 1) / ops.Panel }

// bytes is the memory of x.
func (x *matrix) bytes() int64 {
	if x.packed != nil {
		return int64(len(x.packed.Packed()))
	}
	return int64(len(x.panels))
}

// row writes row r to dst, k elements.
func (x *matrix) row(dst []float32, r int) error {
	if x.packed != nil {
		return x.packed.Row(dst, r)
	}
	ops.LoadLane(dst, x.panels[r/ops.Panel*x.panelBytes():], x.elem, r%ops.Panel)
	return nil
}

func (x *matrix) close() error {
	if x == nil {
		return nil
	}
	return x.packed.Close()
}

// setRow writes elements that lie one after the other as row r of panels. It copies bytes.
func (x *matrix) setRow(r int, elements []byte) {
	size := x.elem.Bytes()
	to := x.panels[r/ops.Panel*x.panelBytes()+r%ops.Panel*size:]
	for i := range x.k {
		copy(to[i*ops.Panel*size:][:size], elements[i*size:])
	}
}

// product is one matrix of several that multiply the same rows of activations.
type product struct {
	x   *matrix
	dst []float32 // [n][m]
}

// multiply sets dst = in times each matrix, for n rows of activations, in[n][k].
func (ws *workspace) multiply(in []float32, n int, products ...product) error {
	ws.prepared, ws.calls, ws.floats.products = ws.prepared[:0], ws.calls[:0], ws.floats.products[:0]
	for _, p := range products {
		if p.x.packed == nil {
			ws.floats.products = append(ws.floats.products, p)
			continue
		}
		act, err := ws.prepare(p.x, in, n)
		if err != nil {
			return err
		}
		ws.calls = append(ws.calls, p.x.packed.Call(p.dst, act))
	}
	if len(ws.calls) > 0 {
		if err := runtime.GemmAll(ws.threads, ws.calls...); err != nil {
			return err
		}
	}
	ws.floats.run(ws, in, n)
	return nil
}

// prepare is the activations as the product of x wants them. Products that share them prepare them once.
func (ws *workspace) prepare(x *matrix, in []float32, n int) ([]byte, error) {
	p := x.packed.Product()
	for i, q := range ws.prepared {
		if q.SharesAct(p) {
			return ws.acts[i], nil
		}
	}
	size, err := p.ActSize(n, x.k)
	if err != nil {
		return nil, err
	}
	i := len(ws.prepared)
	ws.prepared = append(ws.prepared, p)
	if i == len(ws.acts) {
		ws.acts = append(ws.acts, nil)
	}
	ws.acts[i] = grow(ws.acts[i], size)
	return ws.acts[i], p.PrepareActThreads(ws.acts[i], in[:n*x.k], n, x.k, ws.threads)
}

// floatRows is how many rows of activations are multiplied by a panel before the next panel: they stay in a cache.
const floatRows = 64

// floatProducts is products of panels that threads share. Item i is one panel and one block of rows.
type floatProducts struct {
	products []product
	in       []float32
	n        int
	edges    [][]float32 // of each lane: a block of rows of the last panel, which may be wider than dst
}

func (w *floatProducts) run(ws *workspace, in []float32, n int) {
	if len(w.products) == 0 {
		return
	}
	w.in, w.n = in, n
	for len(w.edges) < ws.lanes() {
		w.edges = append(w.edges, make([]float32, floatRows*ops.Panel))
	}
	items := 0
	for _, p := range w.products {
		items += w.items(p)
	}
	pool.Run(w, items, 1, ws.lanes())
	w.in = nil
}

func (w *floatProducts) items(p product) int {
	return numPanels(p.x.m) * ((w.n + floatRows - 1) / floatRows)
}

// Do does items of the products, one product after the other.
func (w *floatProducts) Do(lane, first, end int) {
	for _, p := range w.products {
		items := w.items(p)
		for i := max(first, 0); i < min(end, items); i++ {
			w.panel(lane, p, i%numPanels(p.x.m), i/numPanels(p.x.m)*floatRows)
		}
		first, end = first-items, end-items
	}
}

// panel multiplies one panel by the rows from row on.
func (w *floatProducts) panel(lane int, p product, panel, row int) {
	x, rows, at := p.x, min(floatRows, w.n-row), panel*ops.Panel
	dst, stride := p.dst[row*x.m+at:], x.m
	narrow := at+ops.Panel > x.m
	if narrow {
		dst, stride = w.edges[lane], ops.Panel
	}
	ops.Matmul(dst, stride, w.in[row*x.k:], x.k, rows, x.panels[panel*x.panelBytes():], x.elem, x.k)
	if narrow {
		for r := range rows {
			copy(p.dst[(row+r)*x.m+at:][:x.m-at], dst[r*ops.Panel:])
		}
	}
}
