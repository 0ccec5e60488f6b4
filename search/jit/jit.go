// Package jit makes functions of freshly printed kernels without building a
// program: `go tool asm` assembles them, this package reads the object file and maps
// it executable. A batch of thousands of kernels costs one run of the assembler.
//
// Kernels are machine code: one that leaves its buffers or never ends takes the
// process with it. Package worker calls in a process of their own those that nothing
// has verified yet.
package jit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/lower"
)

// ErrPlatform is wrapped by what says why kernels cannot be mapped executable in this process.
var ErrPlatform = errors.New("machine code cannot be mapped executable here")

// EnvJIT is the environment variable that, if it is Off, makes this package refuse
// everything with ErrPlatform: what else there is then has to do.
const (
	EnvJIT = "TMACC_JIT"
	Off    = "off"
)

// Denied is why a system that maps kernels elsewhere does not let this process do so. It is an ErrPlatform.
type Denied struct{ Err error }

func (e *Denied) Error() string {
	return fmt.Sprintf("%v: %v: a policy may forbid it, such as systemd's MemoryDenyWriteExecute, SELinux or seccomp", ErrPlatform, e.Err)
}

func (e *Denied) Unwrap() []error { return []error{ErrPlatform, e.Err} }

// Mappable is nil if this process can map kernels, else an ErrPlatform that says why not. It has tried, once.
func Mappable() error {
	if err := switchedOff(); err != nil {
		return err
	}
	return tried()
}

// tried is the error of mapping the instruction of one return.
var tried = onceTried()

func onceTried() func() error {
	return sync.OnceValue(func() error {
		l, known := linkers[runtime.GOARCH]
		if !known {
			return errUnknown
		}
		mem, err := mapCode(l.ret)
		if err != nil {
			return err
		}
		return (&Image{mem: mem}).Close()
	})
}

var errUnknown = fmt.Errorf("%w: only linux/amd64 and linux/arm64 do", ErrPlatform)

// switchedOff is an ErrPlatform if EnvJIT is Off.
func switchedOff() error {
	if os.Getenv(EnvJIT) == Off {
		return fmt.Errorf("%w: %s is %s", ErrPlatform, EnvJIT, Off)
	}
	return nil
}

// Supported reports whether kernels can be mapped here.
func Supported() bool { return Mappable() == nil }

// Builds is nil if Build makes functions for a system and an architecture, which a process there may still not be allowed to map.
func Builds(system, arch string) error {
	if _, known := linkers[arch]; system != "linux" || !known {
		return errUnknown
	}
	return switchedOff()
}

// ErrNoGo is wrapped by the errors of a machine without the go command.
var ErrNoGo = errors.New("jit: the go command is needed to assemble kernels, and is not in PATH")

// ErrTool is wrapped by the errors of a go command that failed for no fault of the kernels: it names no line of them.
var ErrTool = errors.New("the go command cannot work here")

// ToolError is the error of a go command that printed out, about kernels unless it names no line of a file.
func ToolError(what string, err error, out string) error {
	if atLine.MatchString(out) {
		return fmt.Errorf("%s: %w\n%s", what, err, out)
	}
	return fmt.Errorf("%s: %w: %w\n%s", what, ErrTool, err, out)
}

var atLine = regexp.MustCompile(`(?m)\.(s|go):\d+`)

// Object is assembled functions, to be mapped by any process on Linux and of its architecture.
type Object struct {
	Arch string          // as GOARCH has it
	Code []byte          // functions and their read-only data, at any address
	Text map[string]Span // by name
}

// Span is where a function lies.
type Span struct{ At, Size int }

// Image holds the functions of an Object, mapped executable, until Close.
type Image struct {
	mem  []byte
	text map[string]Span
}

// Func is a function of an Image.
type Func struct {
	img  *Image
	name string
	Span
}

// Assemble is Build for this machine and Map.
func Assemble(files ...lower.File) (*Image, error) {
	if err := Mappable(); err != nil { // now, not after the assembler
		return nil, err
	}
	o, err := Build(runtime.GOARCH, files...)
	if err != nil {
		return nil, err
	}
	return Map(o)
}

