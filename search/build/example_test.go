package build_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/build"
)

// The schedule of w2 for one column, and the kernel that becomes of it.
func ExampleStages() {
	p, err := ir.Named("w2")
	if err != nil {
		log.Fatal(err)
	}
	target := targets.ByName("amd64/avx2")
	uses, err := beam.Product(context.Background(), p, target)
	if err != nil {
		log.Fatal(err)
	}
	trace, err := build.TraceFor(p, target, uses, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range build.Stages(p, trace, target) {
		fmt.Println(s.Name, s.Err)
	}
	// Output:
	// problem <nil>
	// expr <nil>
	// trace <nil>
	// nest <nil>
	// layout <nil>
	// vir <nil>
	// passes <nil>
	// machine <nil>
	// asm <nil>
	// cost <nil>
}
