package format

import (
	"strings"
	"testing"
)

// A name is suggested if it is near and no other one is as near.
func TestMeant(t *testing.T) {
	known := []string{"w1", "w4", "avx2", "avx512", "neon", "compile", "compare", "zen4", "zen5", "host"}
	for name, want := range map[string]string{
		"nein":                   "neon",
		"NEON":                   "neon",
		"noen":                   "neon", // swapped
		"neo":                    "neon",
		"complie":                "compile",
		"compre":                 "compare",
		"avx9":                   "avx2",
		"avx":                    "avx2",
		"avx51":                  "avx512",
		"w9":                     "", // too short
		"zen6":                   "", // as near to zen5
		"sse":                    "",
		"":                       "",
		"nnnn":                   "",
		strings.Repeat("a", 100): "",
	} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if have := Meant(name, known); have != want {
			t.Errorf("%s: %q, want %q", name, have, want)
		}
	}
	if have := Meant("neno", []string{"neon", "neon"}); have != "; did you mean neon?" {
		t.Errorf("of one name twice: %q", have)
	}
}