// Build assembles files for Linux on an architecture, on any machine, in parallel. Function names must differ
// between files; read-only data may share names.
func Build(arch string, files ...lower.File) (*Object, error) {
	if err := Builds("linux", arch); err != nil {
		return nil, err
	}
	objects, err := assemble(arch, files)
	if err != nil {
		return nil, err
	}
	var code []byte
	text := map[string]Span{}
	for _, o := range objects {
		syms, err := readObject(o)
		if err != nil {
			return nil, err
		}
		if code, err = linkers[arch].link(code, text, syms); err != nil {
			return nil, err
		}
	}
	if len(text) == 0 {
		return nil, errors.New("jit: nothing to assemble")
	}
	return &Object{arch, code, text}, nil
}

// Map maps the functions of o in this process.
func Map(o *Object) (*Image, error) {
	if err := Mappable(); err != nil {
		return nil, err
	}
	if o.Arch != runtime.GOARCH {
		return nil, fmt.Errorf("jit: functions for %s cannot be mapped on %s", o.Arch, runtime.GOARCH)
	}
	mem, err := mapCode(o.Code)
	if err != nil {
		return nil, err
	}
	return &Image{mem, o.Text}, nil
}

// toolchain finds the assembler once.
var toolchain = sync.OnceValues(func() (goroot string, err error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoGo, err)
	}
	out, err := exec.Command(path, "env", "GOROOT").Output()
	if err != nil {
		return "", ToolError("jit: go env GOROOT", err, stderrOf(err))
	}
	return strings.TrimSpace(string(out)), nil
})

// stderrOf is what a command said whose output only was asked for.
func stderrOf(err error) string {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// folders are those that assembly is in now.
var folders sync.Map

// Leave removes the files of assembly that is still going on, for a process that ends without waiting for it.
func Leave() {
	folders.Range(func(dir, _ any) bool {
		os.RemoveAll(dir.(string))
		return true
	})
}

// assemble returns the object of each file: symbols that are private to a file
// would clash if one run assembled all.
func assemble(arch string, files []lower.File) ([][]byte, error) {
	goroot, err := toolchain()
	if err != nil {
		return nil, err
	}
	dir, err := TempDir()
	if err != nil {
		return nil, err
	}
	folders.Store(dir, true)
	defer func() {
		os.RemoveAll(dir)
		folders.Delete(dir)
	}()
	objects := make([][]byte, len(files))
	errs := make([]error, len(files))
	var wg sync.WaitGroup
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for i, f := range files {
		slots <- true
		wg.Go(func() {
			objects[i], errs[i] = assembleFile(goroot, arch, filepath.Join(dir, fmt.Sprint(i)), f)
			<-slots
		})
	}
	wg.Wait()
	return objects, errors.Join(errs...)
}

func assembleFile(goroot, arch, path string, f lower.File) ([]byte, error) {
	if err := os.WriteFile(path+".s", f.Data, 0o600); err != nil {
		return nil, fmt.Errorf("jit: %w", err)
	}
	cmd := exec.Command("go", "tool", "asm", "-p", "main", "-I", filepath.Join(goroot, "pkg", "include"), "-o", path+".o", path+".s")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, ToolError("jit: go tool asm "+f.Name, err, strings.ReplaceAll(string(out), path+".s", f.Name))
	}
	object, err := os.ReadFile(path + ".o")
	if err != nil {
		return nil, fmt.Errorf("jit: %w", err)
	}
	return object, nil
}

// Func returns a function by its name in the assembly, without "·".
func (m *Image) Func(name string) (Func, error) {
	s, ok := m.text[name]
	if !ok {
		return Func{}, fmt.Errorf("jit: no function %s", name)
	}
	return Func{m, name, s}, nil
}

// Code is the machine code of f. Distances to read-only data in it depend on
// what else was assembled.
func (f Func) Code() []byte { return slices.Clone(f.img.mem[f.At : f.At+f.Size]) }
