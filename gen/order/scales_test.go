package order

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/tests/ggufgen"
)

// A tensor is scaled if its file has scales for it, whatever its type. A tensor that is scaled in one of two files only is
// refused.
func TestScaledTensors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, f *ggufgen.File) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, f.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const q4, size = 2, 4 * 2 * 18 // 4 rows of 64
	stack := uint64(3*size+31) &^ 31
	with := write("with.gguf", ggufgen.Header(4, 0).Tensor("a.weight", q4, 0, 64, 4).Tensor("exps.weight", q4, 160, 64, 4, 3).
		Tensor("a.scale", 0, 160+stack, 1).Tensor("exps.scale", 0, 160+stack+32, 3).
		Pad(size).Pad(3*size).Pad(0).Add(float32(2)).Pad(0).Add([]float32{1, 2, 3}).Pad(0))
	without := write("without.gguf", ggufgen.Header(1, 0).Tensor("a.weight", q4, 0, 64, 4).Pad(size).Pad(0))
	for _, c := range []struct {
		path   string
		scaled map[string]bool
	}{{with, map[string]bool{"a.weight": true, "exps.weight": true}}, {without, map[string]bool{"a.weight": false}}} {
		o := newOrder(t, Options{Act: Act{Elem: Int8}})
		if err := o.AddFile(c.path); err != nil {
			t.Fatal(err)
		}
		tensors := o.Tensors(o.Products)
		if len(tensors) != len(c.scaled) || len(o.Left) > 0 {
			t.Errorf("%s: %v, left out %v", c.path, tensors, o.Left)
		}
		for _, x := range tensors {
			if x.Scaled != c.scaled[x.Name] {
				t.Errorf("%s: %s is scaled: %v", c.path, x.Name, x.Scaled)
			}
		}
	}
	o := newOrder(t, Options{Act: Act{Elem: Int8}})
	if err := o.AddFile(with); err != nil {
		t.Fatal(err)
	}
	if err := o.AddFile(without); err == nil || !strings.Contains(err.Error(), "tensor a.weight has scales in one of "+with+" and "+without+" only: make a package for each file") {
		t.Error(err)
	}
}
