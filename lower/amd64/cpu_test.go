package amd64

import (
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/tmacc/tmacc/lower"
)

// cpuHas says that this machine has a feature.
func cpuHas(feature string) bool { return cpuid.CPU.Supports(cpuid.ParseFeature(feature)) }

// onThisCPU is tg or its stand-in. It skips t if this machine runs neither.
func onThisCPU(t *testing.T, tg lower.Target) lower.Target {
	t.Helper()
	runs := StandIn(tg, cpuHas)
	if runs == nil {
		t.Skipf("the CPU lacks some of %v", FeatureNames(tg.Machine().Has))
	}
	return runs
}
