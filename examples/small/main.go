// The smallest use of a generated package: a matrix of 2 rows of 64 ones, times a row of activations.
package main

import (
	"bytes"
	"fmt"

	"example.com/small/kernels"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

func main() {
	codes := bytes.Repeat([]byte{9}, 2*64) // one byte per weight; code 9 is the weight 1
	source := format.Source{Codes: codes, Scales: []float32{1, 1, 2, 2}}
	w, err := kernels.W4G32.NewMatrix(source, 2, 64) // packs 2 rows of 64 weights
	if err != nil {
		panic(err)
	}
	x, y := make([]float32, 64), make([]float32, 2)
	x[5], x[40] = 127, 1
	err = w.Multiply(y, x, 1, runtime.Options{Threads: runtime.AllThreads}) // 1 row of activations
	fmt.Println(y, err)                                                     // [128 256] <nil>
}
