package tests

import (
	"encoding/json"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	lowered "github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	compiled "github.com/tmacc/tmacc/search/build"
)

// TestCPUOnly: programs that compute on CPUs link nothing of Vulkan. On Linux they would be linked dynamically with it.
func TestCPUOnly(t *testing.T) {
	if vulkanOf(t, "../cmd/tmacc", "../runtime", "../runtime/ops", "../runtime/model/...") {
		t.Error("they depend on Vulkan")
	}
}

// vulkanOf says that packages depend on what calls Vulkan.
func vulkanOf(t *testing.T, packages ...string) bool {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-deps"}, packages...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Errorf("only %d packages", len(deps))
	}
	return slices.ContainsFunc(deps, func(dep string) bool {
		return strings.Contains(dep, "ebitengine/purego") || strings.Contains(dep, "runtime/vulkan")
	})
}

// TestGeneratedCPUOnly: generated packages depend on Vulkan only if they have shaders, and are built for a system that has it without the tag purego.
func TestGeneratedCPUOnly(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	host := targets.ByName("avx2")
	uses, err := beam.Product(t.Context(), p, host)
	if err != nil {
		t.Fatal(err)
	}
	cpu, err := compiled.Variant(t.Context(), p, host, uses)
	if err != nil {
		t.Fatal(err)
	}
	var trace schedule.Trace
	data, err := os.ReadFile("shaders/testdata/quantize/w2.json")
	if err == nil {
		err = json.Unmarshal(data, &trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	on, _ := spirv.ByName("spirv")
	device, err := compiled.Shaders(t.Context(), p, on, []search.Use{{Cols: 1, Trace: trace}}, spirv.Controls{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shaders  []lowered.Shaders
		os, arch string
		tags     []string
		want     bool
	}{
		{nil, "linux", "amd64", nil, false},
		{[]lowered.Shaders{device}, "linux", "amd64", nil, true},
		{[]lowered.Shaders{device}, "linux", "amd64", []string{"purego"}, false},
		{[]lowered.Shaders{device}, "linux", "riscv64", nil, false},
		{[]lowered.Shaders{device}, "freebsd", "amd64", nil, false},
	} {
		files, err := gen.Package(gen.Spec{Package: "kern", Products: []gen.Product{{Name: "W2", Problem: p, Variants: []lowered.Variant{cpu}, Shaders: c.shaders}}})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := gen.Write(dir, files); err != nil {
			t.Fatal(err)
		}
		ctx := build.Default
		ctx.GOOS, ctx.GOARCH, ctx.BuildTags = c.os, c.arch, c.tags
		pkg, err := ctx.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		imports := slices.DeleteFunc(slices.Concat(pkg.Imports, pkg.TestImports), func(path string) bool { return !strings.Contains(path, ".") })
		if has := vulkanOf(t, imports...); has != c.want {
			t.Errorf("%d targets of shaders, %s/%s, tags %v: it depends on Vulkan: %v, want %v, by %v", len(c.shaders), c.os, c.arch, c.tags, has, c.want, imports)
		}
		if modules, err := filepath.Glob(filepath.Join(dir, "*.spv")); err != nil || (len(modules) > 0) != (c.shaders != nil) {
			t.Errorf("%d targets of shaders: modules %v, %v", len(c.shaders), modules, err)
		}
	}
}
