package timing

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/cpuid/v2"

	"github.com/tmacc/tmacc/runtime/cpu"
)

// Host is the machine a figure was measured on.
type Host struct {
	CPU      string   `json:"cpu"` // as the processor calls itself, or the board
	Vendor   string   `json:"vendor"`
	Family   int      `json:"family"`
	Model    int      `json:"model"`
	Virtual  bool     `json:"virtual"`  // a hypervisor is between
	Features []string `json:"features"` // sorted, as Intel's manual names them
	Cores    int      `json:"cores"`    // logical, that the process may use
	L1D      int      `json:"l1d"`      // bytes, 0 if unknown
	L2       int      `json:"l2"`
	L3       int      `json:"l3"`
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	Go       string   `json:"go"`
}

// ThisHost asks the processor, the Go runtime and, of what a processor does not say about itself, Linux.
func ThisHost() Host { return thisHost() }

var thisHost = sync.OnceValue(func() Host {
	c := cpuid.CPU
	features := c.FeatureSet()
	slices.Sort(features)
	h := Host{
		CPU: oneLine(c.BrandName), Vendor: c.VendorString, Family: c.Family, Model: c.Model,
		Virtual: c.VM(), Features: features, Cores: runtime.NumCPU(),
		L1D: max(0, c.Cache.L1D), L2: max(0, c.Cache.L2), L3: max(0, c.Cache.L3),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
	}
	if h.CPU == "" {
		h.CPU = cmp.Or(boardName(os.DirFS("/")), partName(h), "nameless CPU")
	}
	if h.L1D == 0 && h.L2 == 0 && h.L3 == 0 {
		h.L1D, h.L2, h.L3 = cacheSizes(os.DirFS("/"))
	}
	return h
})

func oneLine(s string) string { return strings.Join(strings.Fields(strings.Trim(s, "\x00")), " ") }

// boardName is what the device tree calls the machine, which has a processor without a name: "Raspberry Pi 5 Model B Rev 1.0".
func boardName(root fs.FS) string {
	name, err := fs.ReadFile(root, "sys/firmware/devicetree/base/model")
	if err != nil {
		return ""
	}
	return oneLine(string(name))
}

// armParts are processors of Arm Limited by their part numbers, as Linux has them (arch/arm64/include/asm/cputype.h).
var armParts = map[int]string{
	0xd03: "Cortex-A53", 0xd04: "Cortex-A35", 0xd05: "Cortex-A55", 0xd07: "Cortex-A57", 0xd08: "Cortex-A72", 0xd09: "Cortex-A73",
	0xd0a: "Cortex-A75", 0xd0b: "Cortex-A76", 0xd0d: "Cortex-A77", 0xd41: "Cortex-A78", 0xd44: "Cortex-X1", 0xd46: "Cortex-A510",
	0xd47: "Cortex-A710", 0xd48: "Cortex-X2", 0xd4d: "Cortex-A715", 0xd4e: "Cortex-X3",
	0xd0c: "Neoverse N1", 0xd40: "Neoverse V1", 0xd49: "Neoverse N2", 0xd4f: "Neoverse V2",
}

// partName is what a processor of Arm's architecture says about itself: "Arm Limited Neoverse N1", or by its number "Arm Limited part 0xd99".
func partName(h Host) string {
	if h.Arch != "arm64" || h.Vendor == "" {
		return ""
	}
	part := h.Model >> 4 // of the lower half of MIDR_EL1, which ends with the revision
	if name := armParts[part]; name != "" && h.Vendor == "Arm Limited" {
		return h.Vendor + " " + name
	}
	return fmt.Sprintf("%s part %#x", h.Vendor, part)
}

// cacheSizes are the largest data caches that Linux knows of any core, in bytes, 0 if it knows none of a level.
func cacheSizes(root fs.FS) (l1d, l2, l3 int) {
	caches, err := fs.Glob(root, "sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*")
	if err != nil {
		return 0, 0, 0
	}
	sizes := map[string]int{}
	for _, dir := range caches {
		text := func(name string) string {
			b, err := fs.ReadFile(root, dir+"/"+name)
			if err != nil {
				return ""
			}
			return oneLine(string(b))
		}
		kib, err := strconv.Atoi(strings.TrimSuffix(text("size"), "K"))
		if level := text("level"); err == nil && text("type") != "Instruction" && kib < 1<<22 {
			sizes[level] = max(sizes[level], kib<<10)
		}
	}
	return sizes["1"], sizes["2"], sizes["3"]
}

// String is the host on one line: "Intel(R) Xeon(R) Processor (family 6 model 207,
// virtual), 2 cores, L1d 48 KiB, L2 2048 KiB, L3 260 MiB, linux/amd64, go1.26.0".
func (h Host) String() string {
	id := fmt.Sprintf("family %d model %d", h.Family, h.Model)
	if h.Arch == "arm64" {
		id = fmt.Sprintf("part %#x", h.Model>>4)
	}
	if h.Virtual {
		id += ", virtual"
	}
	return fmt.Sprintf("%s (%s), %d cores, L1d %d KiB, L2 %d KiB, L3 %d MiB, %s/%s, %s",
		h.CPU, id, h.Cores, h.L1D>>10, h.L2>>10, h.L3>>20, h.OS, h.Arch, h.Go)
}

// ID is what the processor says of itself.
func (h Host) ID() cpu.ID { return cpu.ID{Vendor: h.Vendor, Family: h.Family, Model: h.Model} }

// Lacks names the features of a list that h does not have.
func (h Host) Lacks(features []string) (missing []string) {
	for _, name := range features {
		if !slices.Contains(h.Features, name) {
			missing = append(missing, name)
		}
	}
	return missing
}
