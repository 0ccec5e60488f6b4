// Package qemu runs printed kernels in a process of their own: natively, or on
// another CPU under qemu's user-mode emulation. A kernel that faults, never ends
// or writes outside its buffers becomes an error that names it.
package qemu

import (
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

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Call is one execution of a kernel. Arguments that are the same slice are the
// same buffer. Afterwards the buffers hold what the kernel stored.
type Call struct {
	Kernel string
	Args   []vir.Arg
}

// timeout is for building and for all calls of one Run.
const timeout = 5 * time.Minute

// Run builds file into a program and makes the calls, in order. The file's name
// says the architecture, as the go command reads it: kernels_arm64.s. The program
// runs under qemu as cpu ("max", "neoverse-n1", "Haswell"), or natively if cpu is
// empty. Buffers end at an unmapped page, so reads past them fault too. Building
// takes about a second, so batch the calls. Run skips the test if qemu is missing.
func Run(t testing.TB, cpu string, file lower.File, calls []Call) error {
	t.Helper()
	argv := emulator(t, arch(file), cpu)
	dir := Module(t, file, calls)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	build := exec.CommandContext(ctx, "go", "build", "-o", "run", ".")
	build.Dir, build.Env = dir, Env(file)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", file.Name, err, out)
	}
	argv = append(argv, filepath.Join(dir, "run"))
	run := exec.CommandContext(ctx, argv[0], argv[1:]...)
	run.Stdin = bytes.NewReader(encode(calls))
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	err := run.Run()
	done, wrong := decode(&stdout, calls)
	switch {
	case wrong != nil:
		return wrong
	case done < len(calls):
		return fmt.Errorf("call %d, kernel %s: %v\n%s", done, calls[done].Kernel, err, head(stderr.String(), 12))
	}
	return err
}

// arch is the architecture in the name of file.
func arch(file lower.File) string {
	name := strings.TrimSuffix(file.Name, ".s")
	return name[strings.LastIndex(name, "_")+1:]
}

// emulator is the command that runs a program for arch as cpu.
func emulator(t testing.TB, arch, cpu string) []string {
	if cpu == "" {
		return nil
	}
	name, ok := map[string]string{"arm64": "qemu-aarch64", "amd64": "qemu-x86_64"}[arch]
	if !ok {
		t.Fatalf("BUG: no emulator for %q", arch)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is missing")
	}
	return []string{path, "-cpu", cpu}
}

// Env is the environment in which the go command handles the module of file.
func Env(file lower.File) []string {
	return append(os.Environ(), "GOOS=linux", "GOARCH="+arch(file), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
}

// Module writes the program that makes the calls into a temporary folder.
func Module(t testing.TB, file lower.File, calls []Call) string {
	dir := t.TempDir()
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
			t.Fatal(err)
		}
	}
	return dir
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
	isInt    = iota // followed by the number
	isBuffer        // length, then bytes
	isSame          // number of the argument whose buffer it shares
)

// encode writes the calls as the program reads them: numbers are 8 bytes, little
// endian; a call is its kernel, the number of arguments, the arguments.
func encode(calls []Call) []byte {
	names := kernels(calls)
	var b []byte
	put := func(vs ...int64) {
		for _, v := range vs {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
	}
	for _, c := range calls {
		i, _ := slices.BinarySearch(names, c.Kernel)
		put(int64(i), int64(len(c.Args)))
		for i, a := range c.Args {
			switch same := sharedWith(c.Args, i); {
			case a.Buf == nil:
				put(isInt, a.Int)
			case same < i:
				put(isSame, int64(same))
			default:
				put(isBuffer, int64(len(a.Buf)))
				b = append(b, a.Buf...)
			}
		}
	}
	return b
}

// sharedWith is the first argument whose buffer is that of argument i.
func sharedWith(args []vir.Arg, i int) int {
	for j := range i {
		if len(args[i].Buf) > 0 && len(args[j].Buf) > 0 && &args[i].Buf[0] == &args[j].Buf[0] {
			return j
		}
	}
	return i
}

// decode reads the program's output, a byte (1 if the surroundings of a buffer
// changed) and the buffers for each call, and returns how many calls ended.
func decode(r io.Reader, calls []Call) (int, error) {
	for n, c := range calls {
		var status [1]byte
		if _, err := io.ReadFull(r, status[:]); err != nil {
			return n, nil
		}
		for i, a := range c.Args {
			if a.Buf == nil || sharedWith(c.Args, i) < i {
				continue
			}
			if _, err := io.ReadFull(r, a.Buf); err != nil {
				return n, nil
			}
		}
		if status[0] != 0 {
			return n, fmt.Errorf("call %d, kernel %s: wrote before the start of a buffer", n, c.Kernel)
		}
	}
	return len(calls), nil
}

func head(s string, lines int) string {
	all := strings.SplitAfter(s, "\n")
	return strings.Join(all[:min(lines, len(all))], "")
}
