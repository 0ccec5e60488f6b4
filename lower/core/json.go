package core

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// Version is the version of the files that JSON writes. Parse reads files from version oldest on: fields that came later may be missing.
const (
	Version = 5
	oldest  = 3 // without hierarchy.shared; 4 is without pipeline.results and wide_results
)

// file is a core in JSON.
type file struct {
	Version   int                `json:"version"`
	Name      string             `json:"name"`
	ISAs      []string           `json:"isas"`
	CPUs      []cpu.Set          `json:"cpus"`
	Costs     map[Class]fileCost `json:"costs"`
	Pipeline  Pipeline           `json:"pipeline"`
	Hierarchy Hierarchy          `json:"hierarchy"`
}

// fileCost is a Cost in JSON.
type fileCost struct {
	Tenths   int   `json:"tenths"`
	Busy     []int `json:"busy,omitempty"`
	Wide     int   `json:"wide,omitempty"`
	WideBusy []int `json:"wide_busy,omitempty"`

	Latency   int    `json:"latency"`
	Ports     string `json:"ports"`
	WidePorts string `json:"wide_ports,omitempty"`
}

// JSON returns c as Parse reads it, except for Own: Parse sets it, because a file describes a user's own core.
func (c Core) JSON() ([]byte, error) {
	f := file{Version, c.Name, c.ISAs, append([]cpu.Set{}, c.CPUs...), map[Class]fileCost{}, c.Pipeline, c.Hierarchy}
	for class, cost := range c.Costs {
		f.Costs[class] = fileCost(cost)
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, err
	}
	for _, short := range []*regexp.Regexp{shortList, shortObject} {
		data = short.ReplaceAllFunc(data, func(text []byte) []byte { return lineBreak.ReplaceAll(text, []byte(" ")) })
	}
	return data, nil
}

// What JSON has on one line. Texts in it have no line breaks.
var (
	shortList   = regexp.MustCompile(`\[[0-9,\s]*\]`)
	shortObject = regexp.MustCompile(`\{[^{}]*\}`)
	lineBreak   = regexp.MustCompile(`\n\s*`)
)

// Parse reads a core of the user's own. The file must have every field that JSON writes. An error is one line, which
// names the field and what it wants. Parse does not know which instruction sets and classes an architecture has.
func Parse(data []byte) (Core, error) {
	var head struct{ Version *int }
	var kind *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, &head); {
	case errors.As(err, &kind): // which UnmarshalWhole names
	case err != nil:
		return Core{}, err
	case head.Version == nil:
		return Core{}, fmt.Errorf("version is missing: want %d, with the fields that tmacc cores -json NAME prints", Version)
	case *head.Version > Version: // whose fields may be others
		return Core{}, fmt.Errorf("version is %d: this tmacc reads up to version %d: use a newer tmacc", *head.Version, Version)
	case *head.Version < oldest:
		return Core{}, fmt.Errorf("version is %d: want %d: start again from what tmacc cores -json NAME prints", *head.Version, Version)
	}
	var f file
	if err := format.UnmarshalWhole(data, &f); err != nil {
		return Core{}, err
	}
	c := Core{Name: f.Name, ISAs: f.ISAs, CPUs: f.CPUs, Own: true, Pipeline: f.Pipeline, Hierarchy: f.Hierarchy}
	c.Costs = Costs{}
	for class, cost := range f.Costs {
		c.Costs[class] = Cost(cost)
	}
	return c, c.Validate()
}

// goodName is what names of cores look like: they are parts of names of files, symbols and targets.
var goodName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// systems are the values of GOOS: a file called x_linux_amd64.s is built on Linux only.
var systems = []string{
	"aix", "android", "darwin", "dragonfly", "freebsd", "hurd", "illumos", "ios", "js", "linux", "nacl", "netbsd", "openbsd",
	"plan9", "solaris", "wasip1", "windows", "zos",
}

