package cpu

import (
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	cs := []Candidate{
		{Target: "amd64/avx512vbmi", Need: []string{"AVX512F", "AVX512VBMI"}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}},
	}
	all, avx2, none := "AVX512F AVX512VBMI AVX2", "AVX2", ""
	for _, c := range []struct {
		cpu, env string
		want     int
		why      string
	}{
		{all, "", 0, "the first that this CPU runs"},
		{avx2, "", 1, "the first that this CPU runs"},
		{none, "", -1, "this CPU runs no other"},
		{all, "avx2", 1, "the first that this CPU runs with TMACC_CPU=avx2"},
		{all, "amd64/AVX2", 1, ""},
		{all, "-avx512vbmi", 1, ""},
		{all, " -AVX512F , -avx2", -1, ""},
		{all, "purego", -1, "this CPU runs no other with TMACC_CPU=purego"},
		{avx2, "avx512vbmi", -1, ""},
		{all, "avx2,avx512vbmi", 0, ""},
		{all, ",", 0, ""},
	} {
		has := func(f string) bool { return strings.Contains(" "+c.cpu+" ", " "+f+" ") }
		got, why := Choose(cs, Host{Has: has}, ParseMask(c.env))
		if got != c.want || !strings.HasPrefix(why, c.why) {
			t.Errorf("%q on %q: %d, %q; want %d, %q", c.env, c.cpu, got, why, c.want, c.why)
		}
	}
	if i, why := Choose(nil, Host{Has: func(string) bool { return true }}, Mask{}); i != -1 || why != "this binary has no other" {
		t.Error(i, why)
	}
}

func TestUnknownCPU(t *testing.T) {
	cs := []Candidate{{Target: "amd64/avx2", Need: []string{"AVX2", "FMA3"}}}
	for env, want := range map[string]string{
		"":                              "",
		"avx2,amd64/AVX2,purego,":       "",
		"-avx512vbmi,-AVX2":             "",
		"avx9":                          `unknown "avx9": W4 has purego, amd64/avx2, and runs in pure Go`,
		"-avx9":                         `unknown "-avx9": no feature of a CPU: the kernels of W4 need AVX2, FMA3`,
		"-z, -avx512":                   `unknown "-avx512": no feature of a CPU: the kernels of W4 need AVX2, FMA3; unknown "-z": no feature of a CPU: the kernels of W4 need AVX2, FMA3`,
		"purego,arm64/dotprod, -x , y ": `unknown "arm64/dotprod": W4 has purego, amd64/avx2, and runs in pure Go; unknown "y": W4 has purego, amd64/avx2, and runs in pure Go; unknown "-x": no feature of a CPU: the kernels of W4 need AVX2, FMA3`,
		"avx2,avx9":                     `unknown "avx9": W4 has purego, amd64/avx2, and runs on amd64/avx2`,
		"vx2":                           `unknown "vx2": W4 has purego, amd64/avx2, and runs in pure Go`,
	} {
		m := ParseMask(env)
		i, _ := Choose(cs, Host{Has: func(string) bool { return true }}, m)
		if got := strings.Join(m.Unknown("W4", cs, i), "; "); got != want {
			t.Errorf("%q: %s\nwant %s", env, got, want)
		}
	}
	if got := ParseMask("-x").Unknown("W4", nil, -1); len(got) != 1 || !strings.HasSuffix(got[0], ": the kernels of W4 need none") {
		t.Error(got)
	}
}

func TestCheck(t *testing.T) {
	cs := []Candidate{{Target: "amd64/avx2", Need: []string{"AVX2", "FMA3"}}}
	for env, want := range map[string]string{
		"":                        "",
		"avx2,amd64/AVX2,purego,": "",
		"-avx512vbmi":             "",
		"avx2,avx9":               `TMACC_CPU=avx2,avx9: unknown "avx9": have purego, amd64/avx2`,
		"-avx9":                   `TMACC_CPU=-avx9: unknown "-avx9": no feature of a CPU; kernels need AVX2, FMA3`,
	} {
		got := ""
		if err := ParseMask(env).Check(cs); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", env, got, want)
		}
	}
}

// A target that is named and cannot run is said to be, with what it needs; silence means that one of them runs.
func TestUnmetCPU(t *testing.T) {
	cs := []Candidate{
		{Target: "amd64/avx512vbmi+zen5", Need: []string{"AVX2", "AVX512VBMI"}, CPUs: []Set{{Vendor: "AuthenticAMD"}}},
		{Target: "amd64/avx512vbmi", Need: []string{"AVX2", "AVX512VBMI"}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}},
	}
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
		m := ParseMask(c.env)
		i, _ := Choose(cs, Host{Has: has}, m)
		if got := m.Unmet("products", cs, i, has); got != c.want {
			t.Errorf("%q on a CPU with %q: %q, want %q", c.env, c.cpu, got, c.want)
		}
	}
}

