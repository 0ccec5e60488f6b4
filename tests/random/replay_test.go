package random

import (
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/native"
)

// TestReplay runs each trace of fixedbugs, which once gave a wrong result, a refusal or a
// panic, as TestRandomTraces does, on every amd64 target.
func TestReplay(t *testing.T) { replay(t, native.Targets(t)) }

// TestReplayArm does the same on emulated CPUs.
func TestReplayArm(t *testing.T) { replay(t, native.Arms(t)) }

func replay(t *testing.T, targets []lower.Target) {
	files, err := filepath.Glob("fixedbugs/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		r := check.ReadReplay(t, file)
		for _, target := range targets {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".json")+"/"+target.Machine().Name, func(t *testing.T) {
				rng := rand.New(rand.NewSource(1))
				a := &attempt{Replay: r, target: target, seed: 1}
				if a.compile(t, true); a.k == nil {
					if t.Log(a.reason); slices.Contains(r.Kernel, target.Machine().Name) {
						t.Error("there must be a kernel")
					}
					return
				}
				unload, err := native.LoadAll(target, []*native.Kernel{a.k})
				if err != nil {
					t.Fatal(err)
				}
				defer unload()
				if err := a.checkStages(rng); err != nil {
					t.Error(err)
				}
				for kind := check.Uniform; kind <= check.NotFinite; kind++ {
					c := a.shape(rng, kind)
					if err := a.k.Check(c); err != nil {
						t.Errorf("m %d n %d k %d, inputs of kind %d: %v", c.M, c.N, c.K, kind, err)
					}
				}
			})
		}
	}
}
