package command

import (
	"encoding/binary"
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

func TestShadersRefused(t *testing.T) {
	trace := filepath.Join("..", "..", "..", "tests", "shaders", "testdata", "w2.gemv.json")
	vir := file(t, "f.vir", "func f(a ptr, n int, s int)\n\trepeat n a+s\n\tv0:i32x1 = splat 1\n\tstore a+0 v0\n")
	for _, c := range [][2]string{
		{"show -format w2 -target spirv -cols 3", "no default schedule of w2 on spirv/dot has 3 columns: have 1, 4"},
		{"show -format w2 -target spirv -prepare -trace " + trace, "show: -prepare: the CPU prepares activations for devices: give its -target"},
		{"show -format w2 -target spirv -cost -trace " + trace, "show: there is no model of devices for -cost and -why: leave it out with -target spirv"},
		{"show -format w2 -target spirv -core zen4 -trace " + trace, "-core zen4: is not of a device, as -target spirv wants: have general, h200, and files of tmacc host -calibrate -target spirv -json"},
		{"show -format w2 -target avx2 -trace " + trace, "amd64/avx2 has no workgroups and no lanes of them: bind no loop to group or lane"},
		{"lower -target spirv " + vir, "tiles follow one another: bind the tiles of rows to group"},
	} {
		refused(t, refusal{exitUsage, c[1], c[0]})
	}
}
