package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/jit"
)

// ErrNoSource is returned where functions can be neither mapped nor linked.
var ErrNoSource = errors.New("worker: kernels are linked with tmacc's own packages here: run in its checkout, or in a module that requires it")

// program is a worker that has functions linked.
type program struct {
	dir, path string   // no dir: it stays
	kept      bool     // this program has built it, or another process of it
	names     []string // of its functions
}

func (p *program) remove() error {
	if p.dir == "" { // it is the user's
		return nil
	}
	return os.RemoveAll(p.dir)
}

var textLine = regexp.MustCompile(`(?m)^TEXT ·([A-Za-z_][A-Za-z0-9_]*)\(SB\)`)

// build makes a program of files for m that serves their functions, in a module of its own
// that requires this one. Without files it maps what it is sent.
func build(m *Machine, files []lower.File) (*program, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("%w: %w", jit.ErrNoGo, err)
	}
	root, err := Source()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tmacc-worker-")
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	p := &program{dir: dir, path: filepath.Join(dir, "worker.exe")}
	if err := p.make(m, root, files); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// make writes the module and builds it.
func (p *program) make(m *Machine, root string, files []lower.File) error {
	if err := p.write(root, files); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-mod=mod", "-ldflags=-s -w", "-o", p.path, ".")
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "GOOS="+m.os, "GOARCH="+m.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return jit.ToolError("worker: go build", err, string(out))
	}
	return nil
}

// write writes the module.
func (p *program) write(root string, files []lower.File) error {
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	module := map[string][]byte{
		"go.mod": (&gomod.Module{Path: "worker", Replace: root}).File(),
		"go.sum": sums,
	}
	for i, f := range files {
		for _, m := range textLine.FindAllSubmatch(f.Data, -1) {
			name := string(m[1])
			if slices.Contains(p.names, name) {
				return fmt.Errorf("worker: two functions are called %s", name)
			}
			p.names = append(p.names, name)
		}
		module[fmt.Sprintf("f%d.s", i)] = f.Data
	}
	if len(files) > 0 && len(p.names) == 0 {
		return errors.New("worker: nothing to assemble")
	}
	module["main.go"] = p.main()
	for name, data := range module {
		if err := os.WriteFile(filepath.Join(p.dir, name), data, 0o600); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	return nil
}

// main is the program's Go.
func (p *program) main() []byte {
	if len(p.names) == 0 {
		return fmt.Appendf(nil, "package main\n\nimport %q\n\nfunc main() { worker.Serve(nil) }\n", gomod.Path+"/search/worker")
	}
	var decls, table strings.Builder
	for _, n := range p.names {
		fmt.Fprintf(&decls, "//go:noescape\nfunc %s(args *uint64)\n\n", n)
		fmt.Fprintf(&table, "\t\t%q: %s,\n", n, n)
	}
	return fmt.Appendf(nil, "package main\n\nimport %q\n\n%sfunc main() {\n\tworker.Serve(map[string]func(*uint64){\n%s\t})\n}\n",
		gomod.Path+"/search/worker", decls.String(), table.String())
}

// Source is the root of tmacc's sources: those that this program was built from, or
// those that the module of the working directory requires.
func Source() (string, error) {
	if root := gomod.Sources(); root != "" {
		return root, nil
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", gomod.Path).Output()
	if root := strings.TrimSpace(string(out)); err == nil && root != "" {
		return root, nil
	}
	return "", ErrNoSource
}
