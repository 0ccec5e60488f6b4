// Command tmacc-vulkan is tmacc with Vulkan: it runs shaders on devices. tmacc starts it for that and has no Vulkan itself, as on Linux a program with it is
// linked dynamically. It lies beside tmacc or in PATH.
package main

import (
	"github.com/tmacc/tmacc/cmd/tmacc/command"
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/worker"
)

func main() {
	worker.ServeDevice(&device.Server{})
	command.Main(device.Here)
}
