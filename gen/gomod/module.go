// Package gomod knows Go modules as far as a generated package needs them: the module
// that a directory lies in, how a module requires tmacc, and the go command that builds and
// tests a package.
package gomod

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tmacc/tmacc/gen/message"
)

// Path is the path of tmacc's module.
const Path = "github.com/tmacc/tmacc"

var moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)

// At is the path of the module whose go.mod lies in dir: "" if there is no go.mod, "?" if it
// names no module.
func At(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return ""
	}
	if m := moduleLine.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return "?"
}

// Root is the root of the module that an absolute path lies in, "" if it lies in none.
func Root(dir string) string { return above(dir, func(string) bool { return true }) }

// above is the first directory from dir upward that is the root of a module for
// which want holds, or "".
func above(dir string, want func(module string) bool) string {
	for {
		if m := At(dir); m != "" && want(m) {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// Within reports whether a directory lies in a module.
func Within(dir string) bool {
	abs, err := filepath.Abs(dir)
	return err == nil && Root(abs) != ""
}

// own reports whether a path is that of tmacc's module.
func own(module string) bool { return module == Path }

// Sources is the root of the sources of tmacc that this program was built from, or "" if
// they are not on this machine.
func Sources() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		return above(filepath.Dir(file), own)
	}
	return ""
}

// Checkout is the root of the sources of tmacc that this program was built from, else of
// those in which it runs, or "".
func Checkout() string {
	if dir := Sources(); dir != "" {
		return dir
	}
	wd, err := os.Getwd()
	if err != nil {
		return ""
	}
	return above(wd, own)
}

// Module is the go.mod of a package that is a module of its own. Run go mod tidy in it once.
type Module struct {
	Path    string
	Version string // of tmacc to require; "v0.0.0" if empty
	Replace string // a checkout of tmacc to use instead, absolute or beginning with "./" or "../"; or empty
}

// File is the text of the go.mod.
func (m *Module) File() []byte {
	version := m.Version
	if version == "" {
		version = "v0.0.0"
	}
	text := fmt.Sprintf("module %s\n\ngo 1.26.0\n\nrequire %s %s\n", m.Path, Path, version)
	if m.Replace != "" {
		text += fmt.Sprintf("\nreplace %s => %s\n", Path, quoted(m.Replace))
	}
	return []byte(text)
}

// quoted is a path as go.mod has it.
func quoted(path string) string {
	path = filepath.ToSlash(path)
	if strings.ContainsAny(path, " \t\r\n\"'`()[]{},") {
		return strconv.Quote(path)
	}
	return path
}

// None is the path that asks New for no module.
const None = "none"

// New is the go.mod that a package pkg in dir needs, nil if it needs none. The module has the given path. If the
// path is empty, the package becomes a module, called pkg, only where dir lies in no module or in tmacc's. Errors
// blame the flags -o and -module of tmacc compile.
func New(dir, path, pkg string) (*Module, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root := Root(abs)
	separate := path != None && (path != "" || root == "" || At(root) == Path)
	if err := checkPlace(abs, root, separate); err != nil {
		return nil, fmt.Errorf("-o %s: %w", message.Quoted(dir), err)
	}
	if !separate {
		return nil, nil
	}
	if path == "" {
		path = pkg
	}
	if err := CheckPath(path); err != nil {
		return nil, fmt.Errorf("-module %q: want a path that the go command takes: %w", path, err)
	}
	if standard(path) || slices.Contains(goWords, path) {
		return nil, fmt.Errorf("-o %s: a module %s would have a name that means something else to the go command: give another with -module, such as -module example.com/%s", dir, path, path)
	}
	m := &Module{Path: path, Version: Version(), Replace: Checkout()}
	if m.Version == "" && m.Replace == "" {
		return nil, fmt.Errorf("-o %s: is in no Go module, and this tmacc is neither a release nor in its checkout, so that a new module could not require it: make one with go mod init and go get %s", dir, Path)
	}
	if rel, err := filepath.Rel(abs, m.Replace); err == nil && m.Replace == above(abs, own) {
		m.Replace = filepath.ToSlash(rel) // a checkout may move, with all in it
	}
	return m, nil
}

// checkPlace is an error if the go command cannot build a package in the directory abs. root is the root of the module
// that abs lies in, "" for none; separate says that the package becomes a module of its own.
func checkPlace(abs, root string, separate bool) error {
	if !utf8.ValidString(abs) || strings.ContainsAny(abs, "\r\n") {
		return errors.New("the go command builds nothing in a directory whose name has line breaks or is not UTF-8: choose another")
	}
	rel, err := filepath.Rel(root, abs)
	if root == "" || err != nil || rel == "." {
		return nil
	}
	path := filepath.ToSlash(rel)
	if first, _, _ := strings.Cut(path, "/"); first == "vendor" {
		return errors.New("in vendor the go command keeps copies of modules that this one requires, and builds it no more if other files are there: choose another directory")
	}
	if separate {
		return nil
	}
	if err := CheckPath(path); err != nil {
		return fmt.Errorf("the go command takes no package of this path: %w: choose another directory, or give it a -module of its own", err)
	}
	return nil
}

// goWords are what the go command takes for several packages (go help packages), for itself, for a program, and for cgo.
var goWords = []string{"all", "cmd", "std", "tool", "work", "go", "toolchain", "main", "C"}

// standard reports whether the go command takes a path for a package of its own, which it does before it looks
// at modules. Without a go command no path is one.
func standard(path string) bool {
	cmd := exec.Command("go", "list", "-e", "-find", "-f", "{{.Standard}}", path)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	return err == nil && strings.HasPrefix(string(out), "true")
}
