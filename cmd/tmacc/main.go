// Command tmacc compiles low-bit matrix products to Go packages.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
