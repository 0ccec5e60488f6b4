package delivery

import (
	"slices"
	"testing"

	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/tune"
)

// An entry of the lock for a core of one's own asks for its file.
func TestOwnCoreInLock(t *testing.T) {
	x := &Package{lock: &tune.Lock{Entries: []tune.Entry{{Product: "w2", Target: "amd64/avx2+my-core"}, {Product: "w2", Target: "amd64/avx3"}}}}
	want := []string{
		"tmacc.lock: w2 on amd64/avx2+my-core is not used: no built-in core is called my-core: if it is one of yours, add -core FILE.json",
		"tmacc.lock: w2 on amd64/avx3 is not used: this tmacc has no such target, see tmacc targets",
	}
	if got := x.Misfits(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	finder := targeting.Finder{ReadCore: func(string) (core.Core, error) {
		own := targets.ByName("avx2").Machine().Core
		own.Name = "my-core"
		return own, nil
	}}
	own, err := finder.List([]string{"avx2"}, []string{"core.json"})
	if err != nil {
		t.Fatal(err)
	}
	if x.Targets = own; len(x.Misfits()) != 1 {
		t.Errorf("with the core there are %q", x.Misfits())
	}
}
