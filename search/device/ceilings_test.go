package device

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/runtime/vulkan"
)

// TestValid holds shaders against spirv-val. It knows cooperative matrices since 2023-07.
func TestValid(t *testing.T) {
	if _, err := exec.LookPath("spirv-val"); err != nil {
		t.Skipf("needs Debian's package spirv-tools: %v", err)
	}
	for name, code := range map[string][]byte{"read": through(64, 4, false), "copy": through(64, 4, true), "nothing": nothing(),
		"dots": dots(64, 4, true), "multiply": dots(64, 4, false)} {
		path := filepath.Join(t.TempDir(), name+".spv")
		if err := os.WriteFile(path, code, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("spirv-val", "--target-env", "vulkan1.3", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestMeasure measures a little of everything on the device that tests have.
func TestMeasure(t *testing.T) {
	d, err := vulkan.Open(vulkan.Options{})
	if none := (*vulkan.Unavailable)(nil); errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := Measure(d, Options{Bytes: chunk, Groups: 8, Steps: 4, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Rate{"copy": c.Copy, "read": c.Read, "dot": c.Dot, "multiply": c.Multiply} {
		if r.Error != "" || !(r.Best > 0) || r.By == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for _, r := range c.Matrices {
		if r.Error != "" || !(r.Best > 0) {
			t.Errorf("%s: %+v", r.Kind, r)
		}
	}
	if len(c.Parts) != 2 || !(c.Parts[1].GBs > 0) {
		t.Errorf("parts: %+v", c.Parts)
	}
	if l := c.LaunchNs; !(l.Alone > 0 && l.After > 0 && l.Beside > 0) {
		t.Errorf("launch: %+v", l)
	}
}

// TestCopies holds what a shader that copies leaves against what it was given.
func TestCopies(t *testing.T) {
	d, err := vulkan.Open(vulkan.Options{})
	if none := (*vulkan.Unavailable)(nil); errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := &measurement{d: d, o: Options{Bytes: chunk}}
	defer m.free()
	if err := m.memory(); err != nil {
		t.Fatal(err)
	}
	p, err := d.Pipeline(through(64, 4, true), vulkan.Layout{Buffers: 2, PushBytes: 4})
	if err != nil {
		t.Fatal(err)
	}
	const times = 8
	if err := d.Run(p, [3]int{chunk / (64 * 4 * times * 16), 1, 1}, []*vulkan.Buffer{m.from, m.to}, words(times)); err != nil {
		t.Fatal(err)
	}
	from, to := make([]byte, chunk), make([]byte, chunk)
	if err := errors.Join(m.from.Download(0, from), m.to.Download(0, to)); err != nil {
		t.Fatal(err)
	}
	if string(from) != string(to) {
		t.Error("copied bytes differ")
	}
}
