package tests

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCPUOnly: programs that compute on CPUs link nothing of Vulkan. On Linux they would be linked dynamically with it.
func TestCPUOnly(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../cmd/tmacc", "../runtime", "../runtime/ops", "../runtime/model/...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 100 {
		t.Errorf("only %d packages", len(deps))
	}
	for _, dep := range deps {
		if strings.Contains(dep, "ebitengine/purego") || strings.Contains(dep, "runtime/vulkan") {
			t.Errorf("they depend on %s", dep)
		}
	}
}
