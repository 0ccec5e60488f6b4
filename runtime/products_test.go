package runtime

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
)

// A product is found by what its codes mean and by its activations, whatever the format is called.
func TestProducts(t *testing.T) {
	w, a, err := blocks.Product("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := PureGo(w, a)
	if err != nil {
		t.Fatal(err)
	}
	ps := Products{p}
	w.Name, w.Bound = "mine", 7
	if have, err := ps.Product(w, a); have != p || err != nil {
		t.Error(have, err)
	}
	others := map[string]func(w *format.Weight, a *format.Act){
		"level": func(w *format.Weight, _ *format.Act) { w.Levels = append([]int{w.Levels[0] - 1}, w.Levels[1:]...) },
		"group": func(w *format.Weight, _ *format.Act) { w.Group *= 2 },
		"scale": func(w *format.Weight, _ *format.Act) { w.Scale = format.F32 },
		"act":   func(_ *format.Weight, a *format.Act) { a.Group *= 2 },
	}
	for name, change := range others {
		w, a := w, a
		change(&w, &a)
		if _, err := ps.Product(w, a); err == nil || !strings.Contains(err.Error(), "format mine") || !strings.Contains(err.Error(), "q4_0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
