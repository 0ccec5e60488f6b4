// Command program prints what identifies it, and what its folder of schedules has.
package main

import (
	"fmt"

	"github.com/tmacc/tmacc/runtime/cache"
)

func main() {
	fmt.Println(cache.ThisProgram())
	path, err := cache.Path("schedules")
	if err != nil {
		panic(err)
	}
	f, err := cache.Open(path)
	if err != nil {
		panic(err)
	}
	files, _, err := f.Size()
	if err != nil {
		panic(err)
	}
	fmt.Println(files, "file")
}
