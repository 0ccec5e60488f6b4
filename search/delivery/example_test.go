package delivery_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/delivery"
)

// A package for products of w2 on AVX2, which is written and not checked.
func Example() {
	dir, err := os.MkdirTemp("", "kernels")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	on := []lower.Target{targets.ByName("avx2")}
	o, err := order.New(order.Options{Act: order.Act{Elem: order.Int8}, Targets: on})
	if err != nil {
		log.Fatal(err)
	}
	if err := o.AddFormat("w2"); err != nil {
		log.Fatal(err)
	}
	p, err := delivery.New(delivery.Options{Order: o, Targets: on, Dir: dir, Name: "kernels", Module: "none", Unchecked: true})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := p.Compile(context.Background()); err != nil {
		log.Fatal(err)
	}
	if err := p.Write(); err != nil {
		log.Fatal(err)
	}
	r := p.Report()
	fmt.Println(r.Package, r.Products[0].Name, r.Products[0].Kernels[0].Name)
	// Output: kernels W2 w2_avx2_n1
}
