package amd64

import (
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/tmacc/tmacc/lower"
)

// cpuHas says that this machine has a feature.
func cpuHas(feature string) bool { return cpuid.CPU.Supports(cpuid.ParseFeature(feature)) }

// onThisCPU is tg or its stand-in. It skips t if this machine runs neither; .ci/report
// knows the words.
func onThisCPU(t *testing.T, tg lower.Target) lower.Target {
	t.Helper()
	runs := StandIn(tg, cpuHas)
	if runs == nil {
		var missing []string
		for _, f := range FeatureNames(tg.Machine().Has) {
			if !cpuHas(f) {
				missing = append(missing, f)
			}
		}
		t.Skip("this CPU lacks", strings.Join(missing, " "))
	}
	return runs
}
