package format

import (
	"strings"
	"testing"
)

// The names that are nearest are suggested, if they are near and at most three.
func TestMeant(t *testing.T) {
	known := []string{"w1", "w4", "avx2", "avx512", "neon", "compile", "compare", "zen4", "zen5", "host", "tune", "run", "q4_0", "q4_1", "q4_k", "lane1", "lane2", "lane3", "lane4"}
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
		"zen6":                   "zen4 or zen5",
		"rune":                   "tune or run",
		"q4_2":                   "q4_0, q4_1 or q4_k",
		"lane5":                  "", // as near to four
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
