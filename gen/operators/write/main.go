// Command write writes the generated files of a package of float operators into a folder.
package main

import (
	"fmt"
	"os"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/operators"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: write FOLDER")
		os.Exit(2)
	}
	files, err := operators.Package()
	if err == nil {
		err = gen.Write(os.Args[1], files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
