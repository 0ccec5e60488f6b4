package blocks

import (
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// TestUsualAct: formats of GGUF have groups as ggml has them, all others a scale for each row.
func TestUsualAct(t *testing.T) {
	for name, group := range map[string]int{
		"w2": 0, "ternary": 0, "w4-g32": 0, "iq4nl": 0, "cb2x16": 0,
		"q4_0": 32, "q8_0": 32, "q4_k": 32, "q2_0": 32, "q1_0": 32, "mxfp4": 32, "iq1": 32,
		"nvfp4": 16, "q6_k": 16, "q3_k": 16, "iq1-g16-f32": 16,
		"q2_k": 256, "tq2_0": 256,
	} {
		w, err := format.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if act := UsualAct(w); act != (format.Act{Group: group}) {
			t.Errorf("%s: %+v, want groups of %d", name, act, group)
		}
	}
}
