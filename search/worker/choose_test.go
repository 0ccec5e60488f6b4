package worker

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// TestChoose: a program beside tmacc that does not work is an error, one in PATH is passed over. So is one of another tmacc.
func TestChoose(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no such scripts")
	}
	broken := filepath.Join(t.TempDir(), DeviceProgram)
	if err := os.WriteFile(broken, []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := &Machine{os: runtime.GOOS, arch: runtime.GOARCH, ctx: context.Background()}
	var said []string
	say := func(what string) { said = append(said, what) }
	chosen, err := m.choose([]found{{broken, false}, {broken + "-none", false}}, say)
	if chosen || err != nil || len(said) != 2 || !strings.HasPrefix(said[0], broken+" does not work: ") {
		t.Errorf("%v, %v, %q", chosen, err, said)
	}
	chosen, err = m.choose([]found{{broken, true}, {broken, false}}, say)
	if chosen || err == nil || !strings.HasPrefix(err.Error(), broken+" does not work: ") || !strings.Contains(err.Error(), "go install "+deviceMain+"@latest replaces it") {
		t.Errorf("%v, %v", chosen, err)
	}
}

// TestIdentity: programs are of one tmacc if its name and what messages have are the same. The name of a program that was built here is not known.
func TestIdentity(t *testing.T) {
	a := own()
	for _, c := range []struct {
		b               identity
		installed, made bool
	}{{a, true, true}, {identity{"v9.9.9", a.Messages}, false, true}, {identity{a.Compiler, "00"}, false, false}} {
		if a.fits(c.b, false) != c.installed || a.fits(c.b, true) != c.made {
			t.Errorf("%v", c.b)
		}
	}
	type one struct{ A []*one }
	type two struct{ B []*one }
	type three struct{ A map[string]*two }
	texts := map[string]bool{}
	for _, x := range []any{one{}, two{}, three{}, struct{ A []int }{}, struct{ A []int8 }{}} {
		var b strings.Builder
		describe(&b, reflect.TypeOf(x), map[reflect.Type]bool{})
		texts[b.String()] = true
	}
	if len(texts) != 5 {
		t.Errorf("%d descriptions of 5 types", len(texts))
	}
}
