package gomod

import (
	"bytes"
	"cmp"
	"regexp"
	"runtime/debug"
	"slices"
)

var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// Version is the release of tmacc that this program has, or "" if it is not a release.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	if v := recorded(info); release.MatchString(v) {
		return v
	}
	return ""
}

// Compiler says to a reader which tmacc this is: a release, a version that names a commit, or Unknown.
func Compiler() string {
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(recorded(info), Unknown)
}

// Unknown is the version of a tmacc that has none.
const Unknown = "unknown"

// recorded is the version of tmacc that Go has recorded in a program, or "". go build and go install record it, go run
// does not, and a module that replaces a release has none.
func recorded(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	for _, m := range append(slices.Clone(info.Deps), &info.Main) {
		if m.Path == Path && m.Replace == nil && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
}

// Remedy says what to do about a module that does not require tmacc, if said, the output of the go command, complains
// of that; else it is "". It continues a sentence about the package.
func Remedy(said []byte) string {
	if bytes.Contains(said, []byte("provides package "+Path)) && bytes.Contains(said, []byte("replaced but not required")) {
		return ", whose module replaces " + Path + " and does not require it: go mod tidy"
	}
	if !bytes.Contains(said, []byte("no required module provides package "+Path)) {
		return ""
	}
	remedy := "go get " + Path + "@" + Version()
	if Version() == "" {
		remedy = "go mod edit -replace " + Path + "=" + cmp.Or(Checkout(), "FOLDER of a checkout") + " and go mod tidy"
	}
	return ", whose module does not require " + Path + ": " + remedy
}
