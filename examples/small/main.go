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
	ones := format.Source{Codes: bytes.Repeat([]byte{9}, 2*64), Scales: []float32{1, 1, 2, 2}} // code 9 is 1
	w, err := kernels.W4G32.NewMatrix(ones, 2, 64)
	if err != nil {
		panic(err)
	}
	x, y := make([]float32, 64), make([]float32, 2)
	x[5], x[40] = 127, 1
	err = w.Multiply(y, x, 1, runtime.Options{Threads: runtime.AllThreads})
	fmt.Println(y, err)
}
