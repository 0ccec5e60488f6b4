// Weights in a format that tmacc does not know: six levels, one scale for 64 of them.
package main

import (
	"fmt"
	"math"

	"example.com/newformat/kernels"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

const m, k, group = 32, 128, 64

func main() {
	weights := make([]float32, m*k)
	for i := range weights {
		weights[i] = float32(math.Sin(float64(i)))
	}
	w, err := kernels.Six.NewMatrix(quantize(weights), m, k)
	if err != nil {
		panic(err)
	}
	x, y := make([]float32, k), make([]float32, m)
	for i := range x {
		x[i] = weights[i] // the first row, so that the first product is large
	}
	if err := w.Multiply(y, x, 1, runtime.Options{}); err != nil {
		panic(err)
	}
	exact := 0.0
	for i := range x {
		exact += float64(x[i]) * float64(weights[i])
	}
	fmt.Printf("%.0f is about %.0f\n", y[0], exact)
	fmt.Println("on", kernels.Six.Target())
}

// quantize rounds each weight to the nearest of six levels times a scale of its group.
func quantize(weights []float32) format.Source {
	src := format.Source{Codes: make([]byte, len(weights))}
	for g := 0; g < len(weights); g += group {
		largest := 0.0
		for _, v := range weights[g:][:group] {
			largest = max(largest, math.Abs(float64(v)))
		}
		scale := format.F16.Round(float32(largest / 5))
		src.Scales = append(src.Scales, scale)
		for i, v := range weights[g:][:group] {
			level := float64(v) / float64(scale) // levels are -5 + 2*code
			src.Codes[g+i] = byte(min(max(math.Round((level+5)/2), 0), 5))
		}
	}
	return src
}
