// Weights in a format that tmacc does not know: a codebook of six levels, and a scale for 48 weights.
package main

import (
	"fmt"
	"math"

	"example.com/newformat/kernels"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

const m, k, group = 33, 144, 48 // three groups in a row

func main() {
	weights := make([]float32, m*k)
	for i := range weights {
		weights[i] = float32(math.Sin(float64(i)))
	}
	w, err := kernels.Codebook.NewMatrix(quantize(weights), m, k)
	if err != nil {
		panic(err)
	}
	x, y := make([]float32, k), make([]float32, m)
	exact := 0.0
	for i := range x {
		x[i] = weights[i] // the first row, so that the first product is large
		exact += float64(x[i]) * float64(weights[i])
	}
	if err := w.Multiply(y, x, 1, runtime.Options{}); err != nil {
		panic(err)
	}
	fmt.Printf("%.0f is about %.0f\n", y[0], exact)
	fmt.Println("on", kernels.Codebook.Target())
}

// quantize rounds each weight to the nearest level of the codebook times the scale of its group.
func quantize(weights []float32) format.Source {
	levels := kernels.Codebook.Weight().Levels
	src := format.Source{Codes: make([]byte, len(weights))}
	for g := 0; g < len(weights); g += group {
		largest := 0.0
		for _, v := range weights[g:][:group] {
			largest = max(largest, math.Abs(float64(v)))
		}
		scale := format.F16.Round(float32(largest / 9))
		src.Scales = append(src.Scales, scale)
		for i, v := range weights[g:][:group] {
			best := math.Inf(1)
			for code, level := range levels {
				if off := math.Abs(float64(v - scale*float32(level))); off < best {
					best, src.Codes[g+i] = off, byte(code)
				}
			}
		}
	}
	return src
}
