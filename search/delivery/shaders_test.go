package delivery

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/shaders"
)

// TestVerifyShaders: all shaders that a device can run are compared with the definition, not only the ones that it would take. For the others it says why not.
func TestVerifyShaders(t *testing.T) {
	lab, err := shaders.Open(t.Context(), "", func(what string) { t.Error(what) })
	if err != nil {
		t.Skip(err)
	}
	defer lab.Close()
	target, _ := spirv.ByName("spirv")
	o := options(t, "w2")
	o.Targets, o.Shaders = nil, []spirv.Target{target}
	var events []string
	o.Events = func(e Event) { events = append(events, e.String()) }
	x := compiled(t, o)
	w, trace := x.products[0], lanes(t)
	v, err := build.Shaders(t.Context(), w.Problem, target, []search.Use{{Trace: trace}}, shaders.Packaged...)
	if err != nil {
		t.Fatal(err)
	}
	found, err := x.verifyOn(t.Context(), lab, w, &v)
	refused := slices.ContainsFunc(events, func(e string) bool {
		return strings.Contains(e, "w2 on spirv/dot: shaders with subgroups of 32 lanes are not run here: ") && strings.Contains(e, "subgroups of 32, the device has")
	})
	if c := lab.Device().Controls; found != Checked || err != nil || refused != (c.Subgroup < 32) {
		t.Errorf("%s, %v, %q", found, err, events)
	}
	other := w.Problem // whose levels are others
	other.Weight.Name, other.Weight.Levels = "mine", []int{-4, -2, 0, 2}
	wrong, err := build.Shaded(t.Context(), other, target, trace, spirv.Controls{})
	if err != nil {
		t.Fatal(err)
	}
	v.Kernels[0].Shaders = append(v.Kernels[0].Shaders, wrong.Shaders[0])
	if _, err := x.verifyOn(t.Context(), lab, w, &v); err == nil || !strings.Contains(err.Error(), "is wrong: ") {
		t.Errorf("a shader that is wrong, behind others: %v", err)
	}
	floats := traceOf(t, "quantize/w2")
	if v, err = build.Shaders(t.Context(), w.Problem, target, []search.Use{{Trace: floats}}, spirv.Controls{}); err != nil {
		t.Fatal(err)
	}
	if found, err := x.verifyOn(t.Context(), lab, w, &v); found != Checked || err != nil {
		t.Errorf("a shader of floats: %s, %v", found, err)
	}
	if wrong, err = build.Shaded(t.Context(), other, target, floats, spirv.Controls{}); err != nil {
		t.Fatal(err)
	}
	v.Fused.Shaders = wrong.Shaders
	if _, err := x.verifyOn(t.Context(), lab, w, &v); err == nil || !strings.Contains(err.Error(), "of floats: ") {
		t.Errorf("a shader of floats that is wrong: %v", err)
	}
}

// lanes is a schedule of w2, and of formats whose levels are further apart.
func lanes(t *testing.T) (trace schedule.Trace) {
	t.Helper()
	return traceOf(t, "w2.lanes")
}

// traceOf is a schedule of tests/shaders/testdata, without levels that it begins sums with.
func traceOf(t *testing.T, name string) (trace schedule.Trace) {
	t.Helper()
	data, err := os.ReadFile("../../tests/shaders/testdata/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(bytes.Replace(data, []byte(`"init"`), []byte(`"flush"`), 1), &trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	return trace
}
