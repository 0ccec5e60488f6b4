package gomod_test

import (
	"fmt"

	"github.com/tmacc/tmacc/gen/gomod"
)

// A module that requires a release of tmacc.
func ExampleModule() {
	m := gomod.Module{Path: "example.com/kernels", Version: "v1.2.3"}
	fmt.Printf("%s", m.File())
	// Output:
	// module example.com/kernels
	//
	// go 1.26.0
	//
	// require github.com/tmacc/tmacc v1.2.3
}
