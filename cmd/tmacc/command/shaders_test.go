package command

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A shader is shown by a schedule, and vector IR becomes text or, by the name of the file, a module.
func TestShaders(t *testing.T) {
	trace := filepath.Join("..", "..", "..", "tests", "shaders", "testdata", "w2.gemv.json")
	text := ok(t, "show", "-format", "w2", "-target", "spirv", "-trace", trace, "-stage", "asm")
	for _, want := range []string{"OpCapability DotProduct\n", "OpExecutionMode %5 LocalSize 64 1 1\n", "OpSUDot"} {
		if !strings.Contains(text, want) {
			t.Errorf("the shader has no %s", want)
		}
	}
	if plain := ok(t, "show", "-format", "w2", "-target", "spirv/plain", "-trace", trace, "-stage", "asm"); strings.Contains(plain, "Dot") {
		t.Error("plain integer code has a dot product")
	}
	vir := file(t, "w2.vir", ok(t, "show", "-format", "w2", "-target", "spirv", "-trace", trace, "-stage", "vir"))
	if again := ok(t, "lower", vir, "-target", "spirv"); strings.TrimSpace(again) != strings.TrimSpace(text) {
		t.Error("vector IR makes another shader than the schedule that it is from")
	}
	out := filepath.Join(t.TempDir(), "w2.spv")
	ok(t, "lower", vir, "-target", "spirv", "-o", out)
	data, err := os.ReadFile(out)
	if err != nil || len(data) < 20 || binary.LittleEndian.Uint32(data) != 0x07230203 {
		t.Errorf("no module: %v, %d bytes", err, len(data))
	}
}

// show -cost says where the time of a shader goes, and -why what other schedules take, by the speeds of a device.
func TestShowShaderCost(t *testing.T) {
	trace := filepath.Join("..", "..", "..", "tests", "shaders", "testdata", "w4.tiles16.json")
	out := ok(t, "show", "-format", "w4", "-target", "spirv/coop", "-cost", "-trace", trace, "-core", "h200")
	for _, want := range []string{"  w4 on spirv/coop, kernel of ", "microseconds in all, by the speeds of h200\n", "  memory: weights at 4547 GB/s\n", "    cooperative matrices, 1261*10^12/s\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	out = ok(t, "show", "-format", "w2", "-target", "spirv", "-why", "-most", "1", "-n", "3")
	for _, want := range []string{"   4096x14336x3   14336x4096x3  16384x16384x3  w2 on spirv/dot, kernel of 1 column\n",
		"predicted microseconds for the product, of one column with what prepares its activations, by the speeds of general, of no device in particular\n", "schedule from default; ", "rows: split m "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	var r struct {
		Device    string
		Purposes  []struct{ M, K, N int }
		Cycles    []float64
		Ns        []float64
		Decisions []struct{ Rule string }
	}
	text := ok(t, "show", "-format", "w2", "-target", "spirv", "-why", "-most", "1", "-core", "h200", "-json")
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Device != "h200" || len(r.Purposes) != 3 || r.Purposes[0].M != 4096 || r.Purposes[0].K != 14336 || r.Purposes[0].N != 1 ||
		len(r.Ns) != 3 || !(r.Ns[0] > 0) || r.Cycles != nil || len(r.Decisions) == 0 {
		t.Errorf("%v: %.2000s", err, text)
	}
}

func TestShadersRefused(t *testing.T) {
	trace := filepath.Join("..", "..", "..", "tests", "shaders", "testdata", "w2.gemv.json")
	vir := file(t, "f.vir", "func f(a ptr, n int, s int)\n\trepeat n a+s\n\tv0:i32x1 = splat 1\n\tstore a+0 v0\n")
	for _, c := range [][2]string{
		{"show -format w2 -target spirv -cols 3", "no default schedule of w2 on spirv/dot has 3 columns: have 1, 4"},
		{"show -format w2 -target spirv -prepare -trace " + trace, "show: -prepare: the CPU prepares activations for devices: give its -target"},
		{"show -format w2 -target spirv -why -mode dram -trace " + trace, "show: -mode: weights of shaders are in memory: leave it out with -target spirv"},
		{"show -format w2 -target spirv -core zen4 -trace " + trace, "-core zen4: is not of a device, as -target spirv wants: have general, h200, and files of tmacc host -calibrate -target spirv -json"},
		{"show -format w2 -target avx2 -trace " + trace, "amd64/avx2 has no workgroups and no lanes of them: bind no loop to group or lane"},
		{"lower -target spirv " + vir, "tiles follow one another: bind the tiles of rows to group"},
	} {
		refused(t, refusal{exitUsage, c[1], c[0]})
	}
}
