package kernels

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"unsafe"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/garbage"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/worker"
)

// linkedProduct is a product whose kernels were linked into this program.
type linkedProduct struct {
	identity  string // without the compiler: the program is its own
	binary    string // a live.Binary without code, encoded
	functions map[string]func(*uint64)
}

// Linked reports whether this program has kernels linked: Program made it.
func Linked() bool { return len(linked) > 0 }

// own is the product with the kernels that this program has, nil if it has none.
func (p *Provider) own(problem ir.Problem) (*runtime.Product, error) {
	if !Linked() {
		return nil, nil
	}
	id := string(p.identity("", problem, p.locked(problem)))
	for _, l := range linked {
		if l.identity == id {
			return l.product()
		}
	}
	return nil, nil
}

// product is the product with the functions of l.
func (l *linkedProduct) product() (*runtime.Product, error) {
	b, err := decode([]byte(l.binary))
	if err != nil {
		return nil, err
	}
	v := &b.Spec.Variants[0]
	err = jit.Bind(v, func(name string) (func([]uint64), error) {
		f := l.functions[name]
		if f == nil {
			return nil, fmt.Errorf("kernels: no function %s is linked", name)
		}
		return func(words []uint64) { f(unsafe.SliceData(words)) }, nil
	})
	if err == nil {
		err = b.Spec.Validate()
	}
	if err != nil {
		return nil, err
	}
	return runtime.New(b.Spec).On(v.Target)
}

// Program is the path of a program like this one which has kernels of the expected products linked, for a system that does not let
// this process map them. It is "" where none is needed, and in such a program. The program is kept in the folder, or else built by the go
// command of the sources of package main. Where that fails it is "", too, and an event says why when a product is in pure Go.
func (p *Provider) Program(main string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.target == nil || p.why == nil || Linked() || len(p.expected) == 0 {
		return ""
	}
	path, err := p.program(main)
	if err != nil {
		p.why = fmt.Errorf("%w; a program that has them linked could not be built: %w", p.why, err)
		return ""
	}
	return path
}

// program finds or builds the program.
func (p *Provider) program(main string) (path string, err error) {
	if p.folder == nil {
		return "", errors.New("there is no folder to keep it in")
	}
	id := p.programIdentity(main)
	path, damaged, err := p.folder.Program(id)
	if damaged {
		p.say(Damaged{"a program", p.folder.Path()})
	}
	if path != "" || err != nil {
		return path, err
	}
	data, err := p.link(main)
	p.say(Done{})
	if err != nil {
		return "", err
	}
	if err := p.folder.PutProgram(id, data); err != nil {
		return "", err
	}
	path, _, err = p.folder.Program(id)
	return path, err
}

// programIdentity is the text that a program with the kernels of products is kept by.
func (p *Provider) programIdentity(main string) []byte {
	ids := []string{"program", goruntime.GOOS, goruntime.GOARCH, main}
	for _, x := range p.expected {
		ids = append(ids, string(p.identity(p.compiler(), x, p.locked(x))))
	}
	return mustJSON(ids)
}

// link builds the program.
func (p *Provider) link(main string) ([]byte, error) {
	if err := assembler(); err != nil { // now, not after the compiler
		return nil, err
	}
	root, err := worker.Source()
	if err != nil {
		return nil, err
	}
	dir, err := jit.TempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	x := &linking{dir: dir, root: root, files: map[string]string{}}
	parts := make([]linkedPart, len(p.expected))
	errs := make([]error, len(p.expected))
	p.each(len(p.expected), func(m *making, i int) { parts[i], errs[i] = m.part(p.expected[i], fmt.Sprintf("p%d_", i)) })
	for i := range parts {
		if errs[i] == nil {
			errs[i] = x.add(&parts[i])
		}
		if errs[i] != nil {
			return nil, errs[i]
		}
	}
	p.say(Linking{len(p.expected)})
	return x.build(p, main)
}

// linkedPart is what a program gets for one product: what it is, and its functions in assembly, whose names begin with a prefix there.
type linkedPart struct {
	linkedProduct
	prefix   string
	names    []string
	assembly []byte
}

// part compiles and verifies the kernels of a product, for a program.
func (p *making) part(problem ir.Problem, prefix string) (x linkedPart, err error) {
	e := p.locked(problem)
	p.say(Compiling{problem, p.target, p.step(problem)})
	defer garbage.Spare()()
	v, err := p.variant(problem, e)
	if err != nil {
		return x, err
	}
	p.say(Verifying{problem, p.target, p.step(problem)})
	if _, err := live.Verify(problem, v); err != nil && !errors.Is(err, live.ErrPlatform) {
		return x, err
	}
	asm, err := v.Target.File("kernels", v.Functions(prefix)...)
	if err != nil {
		return x, err
	}
	data, err := encode(&live.Binary{Spec: live.Spec(problem, v), Object: jit.Object{Arch: goruntime.GOARCH}})
	if err != nil {
		return x, err
	}
	x = linkedPart{linkedProduct{identity: string(p.identity("", problem, e)), binary: string(data)}, prefix, nil, asm.Data}
	for _, f := range v.Functions("") {
		x.names = append(x.names, f.Name)
	}
	return x, nil
}

// linking is a program in the making: files that the go command takes in place of files of the sources, or besides them.
type linking struct {
	dir, root string
	files     map[string]string // by what they stand for
	decls     strings.Builder
	table     strings.Builder
}

// add adds a product.
func (x *linking) add(l *linkedPart) error {
	fmt.Fprintf(&x.table, "\t{identity: %q, binary: %q, functions: map[string]func(*uint64){\n", l.identity, l.binary)
	for _, name := range l.names {
		fmt.Fprintf(&x.decls, "//go:noescape\nfunc %s(args *uint64)\n\n", l.prefix+name)
		fmt.Fprintf(&x.table, "\t\t%q: %s,\n", name, l.prefix+name)
	}
	x.table.WriteString("\t}},\n")
	return x.write(fmt.Sprintf("%sof_%s.s", l.prefix, goruntime.GOARCH), l.assembly)
}

// write writes a file that stands for one of that name in this package.
func (x *linking) write(name string, data []byte) error {
	path := filepath.Join(x.dir, name)
	x.files[filepath.Join(x.root, "search", "kernels", name)] = path
	return os.WriteFile(path, data, 0o600)
}

// build is the program of package main, in the sources, with the products of x.
func (x *linking) build(p *Provider, main string) ([]byte, error) {
	text := fmt.Sprintf("package kernels\n\n%svar linked = []linkedProduct{\n%s}\n", x.decls.String(), x.table.String())
	if err := x.write("linked.go", []byte(text)); err != nil {
		return nil, err
	}
	overlay, out := filepath.Join(x.dir, "overlay.json"), filepath.Join(x.dir, "program.exe")
	if err := os.WriteFile(overlay, mustJSON(map[string]any{"Replace": x.files}), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(p.ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-overlay", overlay, "-o", out, main)
	cmd.Dir = x.root
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "GOOS="+goruntime.GOOS, "GOARCH="+goruntime.GOARCH)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, jit.ToolError("go build", err, string(said))
	}
	return os.ReadFile(out)
}
