package runtime_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

// w4 stands for what tmacc compile writes: a product in a variable of the generated
// package, here without assembly.
func w4() *runtime.Product {
	w, err := format.Lookup("w4")
	if err != nil {
		log.Fatal(err)
	}
	return runtime.New(runtime.Spec{Name: "W4", Weight: w, LimitK: 1 << 17, Layouts: []*format.Layout{format.PlainLayout(w)}})
}

// identity is a matrix of 4 by 4: codes 9 and 8 are the levels 1 and 0.
func identity() format.Source {
	return format.Source{Codes: []byte{9, 8, 8, 8, 8, 9, 8, 8, 8, 8, 9, 8, 8, 8, 8, 9}, Scales: []float32{1, 1, 1, 0.5}}
}

func ExampleMatrix_Multiply() {
	w, err := w4().NewMatrix(identity(), 4, 4)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	y := make([]float32, 4)
	if err := w.Multiply(y, []float32{127, 64, 32, 16}, 1, runtime.Options{Threads: runtime.AllThreads}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y)
	// Output: [127 64 32 8]
}

// Buffers that the caller owns: activations are prepared once for several matrices,
// and nothing is allocated.
func ExampleProduct_Gemm() {
	p := w4()
	size, err := p.PackedSize(4, 4)
	if err != nil {
		log.Fatal(err)
	}
	packed := make([]byte, size)
	if err := p.Pack(packed, identity(), 4, 4); err != nil {
		log.Fatal(err)
	}
	if size, err = p.ActSize(1, 4); err != nil {
		log.Fatal(err)
	}
	act, y := make([]byte, size), []float32{1000, 1000, 1000, 1000}
	if err := p.PrepareAct(act, []float32{127, 64, 32, 16}, 1, 4); err != nil {
		log.Fatal(err)
	}
	bias := []float32{0.5, 0, 0, 0}
	if err := p.Gemm(y, packed, act, 0, 4, runtime.Options{Bias: bias, Accumulate: true}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y)
	// Output: [1127.5 1064 1032 1008]
}

// A matrix is packed once and mapped into memory whenever the program starts.
func ExampleMatrix_Save() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "w.tmacc")
	w, err := w4().NewMatrix(identity(), 4, 4)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Save(path); err != nil {
		log.Fatal(err)
	}
	again, err := w4().LoadMatrix(path)
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	fmt.Println(again.Shape())
	// Output: 4 4
}
