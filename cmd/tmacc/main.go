// Command tmacc compiles low-bit matrix products to Go packages.
package main

import (
	"os"

	"github.com/tmacc/tmacc/search/measure/llama"
	"github.com/tmacc/tmacc/search/session"
)

func main() {
	llama.Main()
	session.Main()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
