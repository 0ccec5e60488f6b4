// Multiplies tensors of a GGUF file: queries, keys and values of layer 0, which share their activations.
package main

import (
	"flag"
	"fmt"
	"log"

	"example.com/gguf/kernels"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
)

func main() {
	path := flag.String("model", "../../testdata/gguf/llama-q4_0.gguf", "the GGUF `file` that kernels/tmacc.yaml names")
	flag.Parse()
	f, err := gguf.Open(*path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	a, err := newAttention(f, 0)
	if err != nil {
		log.Fatal(err)
	}
	x := make([]float32, 256)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	if err := a.multiply(x); err != nil {
		log.Fatal(err)
	}
	fmt.Println("queries", a.q[:4])
	fmt.Println("keys   ", a.k[:4])
	fmt.Println("values ", a.v[:4])
	fmt.Println("on", kernels.Q40.Target())
}

// attention is the matrices of a layer's queries, keys and values, and room for what
// they are multiplied with and give.
type attention struct {
	wq      kernels.AttnQ
	wk      kernels.AttnK
	wv      kernels.AttnV
	act     []byte
	q, k, v []float32
}

func newAttention(f *gguf.File, layer int) (*attention, error) {
	a := &attention{}
	var err error
	if a.wq, err = kernels.OpenAttnQ(f, layer); err != nil {
		return nil, err
	}
	if a.wk, err = kernels.OpenAttnK(f, layer); err != nil {
		return nil, err
	}
	if a.wv, err = kernels.OpenAttnV(f, layer); err != nil {
		return nil, err
	}
	rows, columns := a.wq.Shape()
	size, err := a.wq.Product().ActSize(1, columns)
	if err != nil {
		return nil, err
	}
	few, _ := a.wk.Shape()
	a.act, a.q, a.k, a.v = make([]byte, size), make([]float32, rows), make([]float32, few), make([]float32, few)
	return a, nil
}

// multiply prepares x once and multiplies all three matrices by it, under one fork
// and join.
func (a *attention) multiply(x []float32) error {
	if err := a.wq.Product().PrepareAct(a.act, x, 1, len(x)); err != nil {
		return err
	}
	return runtime.GemmAll(runtime.AllThreads, a.wq.Call(a.q, a.act), a.wk.Call(a.k, a.act), a.wv.Call(a.v, a.act))
}
