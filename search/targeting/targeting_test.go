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
