package order

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
)

func newOrder(t *testing.T, options Options) *Order {
	t.Helper()
	o, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// The largest K of a product is blamed on the tensor that has it.
func TestLargestKIsBlamed(t *testing.T) {
	o := newOrder(t, Options{Act: UsualAct()})
	p, err := ir.Named("w8")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{4096, 1 << 24, 1 << 18} {
		if err := o.want(p, fmt.Sprintf("of%d", k), 1, k, 1); err != nil {
			t.Fatal(err)
		}
	}
	if w := o.Products[0]; w.asks != "tensor of16777216 asks" || w.Problem.LimitK() != 1<<24 {
		t.Errorf("%s, for %d", w.asks, w.Problem.LimitK())
	}
}

// An option that no product can have is refused with the key of its flag.
func TestOptionsRefused(t *testing.T) {
	for key, options := range map[string]Options{
		"act":       {Act: Act{Elem: "i4"}},
		"act-group": {Act: Act{Elem: Int8, Group: 33}},
		"max-k":     {Act: UsualAct(), MaxK: -1},
	} {
		_, err := New(options)
		var bad *OptionError
		if !errors.As(err, &bad) || bad.Key != key || !strings.HasPrefix(err.Error(), "-"+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Inputs open files by their own function, here from memory: a format, and a schedule for the only product on the only target.
func TestInputsOpen(t *testing.T) {
	files := map[string]string{
		"mine.json":  `{"name": "mine", "bits": 1, "levels": [-3, 5], "per": "row", "scale": "f32"}`,
		"trace.json": `[{"hoist_zero":{"at":"init"}}]`,
	}
	open := func(path string) (io.ReadCloser, error) {
		text, ok := files[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
	avx2 := targets.ByName("avx2")
	o := newOrder(t, Options{Act: UsualAct(), Targets: []lower.Target{avx2}, Inputs: Inputs{Open: open}})
	if err := o.AddFormat("mine.json"); err != nil {
		t.Fatal(err)
	}
	if err := o.AddFormat("none.json"); !errors.Is(err, fs.ErrNotExist) || err.Error() != "none.json: file does not exist" {
		t.Error(err)
	}
	if err := o.SetTrace("trace.json"); err != nil {
		t.Fatal(err)
	}
	if w := o.Products[0]; w.Name() != "Mine" || len(w.Trace(avx2)) != 1 || w.Traces["amd64/avx2"].Path != "trace.json" {
		t.Errorf("%s: %v", w.Name(), w.Traces)
	}
	if err := o.AddFormat("w2"); err != nil {
		t.Fatal(err)
	}
	if err := o.SetTrace("trace.json"); err == nil || !strings.HasPrefix(err.Error(), "-trace is for one format on one target: these are 2 formats on 1 target;") {
		t.Error(err)
	}
}

// Tensors names the product of each tensor by its place among the products that are left, and no tensor of one that is not.
func TestTensorsOfSomeProducts(t *testing.T) {
	o := newOrder(t, Options{Act: UsualAct()})
	for _, name := range Models() {
		if err := o.AddModel(name); err != nil {
			t.Fatal(err)
		}
	}
	for i, kept := range o.Products {
		for place, products := range [][]*Product{{kept}, {o.Products[(i+1)%len(o.Products)], kept}} {
			listed := 0
			for _, x := range o.Tensors(products) {
				if x.Product == place {
					listed++
				}
			}
			want := 0
			for _, s := range kept.Shapes {
				want += s.Count
			}
			if listed != want || want == 0 {
				t.Errorf("%s: %d tensors, want %d", kept.Name(), listed, want)
			}
		}
	}
	if x := o.Tensors(nil); x != nil {
		t.Errorf("without products %d tensors have one", len(x))
	}
}

// Check refuses names that Go cannot build, and takes the products from the order.
func TestCheck(t *testing.T) {
	for want, kernels := range map[string][]string{
		"": {"name=A,format=w2", "name=B,format=w2"},
		"products AB and Ab: the names of their functions in assembly would both begin with ab_: rename one, as -kernel name=NAME,format=FORMAT does": {"name=AB,format=w2", "name=Ab,format=w2"},
		"product APack: declares APack, and so does product A: rename one (-kernel name=NAME,format=FORMAT renames a product)":                        {"name=A,format=w2", "name=APack,format=w2"},
	} {
		o := newOrder(t, Options{Act: UsualAct()})
		for _, text := range kernels {
			k, err := ParseKernel(text)
			if err != nil {
				t.Fatal(err)
			}
			if err := o.AddKernel(k); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Check(gen.Spec{Package: "low"}); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%v: %v", kernels, err)
		}
	}
}

// What a plan lists is what was added.
func TestPlan(t *testing.T) {
	o := newOrder(t, onTwo())
	for _, name := range []string{"w2", "w3-f32act", "w2"} {
		if err := o.AddFormat(name); err != nil {
			t.Fatal(err)
		}
	}
	p := o.Plan("low", "dir")
	var names []string
	for _, w := range p.Products {
		names = append(names, w.Name+" "+w.Format)
	}
	if !slices.Equal(names, []string{"W2 w2", "W3F32act w3-f32act"}) || !slices.Equal(p.Targets, []string{"amd64/avx2", "arm64/dotprod"}) || p.Package != "low" || p.Dir != "dir" || p.LeftOut == nil || p.Others == nil {
		t.Errorf("%+v", p)
	}
}
