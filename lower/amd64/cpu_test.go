package amd64

import (
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/tmacc/tmacc/lower"
)

// cpuHas are the features of this machine.
var cpuHas = map[string]bool{
	"AVX2": cpu.X86.HasAVX2, "F16C": cpu.X86.HasAVX2, "AVXVNNI": cpu.X86.HasAVXVNNI,
	"AVX512F": cpu.X86.HasAVX512F, "AVX512BW": cpu.X86.HasAVX512BW, "AVX512DQ": cpu.X86.HasAVX512DQ,
	"AVX512VL": cpu.X86.HasAVX512VL, "AVX512VNNI": cpu.X86.HasAVX512VNNI, "AVX512VBMI": cpu.X86.HasAVX512VBMI,
}

// requireCPU skips t if this machine lacks a feature.
func requireCPU(t *testing.T, need lower.Features) {
	t.Helper()
	for _, n := range FeatureNames(need) {
		if !cpuHas[n] {
			t.Skipf("the CPU lacks %s", n)
		}
	}
}
