package shaders

import (
	"errors"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
)

// TestVerify: kernels are left out that the device refuses, also where it runs the product by the others, which would fail once they are measured.
func TestVerify(t *testing.T) {
	columns := func(v *variant.Shaders) (all []int) {
		for _, k := range v.Kernels {
			all = append(all, k.Schedule.Cols)
		}
		return all
	}
	refused := &Refused{What: "w2", Why: "w2: kernel n4: a workgroup shares 43008 bytes, the device has 32768"}
	missing := errors.New("the process cannot be started")
	for name, c := range map[string]struct {
		whole   error // of a product that has the kernel of 4 columns
		skipped []string
		alone   error // of that kernel
		left    []int
		want    []int
		err     error
	}{
		"all run":          {want: []int{1, 4}},
		"one is skipped":   {skipped: []string{"n4: shares"}, alone: refused, left: []int{4}, want: []int{1}},
		"one is refused":   {whole: refused, alone: refused, left: []int{4}, want: []int{1}},
		"only together":    {whole: refused, want: []int{1, 4}, err: refused},
		"it is no verdict": {whole: missing, want: []int{1, 4}, err: missing},
	} {
		v := &variant.Shaders{Kernels: []variant.Shaded{{Schedule: &schedule.Kernel{Cols: 1}}, {Schedule: &schedule.Kernel{Cols: 4}}}}
		left, err := verify(v, func(v *variant.Shaders) ([]string, error) {
			switch {
			case len(v.Kernels) == 2:
				return c.skipped, c.whole
			case v.Kernels[0].Schedule.Cols == 4:
				return nil, c.alone
			}
			return nil, nil
		})
		var gone []int
		for _, x := range left {
			gone = append(gone, x.Columns)
		}
		if err != c.err || !slices.Equal(gone, c.left) || !slices.Equal(columns(v), c.want) {
			t.Errorf("%s: %v left out, %v kept, %v", name, gone, columns(v), err)
		}
	}
}
