package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search/kernels"
)

// placing says where the products of a model run.
type placing struct {
	target string
	device string
}

func (x *placing) add(f *pflag.FlagSet) {
	f.StringVar(&x.target, "target", hostWord, "where products run: host, this CPU, or spirv, a device of Vulkan")
	deviceVar(f, &x.device)
}

func (x *placing) validate() error {
	_, known := spirv.ByName(x.target)
	switch {
	case !known && x.target != hostWord:
		return fmt.Errorf("-target %s: want %s, or spirv, for a device of Vulkan; TMACC_CPU narrows which kernels of this CPU run", quotedIfOdd(x.target), hostWord)
	case !known && x.device != "":
		return fmt.Errorf("-device %s: is for -target spirv", quotedIfOdd(x.device))
	}
	return nil
}

// elsewhere runs the command in the program with Vulkan, with the same arguments, if a device is asked for and this program has no Vulkan. It says whether it did.
func (c *cli) elsewhere(ctx context.Context, x placing, quiet bool) (bool, error) {
	if x.target == hostWord || openHere != nil {
		return false, nil
	}
	bar := newProgress(c.err, quiet)
	defer bar.done()
	lab, err := openLab(ctx, x.device, bar)
	if err != nil {
		return false, err
	}
	path, stays := lab.Program()
	if stays {
		lab.Close()
	} else {
		defer lab.Close()
	}
	bar.done()
	return true, c.instead(ctx, path, stays)
}

// place opens the device, if one is asked for.
func (c *cli) place(x placing) (*kernels.Device, error) {
	t, ok := spirv.ByName(x.target)
	if !ok {
		return nil, nil
	}
	here, err := openHere(x.device)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "vulkan: "))
	}
	c.caution(here.Device)
	return &kernels.Device{Here: here, Target: t.With(spirv.SpeedsOf(here.Device.Name))}, nil
}

// mainPackage is the package of this program in the sources.
func mainPackage() string {
	if openHere != nil {
		return "./cmd/tmacc/tmacc-vulkan"
	}
	return "./cmd/tmacc"
}
