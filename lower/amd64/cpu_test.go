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

// onThisCPU is tg or its stand-in. It skips t if this machine runs neither.
func onThisCPU(t *testing.T, tg lower.Target) lower.Target {
	t.Helper()
	runs := StandIn(tg, func(feature string) bool { return cpuHas[feature] })
	if runs == nil {
		t.Skipf("the CPU lacks some of %v", FeatureNames(tg.Machine().Has))
	}
	return runs
}
