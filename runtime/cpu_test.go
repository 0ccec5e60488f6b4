package runtime

import (
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// A target that is named and cannot run is said to be, with what it needs; silence means that one of them runs.
func TestUnmetCPU(t *testing.T) {
	s := Spec{Name: "W4", Variants: []abi.Variant{
		{Target: "amd64/avx512vbmi+zen5", Need: []string{"AVX2", "AVX512VBMI"}, CPUs: []cpu.Set{{Vendor: "AuthenticAMD"}}},
		{Target: "amd64/avx512vbmi", Need: []string{"AVX2", "AVX512VBMI"}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}},
	}}
	const intel = "AVX2 AVX512VBMI"
	for _, c := range []struct{ cpu, env, want string }{
		{intel, "", ""},
		{intel, "zen5", ""}, // its kernels run, if not as well
		{"AVX2", "zen5", "amd64/avx512vbmi+zen5 needs AVX512VBMI, which this CPU lacks: products run in pure Go"},
		{intel, "zen5,avx2", ""},
		{intel, "zen5,purego", ""},
		{intel, "purego", ""},
		{intel, "arm64/neon", ""}, // unknown says it
		{intel, "-avx2", ""},      // as the user said
		{intel, "avx512vbmi,-avx2", "amd64/avx512vbmi+zen5 needs AVX2, which it excludes; amd64/avx512vbmi needs AVX2, which it excludes: products run in pure Go"},
		{"", "", ""},
		{"AVX2", "zen5,avx512vbmi", "amd64/avx512vbmi+zen5 needs AVX512VBMI, which this CPU lacks; amd64/avx512vbmi needs AVX512VBMI, which this CPU lacks: products run in pure Go"},
	} {
		has := func(f string) bool { return strings.Contains(" "+c.cpu+" ", " "+f+" ") }
		m := parseMask(c.env)
		i, _ := s.choose(host{has: has}, m)
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

// Features decide first, then the core; an unknown core runs the variant for all CPUs, and a target that is named runs on any core.
func TestChooseByCore(t *testing.T) {
	const amd, intel = "AuthenticAMD", "GenuineIntel"
	s := Spec{Name: "W4", Variants: []abi.Variant{
		{Target: "amd64/avx512vbmi+zen4", Need: []string{"AVX512VBMI"}, CPUs: []cpu.Set{{Vendor: amd, FirstFamily: 25, LastFamily: 25}}},
		{Target: "amd64/avx512vbmi+zen5", Need: []string{"AVX512VBMI"}, CPUs: []cpu.Set{{Vendor: amd, FirstFamily: 26}}},
		{Target: "amd64/avx512vbmi", Need: []string{"AVX512VBMI"}},
		{Target: "amd64/avx2+zen2", Need: []string{"AVX2"}, CPUs: []cpu.Set{{Vendor: amd}}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}},
	}}
	for _, c := range []struct {
		id       cpu.ID
		features string
		env      string
		want     string
	}{
		{cpu.ID{Vendor: amd, Family: 25, Model: 97}, "AVX2 AVX512VBMI", "", "amd64/avx512vbmi+zen4"},
		{cpu.ID{Vendor: amd, Family: 26, Model: 2}, "AVX2 AVX512VBMI", "", "amd64/avx512vbmi+zen5"},
		{cpu.ID{Vendor: amd, Family: 24, Model: 2}, "AVX2 AVX512VBMI", "", "amd64/avx512vbmi"},
		{cpu.ID{Vendor: amd, Family: 25, Model: 1}, "AVX2", "", "amd64/avx2+zen2"},
		{cpu.ID{Vendor: amd, Family: 25, Model: 97}, "AVX2 AVX512VBMI", "-avx512vbmi", "amd64/avx2+zen2"},
		{cpu.ID{Vendor: intel, Family: 6, Model: 207}, "AVX2 AVX512VBMI", "", "amd64/avx512vbmi"},
		{cpu.ID{Vendor: intel, Family: 6, Model: 151}, "AVX2", "", "amd64/avx2"},
		{cpu.ID{}, "AVX2", "", "amd64/avx2"},
		{cpu.ID{Vendor: intel, Family: 6, Model: 207}, "AVX2 AVX512VBMI", "zen4", "amd64/avx512vbmi+zen4"},
		{cpu.ID{Vendor: intel, Family: 6, Model: 207}, "AVX2 AVX512VBMI", "amd64/zen4", "amd64/avx512vbmi+zen4"},
		{cpu.ID{Vendor: intel, Family: 6, Model: 207}, "AVX2 AVX512VBMI", "avx512vbmi+zen4", "amd64/avx512vbmi+zen4"},
		{cpu.ID{Vendor: amd, Family: 25, Model: 97}, "AVX2 AVX512VBMI", "avx512vbmi", "amd64/avx512vbmi"}, // that very one
		{cpu.ID{Vendor: amd, Family: 25, Model: 97}, "AVX2 AVX512VBMI", "avx2", "amd64/avx2"},
		{cpu.ID{Vendor: intel, Family: 6, Model: 151}, "AVX2", "zen4", pureGo},
		{cpu.ID{Vendor: amd, Family: 25, Model: 97}, "", "", pureGo},
	} {
		has := func(f string) bool { return slices.Contains(strings.Fields(c.features), f) }
		got := pureGo
		if i, _ := s.choose(host{has, c.id}, parseMask(c.env)); i >= 0 {
			got = s.Variants[i].Target
		}
		if got != c.want {
			t.Errorf("%v with %q, %s=%q: %s, want %s", c.id, c.features, EnvCPU, c.env, got, c.want)
		}
	}
}

// Kernels for the core of other CPUs run where there are no others of the instruction set: they are as right there.
func TestChooseOtherCore(t *testing.T) {
	s := Spec{Name: "W4", Variants: []abi.Variant{
		{Target: "amd64/avx512vbmi+zen4", Need: []string{"AVX512VBMI"}, CPUs: []cpu.Set{{Vendor: "AuthenticAMD"}}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}},
	}}
	all := func(string) bool { return true }
	if i, _ := s.choose(host{all, cpu.ID{Vendor: "GenuineIntel", Family: 6, Model: 207}}, mask{}); i != 0 {
		t.Errorf("variant %d runs, want 0", i)
	}
}

// On takes the name of a target, of its core, and of its instruction set where that has no other target.
func TestOnCore(t *testing.T) {
	s := fakeSpec(t, "w2", 0, 4, 8, []int{1})
	s.Variants[0].Target, s.Variants[0].CPUs = "fake/a+zen9", []cpu.Set{{Vendor: "nobody"}}
	p := New(*s)
	for _, name := range []string{"fake/a+zen9", "a+zen9", "zen9", "a", "fake/a"} {
		if q, err := p.On(name); err != nil || q.Target() != "fake/a+zen9" {
			t.Errorf("%s: %v, %v", name, q, err)
		}
	}
	for _, name := range []string{"", "b", "zen", "fake", "fake/", "+zen9"} {
		if q, err := p.On(name); err == nil {
			t.Errorf("%q is %s", name, q.Target())
		}
	}
}
