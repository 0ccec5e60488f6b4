package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/shaders"
)

// whyFlags ask why a schedule is as it is.
type whyFlags struct {
	asked  bool
	ns     []int
	modes  []string
	placed bool // the user names modes
	most   int
}

// mostAlternatives is how many alternatives of a decision are shown unless the user asks for another number.
const mostAlternatives = 6

func whyVar(f *pflag.FlagSet, x *whyFlags) {
	f.BoolVar(&x.asked, "why", false, "show what the schedule decides and what alternatives would cost, instead of the stages")
	f.IntSliceVarP(&x.ns, "n", "n", nil, "with -why: activations per product (default the columns of the kernel)")
	f.StringSliceVar(&x.modes, "mode", []string{cost.L2.String(), cost.L3.String(), cost.DRAM.String()}, "with -why: where weights are; for CPUs")
	f.IntVar(&x.most, "most", mostAlternatives, "with -why: alternatives of each decision, at most")
}

// whyOnly are the flags that mean nothing without -why.
var whyOnly = []string{"n", "mode", "most"}

// check refuses flags that no schedule for a target can be asked about.
func (x whyFlags) check(on targets.Selector) error {
	if _, ok := on.(spirv.Target); ok && x.asked && x.placed {
		return errors.New("show: -mode: weights of shaders are in memory: leave it out with -target spirv")
	}
	for _, n := range x.ns {
		if n < 1 {
			return fmt.Errorf("show: -n %d: want 1 or more activations", n)
		}
	}
	if x.most < 1 {
		return fmt.Errorf("show: -most %d: want 1 or more alternatives", x.most)
	}
	_, err := x.places()
	return err
}

// places are where weights are.
func (x whyFlags) places() (out []cost.Place, err error) {
	for _, mode := range x.modes {
		at, err := cost.PlaceOf(mode)
		if err != nil {
			return nil, fmt.Errorf("show: -mode: %w", err)
		}
		out = append(out, at)
	}
	if len(out) == 0 {
		return nil, errors.New("show: -mode: want one place or more")
	}
	return out, nil
}

// reasons are what the schedule among stages decides.
func (x whyFlags) reasons(ctx context.Context, p ir.Problem, stages []build.Stage, on targets.Selector) (r build.Reasons, err error) {
	at, err := x.places()
	if err != nil {
		return r, err
	}
	if t, ok := on.(spirv.Target); ok {
		r, err = shaders.Why(ctx, p, stages, t, x.ns, x.most)
	} else {
		r, err = build.Why(ctx, p, stages, on.(targets.Target), x.ns, at, x.most)
	}
	r.Origin = originOf(stages)
	return r, err
}
