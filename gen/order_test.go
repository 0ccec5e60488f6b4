package gen_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
)

// featured is a toy that needs CPU features.
type featured struct {
	toy
	has lower.Features
}

func (t featured) Machine() lower.Machine {
	return lower.Machine{Name: t.name, ISA: lower.ISA{Name: t.name, Has: t.has}}
}

// permuted are the orders of n things.
func permuted(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, p := range permuted(n - 1) {
		for at := range n {
			out = append(out, append(append(append([]int{}, p[:at]...), n-1), p[at:]...))
		}
	}
	return out
}

// Programs try targets with more features first, and a package has the same bytes, in whatever order a caller gives them.
func TestOrderOfTargets(t *testing.T) {
	s := toySpec(t)
	given := s.Products[0].Variants
	for i, target := range []featured{{toy{name: "amd64/few"}, 1}, {toy{name: "amd64/more"}, 1 | 4}, {toy{name: "arm64/arm"}, 2}} {
		given[i].Target = target
	}
	var first []lower.File
	for _, order := range permuted(len(given)) {
		targets := make([]variant.Variant, len(given))
		for i, from := range order {
			targets[i] = given[from]
		}
		s.Products[0].Variants = targets
		files, err := gen.Package(s)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = files
		}
		for i, f := range files {
			if f.Name != first[i].Name || !bytes.Equal(f.Data, first[i].Data) {
				t.Errorf("%v: %s differs from that of another order", order, f.Name)
			}
			if f.Name == "toy_dispatch_amd64.go" && strings.Index(string(f.Data), "amd64/more") > strings.Index(string(f.Data), "amd64/few") {
				t.Errorf("%v: %s prefers what needs fewer features", order, f.Name)
			}
		}
		if len(files) != len(first) {
			t.Errorf("%v: %d files, not %d", order, len(files), len(first))
		}
	}
}
