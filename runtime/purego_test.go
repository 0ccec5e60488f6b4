package runtime

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// Products without kernels equal their definition.
func TestPureGo(t *testing.T) {
	for _, c := range []struct {
		name string
		act  int
	}{{"w4-g32", 32}, {"tq2_0", 256}, {"w2", 0}} {
		w, err := format.Lookup(c.name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := PureGo(w, format.Act{Group: c.act})
		if err != nil {
			t.Fatal(err)
		}
		if p.Target() != pureGo || p.Name() != c.name {
			t.Errorf("%s runs on %s", p.Name(), p.Target())
		}
		if err := SelfTest(p, rand.New(rand.NewPCG(1, 2))); err != nil {
			t.Error(err)
		}
	}
}

func TestPureGoRefuses(t *testing.T) {
	w, err := format.Lookup("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PureGo(w, format.Act{Group: 48}); err == nil || !strings.Contains(err.Error(), "48") {
		t.Errorf("a group that does not fit: %v", err)
	}
	if _, err := PureGo(format.Weight{Name: "nothing"}, format.Act{}); err == nil {
		t.Error("a format without levels is taken")
	}
}
