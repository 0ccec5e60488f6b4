package spirv

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// Speeds are what a device does at best, and what its processors hold. Default schedules are chosen by them. They change no bit of a
// result.
type Speeds struct {
	Name    string   `json:"name"`
	Devices []string `json:"devices"` // that have them, as their drivers name them; none: all that no other speeds name

	Read         float64 `json:"read_gb_s"`      // bytes from memory, 10^9/s
	Instructions float64 `json:"instructions_g"` // on words, of all lanes, 10^9/s
	Dots         float64 `json:"dots_g"`         // dot products of four bytes in a word, of all lanes, 10^9/s
	Lines        float64 `json:"lines_g"`        // lines of 128 bytes that all processors touch, if they are in a cache, 10^9/s
	Matrices     float64 `json:"matrices_tops"`  // products and sums of bytes by cooperative matrices, 10^12/s; 0: none
	Launch       float64 `json:"launch_ns"`      // a dispatch that does nothing, after another
	Start        float64 `json:"start_ns"`       // what a dispatch takes besides that reads next to nothing
	Latency      float64 `json:"latency_ns"`     // of a load from memory
	Step         float64 `json:"step_ns"`        // from one instruction of a lane to the next, of two chains of them

	Processors int `json:"processors"` // that run workgroups independently
	Lanes      int `json:"lanes"`      // that a processor holds at once
	Groups     int `json:"groups"`     // workgroups that a processor holds at once
	Words      int `json:"words"`      // of registers of a processor
	Shared     int `json:"shared"`     // bytes that a workgroup may share
	Subgroup   int `json:"subgroup"`   // lanes that run together

	Shapes [][3]int `json:"shapes"` // rows, columns and depth of cooperative matrices of bytes
}

// speeds are the built-in ones, first the general ones.
var speeds = []Speeds{general, h200}

// AllSpeeds lists the built-in speeds. The first are for devices that the others do not name.
func AllSpeeds() []Speeds { return slices.Clone(speeds) }

// String names the device, and says if it is none.
func (s Speeds) String() string {
	if s.Name == general.Name {
		return s.Name + ", of no device in particular"
	}
	return s.Name
}

// SpeedsOf are the speeds of a device with a name.
func SpeedsOf(device string) Speeds {
	for _, s := range speeds {
		if slices.Contains(s.Devices, device) {
			return s
		}
	}
	return general
}

// SpeedsCalled are the built-in speeds of a name.
func SpeedsCalled(name string) (Speeds, bool) {
	i := slices.IndexFunc(speeds, func(s Speeds) bool { return s.Name == name })
	if i < 0 {
		return Speeds{}, false
	}
	return speeds[i], true
}

// With is t for a device of some speeds.
func (t Target) With(s Speeds) Target {
	t.speeds = &s
	return t
}

// Speeds are the ones that t was made for, or the general ones.
func (t Target) Speeds() Speeds {
	if t.speeds == nil {
		return general
	}
	return *t.speeds
}

// speedsVersion is the version of the files that JSON writes and ParseSpeeds reads.
const speedsVersion = 1

// speedsFile is Speeds in JSON.
type speedsFile struct {
	Version int `json:"device_version"`
	Speeds
}

// JSON returns s as ParseSpeeds reads it.
func (s Speeds) JSON() ([]byte, error) {
	s.Devices, s.Shapes = append([]string{}, s.Devices...), append([][3]int{}, s.Shapes...)
	data, err := json.MarshalIndent(speedsFile{speedsVersion, s}, "", "  ")
	return list.ReplaceAllFunc(data, func(text []byte) []byte { return spaces.ReplaceAll(text, nil) }), err
}

// JSON has lists of numbers on one line.
var list, spaces = regexp.MustCompile(`\[[0-9,\s]*\]`), regexp.MustCompile(`\s+`)

// ParseSpeeds reads the speeds of a device. An error is one line, which names the field and what it wants.
func ParseSpeeds(data []byte) (Speeds, error) {
	var head struct {
		Version *int `json:"device_version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Speeds{}, err
	}
	if head.Version == nil || *head.Version != speedsVersion {
		return Speeds{}, fmt.Errorf("device_version is missing or another: want %d, with the fields that tmacc host -target spirv -json prints", speedsVersion)
	}
	var f speedsFile
	if err := format.UnmarshalWhole(data, &f); err != nil {
		return Speeds{}, err
	}
	return f.Speeds, f.Validate()
}

var speedsName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Validate returns an error that names the first field of s that has no sensible value.
func (s Speeds) Validate() error {
	const longest, mostShapes, mostRate, mostNs, mostCount = 40, 64, 1e9, 1e9, 1 << 24
	if len(s.Name) > longest || !speedsName.MatchString(s.Name) {
		return fmt.Errorf("name is %.60q: want up to %d small letters, digits and single dashes, a letter first", s.Name, longest)
	}
	between := func(field string, x, least, most float64) error {
		if !(x >= least && x <= most) {
			return fmt.Errorf("%s is %v: want %v to %v", field, x, least, most)
		}
		return nil
	}
	err := cmp.Or(
		between("read_gb_s", s.Read, 1e-3, mostRate), between("instructions_g", s.Instructions, 1e-3, mostRate), between("dots_g", s.Dots, 1e-3, mostRate), between("lines_g", s.Lines, 1e-3, mostRate), between("matrices_tops", s.Matrices, 0, mostRate),
		between("launch_ns", s.Launch, 0, mostNs), between("start_ns", s.Start, 0, mostNs), between("latency_ns", s.Latency, 1, mostNs), between("step_ns", s.Step, 1e-3, mostNs),
		between("processors", float64(s.Processors), 1, mostCount), between("lanes", float64(s.Lanes), 1, mostCount), between("groups", float64(s.Groups), 1, mostCount),
		between("words", float64(s.Words), 1, mostCount), between("shared", float64(s.Shared), 1, mostCount), between("subgroup", float64(s.Subgroup), 1, 1<<10),
		between("the number of shapes", float64(len(s.Shapes)), 0, mostShapes))
	for i, x := range s.Shapes {
		for _, n := range x {
			err = cmp.Or(err, between(fmt.Sprintf("shapes[%d]", i), float64(n), 1, 1<<10))
		}
	}
	return err
}
