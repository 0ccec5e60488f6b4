package tests

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// Compilers for Arm and others fuse x*y + z into one instruction, whose result differs in its last bits, and with it what a search chooses.
// What chooses schedules or instructions rounds products first: float64(x*y) + z.
func TestSameFloats(t *testing.T) {
	cmd := exec.Command("go", "build", "-gcflags=-S", "../schedule", "../lower", "../lower/core", "../runtime/abi", "../search/cost", "../search/space", "../search/beam")
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	lines := regexp.MustCompile(`\(([^()]*)\)\s+(FMULD|FN?M(?:ADD|SUB)D)\s`).FindAllSubmatch(out, -1)
	products := 0
	for _, x := range lines {
		if string(x[2]) == "FMULD" {
			products++
		} else {
			t.Errorf("%s: %s: write float64(x*y) around the product", x[1], x[2])
		}
	}
	if products == 0 {
		t.Error("the code has no products of floats: this test no longer reads it")
	}
}
