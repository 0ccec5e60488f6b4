package runtime

import (
	"strings"
	"testing"
)

// A target that is named and cannot run is said to be, with what it needs; silence means that one of them runs.
func TestUnmetCPU(t *testing.T) {
	s := Spec{Name: "W4", Variants: []Variant{
		{Target: "amd64/zen5", Need: []string{"AVX2", "SSE4A", "AVX512VBMI"}},
		{Target: "amd64/avx512vbmi", Need: []string{"AVX2", "AVX512VBMI"}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}},
	}}
	const intel = "AVX2 AVX512VBMI"
	for _, c := range []struct{ cpu, env, want string }{
		{intel, "", ""},
		{intel, "zen5", "amd64/zen5 needs SSE4A, which this CPU lacks: products run in pure Go"},
		{intel, "zen5,avx2", ""},
		{intel, "zen5,purego", ""},
		{intel, "purego", ""},
		{intel, "arm64/neon", ""}, // unknown says it
		{intel, "-avx2", ""},      // as the user said
		{intel, "avx512vbmi,-avx2", "amd64/avx512vbmi needs AVX2, which it excludes: products run in pure Go"},
		{"", "", ""},
		{"AVX2", "zen5,avx512vbmi", "amd64/zen5 needs SSE4A and AVX512VBMI, which this CPU lacks; amd64/avx512vbmi needs AVX512VBMI, which this CPU lacks: products run in pure Go"},
	} {
		has := func(f string) bool { return strings.Contains(" "+c.cpu+" ", " "+f+" ") }
		m := parseMask(c.env)
		i, _ := s.choose(has, m)
		if got := m.unmet(&s, i, has); got != c.want {
			t.Errorf("%q on a CPU with %q: %q, want %q", c.env, c.cpu, got, c.want)
		}
	}
}

// New says it, once for all products.
func TestUnmetCPUIsSaid(t *testing.T) {
	s := fakeSpec(t, "w2", 0, 4, 8, []int{1})
	s.Variants[0].Need = []string{"AVX1024"}
	t.Setenv(EnvCPU, "a")
	want := "TMACC_CPU=a: fake/a needs AVX1024, which this CPU lacks: products run in pure Go"
	for range 2 {
		if p := New(*s); p.Target() != pureGo {
			t.Fatal(p.Target())
		}
		if _, said := warned.Load(want); !said {
			t.Errorf("not said: %s", want)
		}
	}
}