// Features decide first, then the core; an unknown core runs the variant for all CPUs, and a target that is named runs on any core.
func TestChooseByCore(t *testing.T) {
	const amd, intel = "AuthenticAMD", "GenuineIntel"
	cs := []Candidate{
		{Target: "amd64/avx512vbmi+zen4", Need: []string{"AVX512VBMI"}, CPUs: []Set{{Vendor: amd, FirstFamily: 25, LastFamily: 25}}},
		{Target: "amd64/avx512vbmi+zen5", Need: []string{"AVX512VBMI"}, CPUs: []Set{{Vendor: amd, FirstFamily: 26}}},
		{Target: "amd64/avx512vbmi", Need: []string{"AVX512VBMI"}},
		{Target: "amd64/avx2+zen2", Need: []string{"AVX2"}, CPUs: []Set{{Vendor: amd}}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}},
	}
	for _, c := range []struct {
		id       ID
		features string
		env      string
		want     string
	}{
		{ID{Vendor: amd, Family: 25, Model: 97}, "AVX2 AVX512VBMI", "", "amd64/avx512vbmi+zen4"},
		{ID{Vendor: amd, Family: 26, Model: 2}, "AVX2 AVX512VBMI", "", "amd64/avx512vbmi+zen5"},
		{ID{Vendor: amd, Family: 24, Model: 2}, "AVX2 AVX512VBMI", "", "amd64/avx512vbmi"},
		{ID{Vendor: amd, Family: 25, Model: 1}, "AVX2", "", "amd64/avx2+zen2"},
		{ID{Vendor: amd, Family: 25, Model: 97}, "AVX2 AVX512VBMI", "-avx512vbmi", "amd64/avx2+zen2"},
		{ID{Vendor: intel, Family: 6, Model: 207}, "AVX2 AVX512VBMI", "", "amd64/avx512vbmi"},
		{ID{Vendor: intel, Family: 6, Model: 151}, "AVX2", "", "amd64/avx2"},
		{ID{}, "AVX2", "", "amd64/avx2"},
		{ID{Vendor: intel, Family: 6, Model: 207}, "AVX2 AVX512VBMI", "zen4", "amd64/avx512vbmi+zen4"},
		{ID{Vendor: intel, Family: 6, Model: 207}, "AVX2 AVX512VBMI", "amd64/zen4", "amd64/avx512vbmi+zen4"},
		{ID{Vendor: intel, Family: 6, Model: 207}, "AVX2 AVX512VBMI", "avx512vbmi+zen4", "amd64/avx512vbmi+zen4"},
		{ID{Vendor: amd, Family: 25, Model: 97}, "AVX2 AVX512VBMI", "avx512vbmi", "amd64/avx512vbmi"}, // that very one
		{ID{Vendor: amd, Family: 25, Model: 97}, "AVX2 AVX512VBMI", "avx2", "amd64/avx2"},
		{ID{Vendor: intel, Family: 6, Model: 151}, "AVX2", "zen4", PureGo},
		{ID{Vendor: amd, Family: 25, Model: 97}, "", "", PureGo},
	} {
		has := func(f string) bool { return slices.Contains(strings.Fields(c.features), f) }
		got := PureGo
		if i, _ := Choose(cs, Host{has, c.id}, ParseMask(c.env)); i >= 0 {
			got = cs[i].Target
		}
		if got != c.want {
			t.Errorf("%v with %q, %s=%q: %s, want %s", c.id, c.features, Env, c.env, got, c.want)
		}
	}
}

// Kernels for the core of other CPUs run where there are no others of the instruction set: they are as right there.
func TestChooseOtherCore(t *testing.T) {
	cs := []Candidate{
		{Target: "amd64/avx512vbmi+zen4", Need: []string{"AVX512VBMI"}, CPUs: []Set{{Vendor: "AuthenticAMD"}}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}},
	}
	all := func(string) bool { return true }
	if i, _ := Choose(cs, Host{all, ID{Vendor: "GenuineIntel", Family: 6, Model: 207}}, Mask{}); i != 0 {
		t.Errorf("variant %d runs, want 0", i)
	}
}

// A mask names targets that candidates serve, and cores that they do not know; words for others are left out.
func TestMaskOf(t *testing.T) {
	cs := []Candidate{
		{Target: "amd64/avx512", Need: []string{"AVX512F"}, Serves: []string{"amd64/avx512vbmi", "amd64/avx512vbmi+zen5"}},
		{Target: "amd64/avx2", Need: []string{"AVX2"}, Serves: []string{"amd64/avxvnni"}},
	}
	all := func(string) bool { return true }
	for env, want := range map[string]int{
		"": 0, "avx2": 1, "amd64/avxvnni": 1, "avx512vbmi": 0, "zen5": 0, "avx512vbmi+zen5": 0, "avxvnni+my-core": 1, "avx2+zen5": 1,
		"my-core": 0, "neon": 0, "neon,avx2": 1, "purego": -1, "purego,my-core": -1, "-avx512f": 1, "avx512vbmi,-avx512f": -1,
	} {
		m := ParseMask(env).Of(cs)
		if i, _ := Choose(cs, Host{Has: all}, m); i != want {
			t.Errorf("%q: candidate %d, want %d", env, i, want)
		}
	}
	if m := ParseMask("avxvnni").Of(cs); m.Excludes(cs[1]) || !m.Excludes(cs[0]) {
		t.Error("avxvnni excludes what serves it, or not the others")
	}
}
