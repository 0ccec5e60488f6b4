// Package qemu runs printed kernels in a process of their own: natively, or on
// another CPU under qemu's user-mode emulation. A kernel that faults, never ends
// or writes outside its buffers becomes an error that names it.
package qemu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Call is one execution of a kernel. Arguments that are the same slice are the
// same buffer. Afterwards the buffers hold what the kernel stored; every call of a Run sees
// them as they were before the first.
type Call struct {
	Kernel string
	Args   []vir.Arg
}

// ArmCPU is a CPU to run kernels of target as that has little more than they may use.
func ArmCPU(target lower.Target) string {
	switch target.Machine().Name {
	case "arm64/neon":
		return "cortex-a57"
	case "arm64/dotprod":
		return "neoverse-n1"
	}
	return "max"
}

// timeout is for building and for all calls of one Run.
const timeout = 5 * time.Minute

// Run builds file into a program and makes the calls, in order. The file's name
// says the architecture, as the go command reads it: kernels_arm64.s. The program
// runs under qemu as cpu ("max", "neoverse-n1", "Haswell"), or natively if cpu is
// empty. Buffers end at an unmapped page, so reads past them fault too. Building
// takes about a second, so batch the calls. Need says whether the emulator is there.
func Run(cpu string, file lower.File, calls []Call) error {
	argv, err := emulator(arch(file), cpu)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "qemu")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := Module(dir, file, calls); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	build := exec.CommandContext(ctx, "go", "build", "-o", "run", ".")
	build.Dir, build.Env = dir, Env(file)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", file.Name, err, out)
	}
	argv = append(argv, filepath.Join(dir, "run"))
	run := exec.CommandContext(ctx, argv[0], argv[1:]...)
	in, out := io.Pipe()
	go func() { out.CloseWithError(encode(out, calls)) }()
	run.Stdin = in
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	err = run.Run()
	in.Close()
	done, wrong := decode(&stdout, calls)
	switch {
	case wrong:
		return &Fault{done, calls[done].Kernel, "wrote before the start of a buffer"}
	case done < len(calls):
		return &Fault{done, calls[done].Kernel, fmt.Sprintf("%v\n%s", err, head(stderr.String(), 12))}
	}
	return err
}

// Fault reports a call that did not end, or stored elsewhere.
type Fault struct {
	Call   int
	Kernel string
	Why    string
}

func (f *Fault) Error() string { return fmt.Sprintf("call %d, kernel %s: %s", f.Call, f.Kernel, f.Why) }

// arch is the architecture in the name of file.
func arch(file lower.File) string {
	name := strings.TrimSuffix(file.Name, ".s")
	return name[strings.LastIndex(name, "_")+1:]
}

// emulators are the programs that run those for another architecture.
var emulators = map[string]string{"arm64": "qemu-aarch64", "amd64": "qemu-x86_64"}

// Find is the path of the emulator of an architecture, or says that it is missing.
func Find(arch string) (string, error) {
	name, ok := emulators[arch]
	if !ok {
		panic("BUG: no emulator for " + arch)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is missing", name)
	}
	return path, nil
}

// Need skips the test if the emulator of an architecture is missing.
func Need(t testing.TB, arch string) {
	t.Helper()
	if _, err := Find(arch); err != nil {
		t.Skip(err)
	}
}

// emulator is the command that runs a program for arch as cpu.
func emulator(arch, cpu string) ([]string, error) {
	if cpu == "" {
		return nil, nil
	}
	path, err := Find(arch)
	return []string{path, "-cpu", cpu}, err
}

// Env is the environment in which the go command handles the module of file.
func Env(file lower.File) []string {
	return append(os.Environ(), "GOOS=linux", "GOARCH="+arch(file), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
}

// Module writes the program that makes the calls into a folder.
func Module(dir string, file lower.File, calls []Call) error {
	var stubs strings.Builder
	stubs.WriteString("package main\n\nimport \"unsafe\"\n\nvar table = []func(args unsafe.Pointer){")
	names := kernels(calls)
	stubs.WriteString(strings.Join(names, ", ") + "}\n")
	for _, n := range names {
		fmt.Fprintf(&stubs, "\n//go:noescape\nfunc %s(args unsafe.Pointer)\n", n)
	}
	for name, data := range map[string]string{
		"go.mod":   "module run\n\ngo 1.24\n",
		"main.go":  program,
		"stubs.go": stubs.String(),
		file.Name:  string(file.Data),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// kernels lists the kernels that are called, sorted.
func kernels(calls []Call) []string {
	var names []string
	for _, c := range calls {
		names = append(names, c.Kernel)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The kinds of an argument on the program's input.
const (
	isInt   = iota // followed by the number
	isNew          // length, bytes, then as isKnown
	isKnown        // number of a buffer, which are counted from the first call on
)

// encode writes the calls as the program reads them: numbers are 8 bytes, little
// endian; a call is its kernel, the number of arguments, the arguments.
func encode(to io.Writer, calls []Call) error {
	names := kernels(calls)
	w := bufio.NewWriterSize(to, 1<<16)
	put := func(vs ...int64) {
		for _, v := range vs {
			w.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
		}
	}
	known := map[buffer]int64{}
	for _, c := range calls {
		i, _ := slices.BinarySearch(names, c.Kernel)
		put(int64(i), int64(len(c.Args)))
		for _, a := range c.Args {
			if a.Buf == nil {
				put(isInt, a.Int)
				continue
			}
			b := bufferOf(a)
			id, ok := known[b]
			if !ok {
				id = int64(len(known))
				known[b] = id
				put(isNew, int64(len(a.Buf)))
				w.Write(a.Buf)
			} else {
				put(isKnown)
			}
			put(id)
		}
	}
	return w.Flush()
}

// buffer identifies the memory of an argument.
type buffer struct {
	first *byte
	size  int
}

func bufferOf(a vir.Arg) buffer { return buffer{unsafe.SliceData(a.Buf), len(a.Buf)} }

// decode reads the program's output, for each call a byte (1 if the surroundings of a buffer
// changed) and for each of its buffers another, behind which is what it holds if the call changed
// it. It returns how many calls ended; wrong says that the next one did too, but changed what it
// may not.
func decode(r io.Reader, calls []Call) (done int, wrong bool) {
	in := bufio.NewReader(r)
	for n, c := range calls {
		status, err := in.ReadByte()
		if err != nil {
			return n, false
		}
		seen := map[buffer]bool{}
		for _, a := range c.Args {
			if a.Buf == nil || seen[bufferOf(a)] {
				continue
			}
			seen[bufferOf(a)] = true
			changed, err := in.ReadByte()
			if err != nil {
				return n, false
			}
			if changed == 0 {
				continue
			}
			if _, err := io.ReadFull(in, a.Buf); err != nil {
				return n, false
			}
		}
		if status != 0 {
			return n, true
		}
	}
	return len(calls), false
}

func head(s string, lines int) string {
	all := strings.SplitAfter(s, "\n")
	return strings.Join(all[:min(lines, len(all))], "")
}
