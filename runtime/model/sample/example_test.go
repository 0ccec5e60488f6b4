package sample_test

import (
	"fmt"

	"github.com/tmacc/tmacc/runtime/model/sample"
)

// The same logits and seed give the same tokens on every machine.
func ExampleSampler() {
	s, err := sample.New(sample.Options{Temperature: 0.8, TopK: 3, Repeat: 1.3, Seed: 42})
	if err != nil {
		panic(err)
	}
	s.Accept(1, 4) // the prompt
	logits := []float32{0.5, 2.5, 1, 2, 2.2, -1}
	for range 5 {
		fmt.Println(s.Next(logits))
	}
	_, err = sample.New(sample.Options{TopP: 1.5})
	fmt.Println(err)
	// Output:
	// 3
	// 4
	// 1
	// 1
	// 3
	// sample: TopP 1.5: want more than 0, up to 1: all
}
