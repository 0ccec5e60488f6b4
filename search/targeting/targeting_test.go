package targeting_test

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/targeting"
)

// The name of a target whose core is not built in says how a core of one's own is named.
func TestUnknownCore(t *testing.T) {
	for word, want := range map[string]string{
		"avx512vbmi+my-core":       `no built-in core is called my-core: have golden-cove, `,
		"amd64/avx512vbmi+my-core": `for a core of your own: -target amd64/avx512vbmi -core FILE.json`,
		"avx512vbmi+zen-4":         `for a core of your own: -target avx512vbmi -core FILE.json`,
		"avx2+zen5":                `unknown target "avx2+zen5": have host, `, // a built-in core that lacks the instruction set
		"avx3+my-core":             `unknown target "avx3+my-core": have host, `,
		"avx2+":                    `unknown target "avx2+": have host, `,
	} {
		if _, err := (targeting.Finder{}).One(word, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-target %s: %v, want %s", word, err, want)
		}
	}
}

// An error asks for a name only where that name is taken: all stands for several targets or cores.
func TestMeant(t *testing.T) {
	var f targeting.Finder
	one := func(target, core string) error { _, err := f.One(target, core); return err }
	list := func(target string, cores ...string) error { _, err := f.List([]string{target}, cores); return err }
	for _, x := range []struct {
		err  error
		want string // "": no name
	}{
		{one("alll", ""), ""},
		{list("alll"), "all"},
		{one("avx2", "alll"), ""},
		{list("avx2", "alll"), "all"},
		{one("spriv", ""), "spirv"},
		{list("hots"), "host"},
		{one("spirv/plan", ""), "spirv/plain"},
		{one("spirv/cop", ""), "spirv/coop"},
		{one("spirv/vulkn", ""), ""},
	} {
		if x.want == "" {
			if x.err == nil || strings.Contains(x.err.Error(), "did you mean") {
				t.Error(x.err)
			}
		} else if x.err == nil || !strings.HasSuffix(x.err.Error(), "; did you mean "+x.want+"?") {
			t.Errorf("%v, want %s", x.err, x.want)
		}
	}
}
