package gomod

import (
	"runtime/debug"
	"testing"
)

// The version of tmacc is what Go has recorded of it in a program, whichever module that is of.
func TestRecorded(t *testing.T) {
	own := func(version string, replace *debug.Module) *debug.Module {
		return &debug.Module{Path: Path, Version: version, Replace: replace}
	}
	other := debug.Module{Path: "example.com/mine", Version: "v9.9.9"}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, ""},
		{&debug.BuildInfo{Main: other}, ""},
		{&debug.BuildInfo{Main: *own("(devel)", nil)}, ""}, // go run
		{&debug.BuildInfo{Main: *own("v1.2.3", nil)}, "v1.2.3"},
		{&debug.BuildInfo{Main: *own("v0.0.0-20261121221945-b8838d07018b+dirty", nil)}, "v0.0.0-20261121221945-b8838d07018b+dirty"},
		{&debug.BuildInfo{Main: other, Deps: []*debug.Module{&other, own("v1.2.3", nil)}}, "v1.2.3"},
		{&debug.BuildInfo{Main: other, Deps: []*debug.Module{own("v1.2.3", &debug.Module{Path: "../.."})}}, ""},
	} {
		if have := recorded(c.info); have != c.want {
			t.Errorf("%+v: %q, want %q", c.info, have, c.want)
		}
	}
	if Compiler() == "" {
		t.Error("an empty compiler")
	}
}
