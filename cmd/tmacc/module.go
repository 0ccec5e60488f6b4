package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/gen"
)

const modulePath = "github.com/tmacc/tmacc"

var moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)

// moduleAt is the path of the module in dir, "" if there is no go.mod.
func moduleAt(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return ""
	}
	if m := moduleLine.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return "?"
}

// above is the first directory from dir upward that is the root of a module for
// which want holds, or "".
func above(dir string, want func(module string) bool) string {
	for {
		if m := moduleAt(dir); m != "" && want(m) {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// inModule says that a directory is in a module.
func inModule(dir string) bool {
	abs, err := filepath.Abs(dir)
	return err == nil && above(abs, func(string) bool { return true }) != ""
}

// checkout is the root of the sources of tmacc that this command was built from,
// or in which it runs, or "".
func checkout() string {
	own := func(m string) bool { return m == modulePath }
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if dir := above(filepath.Dir(file), own); dir != "" {
			return dir
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		return ""
	}
	return above(wd, own)
}

// required is what to do about a module that does not require tmacc, as the go command said, else "".
func required(said []byte) string {
	if bytes.Contains(said, []byte("provides package "+modulePath)) && bytes.Contains(said, []byte("replaced but not required")) {
		return ", whose module replaces " + modulePath + " and does not require it: go mod tidy"
	}
	if !bytes.Contains(said, []byte("no required module provides package "+modulePath)) {
		return ""
	}
	remedy := "go get " + modulePath + "@" + version()
	if version() == "" {
		remedy = "go mod edit -replace " + modulePath + "=" + cmp.Or(checkout(), "FOLDER of a checkout") + " and go mod tidy"
	}
	return ", whose module does not require " + modulePath + ": " + remedy
}

var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// version is the release of tmacc that this is, or "".
func version() string {
	info, _ := debug.ReadBuildInfo()
	if v := recorded(info); release.MatchString(v) {
		return v
	}
	return ""
}

// compiler says which tmacc this is, for who reads it: a release or a version that names a commit.
func compiler() string {
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(recorded(info), unknown)
}

// unknown is the version of a tmacc that has none.
const unknown = "unknown"

// recorded is the version of tmacc that Go has recorded in a program, or "": go build and go install do, go run
// does not, and what replaces a release is none.
func recorded(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	for _, m := range append(slices.Clone(info.Deps), &info.Main) {
		if m.Path == modulePath && m.Replace == nil && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
}

// noModule is the -module that makes none.
const noModule = "none"

// moduleFor is the go.mod that a package in dir needs: of the given path, or one
// of its own if dir lies in no module but perhaps that of tmacc, or none.
func moduleFor(dir, path, pkg string) (*gen.Module, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root := above(abs, func(string) bool { return true })
	own := path != noModule && (path != "" || root == "" || moduleAt(root) == modulePath)
	if err := checkPlace(abs, root, own); err != nil {
		return nil, fmt.Errorf("-o %s: %w", quotedIfOdd(dir), err)
	}
	if !own {
		return nil, nil
	}
	if path == "" {
		path = pkg
	}
	if err := gen.CheckPath(path); err != nil {
		return nil, fmt.Errorf("-module %q: want a path that the go command takes: %w", path, err)
	}
	if standard(path) || slices.Contains(goWords, path) {
		return nil, fmt.Errorf("-o %s: a module %s would have a name that means something else to the go command: give another with -module, such as -module example.com/%s", dir, path, path)
	}
	m := &gen.Module{Path: path, Version: version(), Replace: checkout()}
	if m.Version == "" && m.Replace == "" {
		return nil, fmt.Errorf("-o %s: is in no Go module, and this tmacc is neither a release nor in its checkout, so that a new module could not require it: make one with go mod init and go get %s", dir, modulePath)
	}
	if rel, err := filepath.Rel(abs, m.Replace); err == nil && m.Replace == above(abs, func(p string) bool { return p == modulePath }) {
		m.Replace = filepath.ToSlash(rel) // a checkout may move, with all in it
	}
	return m, nil
}

// goWords are what the go command takes for several packages (go help packages), for itself, for a program, and for cgo.
var goWords = []string{"all", "cmd", "std", "tool", "work", "go", "toolchain", "main", "C"}

// standard says that the go command takes a path for that of a package of its own, which it does before it looks
// at modules. Without a go command none is.
func standard(path string) bool {
	cmd := exec.Command("go", "list", "-e", "-find", "-f", "{{.Standard}}", path)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	return err == nil && strings.HasPrefix(string(out), "true")
}

// toolchain runs the go command in a directory, for this machine whatever GOOS and GOARCH in the environment say.
type toolchain struct {
	dir string
	env []string
}

// run is an error with the command's output unless it succeeds.
func (t toolchain) run(ctx context.Context, env string, args ...string) error {
	cmd, done, err := t.command(ctx, env, args)
	if err != nil {
		return err
	}
	defer done()
	out, err := cmd.CombinedOutput()
	return failure(args, out, err)
}

// output is what the command prints on standard output, or an error.
func (t toolchain) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd, done, err := t.command(ctx, "", args)
	if err != nil {
		return nil, err
	}
	defer done()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return out, failure(args, stderr.Bytes(), err)
}

// failure is the error of a command that said out, nil if err is.
func failure(args []string, out []byte, err error) error {
	if err == nil {
		return nil
	}
	return &commandError{"go " + strings.Join(args, " "), err, bytes.TrimSpace(out)}
}

// command is a call of the go command, whose temporary files done removes.
func (t toolchain) command(ctx context.Context, env string, args []string) (_ *exec.Cmd, done func(), _ error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	temp, err := os.MkdirTemp("", "tmacc-go-") // interrupted, the go command may leave its own behind
	if err != nil {
		return nil, nil, plain(err)
	}
	cmd.Env = append(append(os.Environ(), "GOTMPDIR="+temp, "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH), append(t.env, strings.Fields(env)...)...)
	return cmd, func() { os.RemoveAll(temp) }, nil
}

// commandError is a command that failed.
type commandError struct {
	command string
	err     error
	output  []byte
}

func (e *commandError) Error() string { return fmt.Sprintf("%s: %v", e.command, e.err) }
func (e *commandError) Unwrap() error { return e.err }

// prepareModule completes the go.mod and go.sum of a module that tmacc made. The
// sums of the checkout's go.sum save looking them up.
func (t toolchain) prepareModule(ctx context.Context, m *gen.Module) error {
	sum := filepath.Join(t.dir, "go.sum")
	if _, err := os.Stat(sum); m.Replace != "" && errors.Is(err, fs.ErrNotExist) {
		root := m.Replace
		if !filepath.IsAbs(root) {
			root = filepath.Join(t.dir, root)
		}
		data, err := os.ReadFile(filepath.Join(root, "go.sum"))
		if err != nil {
			return plain(err)
		}
		if err := writeFile(sum, data); err != nil {
			return err
		}
	}
	return t.run(ctx, "GOFLAGS=-mod=mod", "mod", "tidy")
}
