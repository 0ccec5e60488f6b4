package inference

import (
	"errors"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/oracle"
)

// TestFloats: a model of floats is measured as others are, its matrices alone too.
func TestFloats(t *testing.T) {
	for _, typeName := range []string{"F16", "F32", "BF16"} {
		f, err := oracle.NewTiny("llama", oracle.Same(typeName)).File()
		if err != nil {
			t.Fatal(err)
		}
		x, err := Load(f, model.PureGo{}, model.Options{}, func(int64, int64) {})
		if err != nil {
			t.Fatalf("%s: %v", typeName, err)
		}
		if _, err := x.Forward(t.Context(), []int{1, 2, 3}); err != nil {
			t.Errorf("%s: %v", typeName, err)
		}
		if err := errors.Join(x.Products(3), x.Products(1)); err != nil {
			t.Errorf("%s: %v", typeName, err)
		}
		if n := len(x.alone.matrices); n < 8 {
			t.Errorf("%s: %d matrices alone", typeName, n)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExperts: of experts the chosen ones count, which are all that a token reads.
func TestExperts(t *testing.T) {
	f, err := oracle.NewTinyExperts("llama", 8, oracle.Same("Q4_0")).File()
	if err != nil {
		t.Fatal(err)
	}
	x, err := Load(f, model.PureGo{}, model.Options{}, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Products(2); err != nil {
		t.Error(err)
	}
	const layer, head = 256*(256+128+128+256) + 256*8 + 2*3*256*256, 256 * 70 // attention, router, two experts
	m := Describe("", f, model.CacheF16)
	if m.MACs != 2*layer+head || m.Weights != m.MACs*18/32 {
		t.Errorf("%d elements and %d bytes, want %d and %d", m.MACs, m.Weights, 2*layer+head, (2*layer+head)*18/32)
	}
	if n := len(x.alone.matrices); n != 2*(4+1+2*3)+1 {
		t.Errorf("%d matrices alone", n)
	}
}

// once provides products for a model, and none for its matrices alone.
type once struct{ left int }

func (k *once) Product(w format.Weight, a format.Act) (*runtime.Product, error) {
	if k.left--; k.left < 0 {
		return nil, errors.New("no kernels today")
	}
	return model.PureGo{}.Product(w, a)
}

// TestLoadFails: what fails after the model was read frees it, and says why.
func TestLoadFails(t *testing.T) {
	f, err := oracle.NewTiny("llama", oracle.Same("Q4_0")).File()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(f, &once{1}, model.Options{}, func(int64, int64) {}); err == nil || !strings.Contains(err.Error(), "no kernels today") {
		t.Errorf("%v", err)
	}
}
