// Command tmacc compiles low-bit matrix products to Go packages.
package main

import "github.com/tmacc/tmacc/cmd/tmacc/command"

func main() { command.Main(nil) }