// The most that a core may have of each.
const (
	maxName   = 40 // bytes of its name
	maxVendor = 64 // bytes of the name of a vendor
	maxSets   = 64 // sets of CPUs
	maxCPU    = 1 << 20
	maxTenths = 10000
	maxBusy   = 4 // sets of execution units
)

// Validate returns an error that names the first field of c that has no sensible value, and what it wants.
func (c Core) Validate() error {
	if len(c.Name) > maxName || !goodName.MatchString(c.Name) {
		return fmt.Errorf("name is %.60q: want up to %d small letters, digits and single dashes, a letter first", c.Name, maxName)
	}
	if last := c.Name[strings.LastIndexByte(c.Name, '-')+1:]; slices.Contains(systems, last) {
		return fmt.Errorf("name is %q: want one that does not end in %q, by which Go would build its kernels on that system only", c.Name, last)
	}
	if len(c.ISAs) == 0 {
		return errors.New("isas is empty: want instruction sets, see tmacc targets")
	}
	for _, check := range []func() error{c.checkCPUs, c.checkCosts, c.Pipeline.check, c.Hierarchy.check} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c Core) checkCPUs() error {
	if len(c.CPUs) > maxSets {
		return fmt.Errorf("cpus has %d sets: want at most %d", len(c.CPUs), maxSets)
	}
	for i, s := range c.CPUs {
		at := fmt.Sprintf("cpus[%d]", i)
		if s.Vendor == "" || len(s.Vendor) > maxVendor {
			return fmt.Errorf("%s.vendor is %.80q: want 1 to %d bytes, as tmacc host -json prints it", at, s.Vendor, maxVendor)
		}
		for _, r := range []struct {
			what        string
			first, last int
		}{{"family", s.FirstFamily, s.LastFamily}, {"model", s.FirstModel, s.LastModel}} {
			switch {
			case r.first < 0 || r.first > maxCPU:
				return fmt.Errorf("%s.first_%s is %d: want 0 to %d", at, r.what, r.first, maxCPU)
			case r.last != 0 && (r.last < r.first || r.last > maxCPU):
				return fmt.Errorf("%s.last_%s is %d: want 0, for no limit, or %d to %d", at, r.what, r.last, r.first, maxCPU)
			}
		}
	}
	return nil
}

func (c Core) checkCosts() error {
	for _, class := range slices.Sorted(maps.Keys(c.Costs)) {
		cost, at := c.Costs[class], "costs."+format.PathName(string(class))
		err := cmp.Or(
			within(at+".tenths", cost.Tenths, 1, maxTenths), checkBusy(at+".busy", cost.Busy),
			within(at+".wide", cost.Wide, 0, maxTenths), checkBusy(at+".wide_busy", cost.WideBusy),
			within(at+".latency", cost.Latency, 0, maxLatency), checkPorts(at+".ports", cost.Ports))
		if err == nil && cost.WidePorts != "" {
			err = checkPorts(at+".wide_ports", cost.WidePorts)
		}
		if err != nil {
			return err
		}
		if cost.Wide == 0 && cost.WideBusy != nil {
			return fmt.Errorf("%s.wide is missing: want it with wide_busy", at)
		}
	}
	return nil
}

// checkBusy refuses a list that has no time for a set of execution units.
func checkBusy(at string, busy []int) error {
	if busy != nil && (len(busy) == 0 || len(busy) > maxBusy) {
		return fmt.Errorf("%s has %d numbers: want 1 to %d, one for each set of execution units, or leave it out", at, len(busy), maxBusy)
	}
	for i, tenths := range busy {
		if err := within(fmt.Sprintf("%s[%d]", at, i), tenths, 0, maxTenths); err != nil {
			return err
		}
	}
	return nil
}

func within(at string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s is %d: want %d to %d", at, n, least, most)
	}
	return nil
}

func between(at string, x, least, most float64) error {
	if !(x >= least && x <= most) { // NaN is not
		return fmt.Errorf("%s is %v: want %v to %v", at, x, least, most)
	}
	return nil
}
