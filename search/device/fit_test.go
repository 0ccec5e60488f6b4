package device

import (
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// TestFitted: a module that asks for all controls of floats runs on a device that has none of them. Ordinary products have the same bits.
func TestFitted(t *testing.T) {
	opened(t)
	d, err := vulkan.Open(vulkan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.FloatControls = nil
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	target, _ := spirv.ByName("spirv")
	k, err := Compile(t.Context(), p, traceOf(t, "w2.lanes"), target, spirv.Controls{RoundToEven: true, Denormals: true, NotNumbers: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Pipeline(k.Shader.Binary(), vulkan.Layout{Buffers: len(k.Shader.Buffers), PushBytes: 4 * len(k.Shader.Params)}); err == nil {
		t.Error("the device took a module with controls that it lacks")
	}
	x, err := New(d, p, k)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Check(100, 2, 512, 1); err != nil {
		t.Error(err)
	}
}
