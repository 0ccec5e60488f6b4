package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search/targeting"
)

// calibratedDevice is the name of speeds that were measured here: their file's owner may give them a better one.
const calibratedDevice = "my-device"

// speedsOf are the speeds of a device that a word of -core stands for: their name, or the path of a file. ok says that it does not stand
// for a core of CPUs.
func (c *cli) speedsOf(word string) (s spirv.Speeds, ok bool, err error) {
	if !targeting.IsFile(word) {
		s, ok = spirv.SpeedsCalled(word)
		return s, ok, nil
	}
	data, err := c.inputs().JSON(word, "a core, or a device, as tmacc host -calibrate -target spirv -json prints one")
	if err != nil {
		return s, false, err
	}
	var head map[string]json.RawMessage
	if err := json.Unmarshal(data, &head); err != nil {
		return s, false, order.Lined(word, data, err)
	}
	if head["device_version"] == nil {
		return s, false, nil
	}
	if s, err = spirv.ParseSpeeds(data); err != nil {
		err = fmt.Errorf("%s: %w", word, err)
	}
	return s, true, err
}

// deviceCalled are the speeds of a device that a word of -core stands for, where it cannot stand for a core.
func (c *cli) deviceCalled(word string) (spirv.Speeds, error) {
	s, ok, err := c.speedsOf(word)
	if err == nil && !ok {
		err = fmt.Errorf("-core %s: is not of a device, as -target spirv wants: have %s, and files of tmacc host -calibrate -target spirv -json%s",
			quotedIfOdd(word), strings.Join(speedsNames(), ", "), format.Meant(word, speedsNames()))
	}
	return s, err
}

// chosenSpeeds are the speeds of the device that cores, the words of -core, stand for; nil: there is no word.
func (c *cli) chosenSpeeds(cores []string) (*spirv.Speeds, error) {
	switch len(cores) {
	case 0:
		return nil, nil
	case 1:
		s, err := c.deviceCalled(cores[0])
		return &s, err
	}
	return nil, fmt.Errorf("-core %s: default schedules of shaders are for one device: name one", strings.Join(cores, ","))
}

// withSpeeds are targets of shaders for chosen speeds, or for usual ones if there are none.
func withSpeeds(ts []spirv.Target, chosen *spirv.Speeds, usual spirv.Speeds) (out []spirv.Target) {
	if chosen == nil {
		chosen = &usual
	}
	for _, t := range ts {
		out = append(out, t.With(*chosen))
	}
	return out
}

func speedsNames() (names []string) {
	for _, s := range spirv.AllSpeeds() {
		names = append(names, s.Name)
	}
	return names
}

// hostDevice describes a device of Vulkan, and with calibrate measures what it does at best.
func (c *cli) hostDevice(ctx context.Context, target, device string, calibrate, asJSON bool) error {
	if _, err := shaderTargets([]string{target}); err != nil {
		return err
	}
	if _, ok := spirv.ByName(target); !ok {
		return fmt.Errorf("host -target %s: want spirv: without -target, host describes this machine's CPU", quotedIfOdd(target))
	}
	bar := newProgress(c.err, false)
	defer bar.done()
	lab, err := c.openDevice(ctx, device, bar)
	if err != nil {
		return err
	}
	defer lab.Close()
	known := lab.Speeds()
	s := known
	if calibrate {
		bar.step("measuring what %s can do", lab.Device().Name)
		if s, err = lab.Calibrate(ctx); err != nil {
			return err
		}
		s.Name = calibratedDevice
		if err := s.Validate(); err != nil {
			return fmt.Errorf("host -calibrate: the measurements make no device, perhaps because of other programs on it: measure again: %w", err)
		}
		bar.done()
	}
	if asJSON {
		return printSpeeds(c.out, s)
	}
	fmt.Fprintf(c.out, "%v\n\n", lab.Device())
	speedsTable(s, known, calibrate).print(c.out, widthOf(c.out))
	if calibrate {
		fmt.Fprintf(c.out, "\nFor a file that -core accepts with -target spirv: tmacc host -calibrate -target spirv -json > %s.json\n", calibratedDevice)
	}
	return nil
}

// printSpeeds prints speeds as -core reads them.
func printSpeeds(w io.Writer, s spirv.Speeds) error {
	data, err := s.JSON()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// speedsTable shows speeds, with the known ones beside if both is set.
func speedsTable(s, known spirv.Speeds, both bool) *table {
	t := &table{head: []string{"", known.Name}, wide: 0}
	if both {
		t.head = []string{"", "here", known.Name}
	}
	row := func(what string, of func(spirv.Speeds) any) {
		if both {
			t.add(what, fmt.Sprint(of(s)), fmt.Sprint(of(known)))
		} else {
			t.add(what, fmt.Sprint(of(s)))
		}
	}
	row("reading, GB/s", func(s spirv.Speeds) any { return s.Read })
	row("instructions on words, 10^9/s", func(s spirv.Speeds) any { return s.Instructions })
	row("dot products of words, 10^9/s", func(s spirv.Speeds) any { return s.Dots })
	row("lines that lanes touch, 10^9/s", func(s spirv.Speeds) any { return s.Lines })
	row("cooperative matrices of bytes, TOPS", func(s spirv.Speeds) any { return s.Matrices })
	row("their shapes", func(s spirv.Speeds) any { return shapesOf(s) })
	row("a dispatch after another, ns", func(s spirv.Speeds) any { return s.Launch })
	row("one that reads little, ns more", func(s spirv.Speeds) any { return s.Start })
	row("a load from memory, ns", func(s spirv.Speeds) any { return s.Latency })
	row("an instruction of a lane, ns", func(s spirv.Speeds) any { return s.Step })
	row("processors", func(s spirv.Speeds) any { return s.Processors })
	row("lanes of a processor", func(s spirv.Speeds) any { return s.Lanes })
	row("workgroups of a processor", func(s spirv.Speeds) any { return s.Groups })
	row("words of registers of a processor", func(s spirv.Speeds) any { return s.Words })
	row("bytes that a workgroup shares", func(s spirv.Speeds) any { return s.Shared })
	row("lanes of a subgroup", func(s spirv.Speeds) any { return s.Subgroup })
	return t
}

// shapesOf names shapes of cooperative matrices.
func shapesOf(s spirv.Speeds) string {
	var all []string
	for _, x := range s.Shapes {
		all = append(all, fmt.Sprintf("%dx%dx%d", x[0], x[1], x[2]))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, " ")
}

// errNotDevice refuses the speeds of a device where kernels of CPUs are asked for.
var errNotDevice = errors.New("is of a device: give it with -target spirv")
