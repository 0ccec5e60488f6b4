// Command tmacc-vulkan runs shaders on devices of Vulkan for tmacc, which starts it and has no Vulkan itself: on Linux a program with it is
// linked dynamically. It lies beside tmacc or in PATH.
package main

import (
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/worker"
)

func main() { worker.ServeDevice(&device.Server{}) }
