package model

import (
	"errors"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
)

// matrix is m rows of k weights, packed for a product or as floats.
type matrix struct {
	m, k     int
	typeName string          // the GGUF type, which says how activations are rounded
	packed   *runtime.Matrix // nil: floats
	floats   *ops.Matrix
	memory   *runtime.Buffer // of either; nil: it belongs to the model, or to nobody
}

// row writes row r to dst, k elements.
func (x *matrix) row(dst []float32, r int) error {
	if x.packed != nil {
		return x.packed.Row(dst, r)
	}
	return x.floats.Row(dst, r)
}

func (x *matrix) close() error {
	if x == nil {
		return nil
	}
	return errors.Join(x.packed.Close(), x.memory.Close())
}

// product is one matrix of several that multiply the same rows of activations.
type product struct {
	x   *matrix
	dst []float32 // [n][m]
}

// multiply sets dst = in times each matrix, for n rows of activations, in[n][k].
func (ws *workspace) multiply(in []float32, n int, products ...product) error {
	if n == 0 {
		return nil
	}
	ws.prepared, ws.calls = ws.prepared[:0], ws.calls[:0]
	in = in[:n*products[0].x.k]
	floats := false
	for _, p := range products {
		if p.x.packed == nil {
			ws.floats.Add(p.x.floats, p.dst)
			floats = true
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
	if floats {
		return ws.floats.Run(in, n, ws.threads)
	}
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
	return ws.acts[i], p.PrepareActThreads(ws.acts[i], in, n, x.k, ws.threads)
}
