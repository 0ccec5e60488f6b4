package gen

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
)

// shadersOf are the shaders of a schedule of tests/shaders/testdata, without subgroups and with subgroups of 8.
func shadersOf(t *testing.T, p ir.Problem, name string) variant.Shaders {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../tests/shaders/testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var trace schedule.Trace
	if err := json.Unmarshal(data, &trace); err != nil {
		t.Fatal(err)
	}
	k, err := schedule.Compile(p, trace)
	if err != nil {
		t.Fatal(err)
	}
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		t.Fatal(err)
	}
	target, _ := spirv.ByName("spirv")
	s, err := lower.Select(t.Context(), target, f)
	if err != nil {
		t.Fatal(err)
	}
	v := variant.Shaders{Target: target, Kernels: []variant.Shaded{{Schedule: k}}}
	for _, c := range []spirv.Controls{{Subgroup: 8}, {}} {
		sh, err := target.Print(s, c)
		if err != nil {
			t.Fatal(err)
		}
		v.Kernels[0].Shaders = append(v.Kernels[0].Shaders, sh)
	}
	return v
}

// TestSharedSums: a package says how many workgroups share sums, and how many words they need for them.
func TestSharedSums(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	v := shadersOf(t, p, "w2.split")
	files, err := Package(Spec{Package: "toy", Products: []Product{{Name: "W2", Problem: p, Shaders: []variant.Shaders{v}}}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(files[slices.IndexFunc(files, func(f lower.File) bool { return f.Name == "toy_spirv.go" })].Data)
	text = strings.Join(strings.Fields(text), " ")
	const parts, sums = "Parts: 4,", "Sums: 5," // a word that counts, and one for each of four rows
	if n := strings.Count(text, parts); n != 2 || strings.Count(text, sums) != n {
		t.Errorf("want %s and %s twice in\n%s", parts, sums, text)
	}
}

// TestSharedFloats: it says so, too, where they keep the floats of each iteration.
func TestSharedFloats(t *testing.T) {
	p, err := ir.Named("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	v := shadersOf(t, p, "w4-g32.split")
	files, err := Package(Spec{Package: "toy", Products: []Product{{Name: "W4G32", Problem: p, Shaders: []variant.Shaders{v}}}})
	if err != nil {
		t.Fatal(err)
	}
	text := string(files[slices.IndexFunc(files, func(f lower.File) bool { return f.Name == "toy_spirv.go" })].Data)
	const want = "Parts: 2, Sums: 1, EachSums: 64," // a word that counts, and in each iteration one of each lane
	if n := strings.Count(strings.Join(strings.Fields(text), " "), want); n != 2 {
		t.Errorf("want %s twice in\n%s", want, text)
	}
}

// TestFloats: a kernel that takes floats has files of its own, and says how it counts and pads them. Its parameters have the numbers of other kernels'.
func TestFloats(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	v := shadersOf(t, p, "quantize/w2")
	fused := v.Kernels[0]
	trace := fused.Schedule.Trace
	plain, err := schedule.Compile(p, trace[:len(trace)-1])
	if err != nil {
		t.Fatal(err)
	}
	of := shadersOf(t, p, "w2.lanes").Kernels[0].Shaders
	v.Fused, v.Kernels = &fused, []variant.Shaded{{Schedule: plain, Shaders: of}}
	files, err := Package(Spec{Package: "toy", Products: []Product{{Name: "W2", Problem: p, Shaders: []variant.Shaders{v}}}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	text := ""
	for _, f := range files {
		if names = append(names, f.Name); f.Name == "toy_spirv.go" {
			text = strings.Join(strings.Fields(string(f.Data)), " ")
		}
	}
	for _, want := range []string{"toy_w2_dot_floats.spv", "toy_w2_dot_floats_subgroup8.spv", "toy_w2_dot_n1.spv"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %v", want, names)
		}
	}
	for _, want := range []string{"Fused: &abi.Fused{", `Name: "w2_dot_floats.spv"`, "Room: 4096", "CountDiv: []int{256, 256, 256}", "Code: w2_dot_floats_subgroup8,"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	x := v.ABI("").Fused
	if s := x.Shaders[0]; slices.Contains(s.Params, -1) || slices.Max(s.Params) != slices.Max(fused.Schedule.ParamNumbers()) {
		t.Errorf("parameters %v", s.Params)
	}
	v.Fused = &v.Kernels[0]
	if _, err := Package(Spec{Package: "toy", Products: []Product{{Name: "W2", Problem: p, Shaders: []variant.Shaders{v}}}}); err == nil || !strings.Contains(err.Error(), "does not quantize them") {
		t.Error(err)
	}
}

// TestShaders: what calls Vulkan is in one file of Go, which is built where Vulkan is; modules are files as they are.
func TestShaders(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	v := shadersOf(t, p, "w2.lanes")
	files, err := Package(Spec{Package: "toy", Products: []Product{{Name: "W2", Problem: p, Shaders: []variant.Shaders{v}}, {Name: "Other", Problem: p}}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
		text := string(f.Data)
		if strings.Contains(text, "runtime/device") != (f.Name == "toy_spirv.go") {
			t.Errorf("%s: which files import the package for devices", f.Name)
		}
		switch f.Name {
		case "toy_w2_dot_n1.spv":
			if text != string(v.Kernels[0].Shaders[1].Binary()) {
				t.Error("the file is another module")
			}
		case "toy_spirv.go", "toy_nospirv.go":
			if _, rest, _ := strings.Cut(text, "//go:build "); !strings.HasPrefix(rest, map[bool]string{true: onDevices, false: noDevices}[f.Name == "toy_spirv.go"]+"\n") {
				t.Errorf("%s: built elsewhere", f.Name)
			}
		}
	}
	if want := []string{"toy.go", "toy_nospirv.go", "toy_spirv.go", "toy_test.go", "toy_w2_dot_n1.spv", "toy_w2_dot_n1_subgroup8.spv"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	dir := t.TempDir()
	if err := Write(dir, files); err != nil {
		t.Fatal(err)
	}
	changed := slices.Clone(files)
	i := slices.Index(names, "toy_w2_dot_n1.spv")
	changed[i].Data = append(slices.Clone(changed[i].Data), 0)
	if d, err := Differences(dir, changed); err != nil || !slices.Equal(d, []string{"toy_w2_dot_n1.spv"}) {
		t.Errorf("a changed module: %v, %v", d, err)
	}
	plain, err := Package(Spec{Package: "toy", Products: []Product{{Name: "W2", Problem: p}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, plain); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*spirv*")); err != nil || len(left) > 0 {
		t.Errorf("left of the shaders: %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.spv")); err != nil || len(left) > 0 {
		t.Errorf("left of the shaders: %v, %v", left, err)
	}
}

func TestShadersRefused(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	other, err := ir.Named("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	a, b := shadersOf(t, p, "w2.lanes"), shadersOf(t, p, "w2.gemm")
	both := variant.Shaders{Target: a.Target, Kernels: []variant.Shaded{a.Kernels[0], b.Kernels[0]}}
	for want, all := range map[string][]variant.Shaders{
		"is there twice":                   {a, b},
		"was compiled for another problem": {shadersOf(t, other, "w4-g32.lanes")},
		"has no kernel":                    {{Target: a.Target}},
		"are not for one packed matrix":    {both},
		"two schedules are for n = 1":      {{Target: a.Target, Kernels: []variant.Shaded{a.Kernels[0], a.Kernels[0]}}},
	} {
		_, err := Package(Spec{Package: "toy", Products: []Product{{Name: "W2", Problem: p, Shaders: all}}})
		if err == nil || !strings.HasPrefix(err.Error(), "gen: product W2, target spirv/dot: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
