package timing

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// Host is the machine a figure was measured on.
type Host struct {
	CPU      string   `json:"cpu"` // as the processor calls itself
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

// ThisHost asks the processor and the Go runtime.
func ThisHost() Host {
	c := cpuid.CPU
	features := c.FeatureSet()
	slices.Sort(features)
	return Host{
		CPU: strings.Join(strings.Fields(c.BrandName), " "), Vendor: c.VendorString, Family: c.Family, Model: c.Model,
		Virtual: c.VM(), Features: features, Cores: runtime.NumCPU(),
		L1D: max(0, c.Cache.L1D), L2: max(0, c.Cache.L2), L3: max(0, c.Cache.L3),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
	}
}

// String is the host on one line: "Intel(R) Xeon(R) Processor (family 6 model 207,
// virtual), 2 cores, L1d 48 KiB, L2 2048 KiB, L3 260 MiB, linux/amd64, go1.26.0".
func (h Host) String() string {
	id := fmt.Sprintf("family %d model %d", h.Family, h.Model)
	if h.Virtual {
		id += ", virtual"
	}
	return fmt.Sprintf("%s (%s), %d cores, L1d %d KiB, L2 %d KiB, L3 %d MiB, %s/%s, %s",
		h.CPU, id, h.Cores, h.L1D>>10, h.L2>>10, h.L3>>20, h.OS, h.Arch, h.Go)
}

// Lacks names the features of a list that h does not have.
func (h Host) Lacks(features []string) (missing []string) {
	for _, name := range features {
		if !slices.Contains(h.Features, name) {
			missing = append(missing, name)
		}
	}
	return missing
}
