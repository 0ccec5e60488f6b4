package order_test

import (
	"fmt"
	"log"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/lower/targets"
)

// The products that a built-in model needs, and the matrices of each.
func Example() {
	o, err := order.New(order.Options{Act: order.UsualAct(), Targets: targets.Ordinary()})
	if err != nil {
		log.Fatal(err)
	}
	if err := o.AddModel("llama-2-7b-2bit"); err != nil {
		log.Fatal(err)
	}
	for _, p := range o.Products {
		for _, s := range p.Shapes {
			fmt.Printf("%s, %s: %d of %d x %d\n", p.Name(), p.Problem.Name(), s.Count, s.M, s.K)
		}
	}
	fmt.Println(len(o.Tensors(o.Products)), "tensors")
	// Output:
	// W2G128, w2-g128: 128 of 4096 x 4096
	// W2G128, w2-g128: 64 of 11008 x 4096
	// W2G128, w2-g128: 32 of 4096 x 11008
	// Q80, q8_0: 1 of 32000 x 4096
	// 225 tensors
}
