package models

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/qemu"
)

const pureGo = "purego"

// threads are the ones that a child may use.
const threads = 3

// machine is a kind of child: a target, and a program that runs its kernels.
type machine struct {
	arch    string
	name    string       // of the target, or pureGo
	target  lower.Target // nil: pure Go
	allowed []string     // names of the targets that this one's CPU runs, the ones that programs try first before others
	command []string
}

// newPureGo is a machine without kernels, on which children run by a command.
func newPureGo(arch string, command ...string) *machine {
	return &machine{arch: arch, name: pureGo, allowed: []string{pureGo}, command: command}
}

// newMachine is one on which children run by a command.
func newMachine(t lower.Target, command ...string) *machine {
	m := t.Machine()
	x := &machine{arch: m.Arch(), name: m.Name, target: t, command: command}
	for _, other := range lower.Preferred(targets.Ordinary()) {
		if o := other.Machine(); o.Arch() == m.Arch() && m.Has&o.Has == o.Has {
			x.allowed = append(x.allowed, o.Name)
		}
	}
	return x
}

// here are pure Go and all targets that this CPU runs.
func here(t *testing.T) []*machine {
	t.Helper()
	out := []*machine{newPureGo(goruntime.GOARCH, os.Args[0])}
	if err := live.Mappable(); err != nil {
		t.Skipf("only pure Go runs here: %v", err)
	}
	for _, x := range targets.Ordinary() {
		if x.Machine().Arch() != goruntime.GOARCH {
			continue
		}
		if lacks := timing.ThisHost().Lacks(targets.Features(x)); lacks != nil {
			t.Logf("%s is not run: this CPU lacks %s", x.Machine().Name, strings.Join(lacks, " "))
			continue
		}
		out = append(out, newMachine(x, os.Args[0]))
	}
	return out
}

// emulatedArms are pure Go compiled for Arm, where Go fuses what it may fuse, and the targets, all of which qemu runs.
func emulatedArms(t *testing.T) (out []*machine) {
	t.Helper()
	const arch = "arm64"
	if goruntime.GOARCH == arch {
		t.Skip("Arm's targets run here")
	}
	program := filepath.Join(t.TempDir(), "models.test")
	for _, x := range arm64.Targets() {
		command, err := qemu.Command(x)
		if err != nil {
			t.Skip(err)
		}
		if command = append(command, program); out == nil {
			out = append(out, newPureGo(arch, command...))
		}
		if x.Machine().Ordinary() {
			out = append(out, newMachine(x, command...))
		}
	}
	cmd := exec.Command("go", "test", "-c", "-o", program, ".")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, said)
	}
	return out
}

// String is the name of the machine.
func (x *machine) String() string {
	if x.target == nil {
		return fmt.Sprintf("%s on %s", x.name, x.arch)
	}
	return x.name
}

// compute asks a child, with kernels if it can have no others.
func (x *machine) compute(ctx context.Context, q request, needed []ir.Problem) (r reply, err error) {
	if x.target != nil && x.arch != goruntime.GOARCH {
		if q.Kernels, err = x.kernels(ctx, needed); err != nil {
			return r, err
		}
	}
	return x.ask(ctx, q)
}

// ask starts a child and waits for its reply.
func (x *machine) ask(ctx context.Context, q request) (r reply, err error) {
	var in, out, said bytes.Buffer
	if err := gob.NewEncoder(&in).Encode(q); err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, x.command[0], x.command[1:]...)
	cmd.Env = append(os.Environ(), envChild+"=1", fmt.Sprintf("GOMAXPROCS=%d", threads), runtime.EnvCPU+"="+strings.Join(x.allowed, ","))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &said
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%w\n%s", err, said.String())
	}
	return r, gob.NewDecoder(&out).Decode(&r)
}

// kernels are compiled for a child that cannot start processes. Nothing compares them with the definition but this test.
func (x *machine) kernels(ctx context.Context, problems []ir.Problem) (map[string]*live.Binary, error) {
	out := map[string]*live.Binary{}
	for _, p := range problems {
		uses, err := chosen.Product(ctx, p, x.target)
		if err != nil {
			return nil, err
		}
		v, err := build.Variant(ctx, p, x.target, uses)
		if err != nil {
			return nil, err
		}
		f, err := x.target.File("main", v.Functions("")...)
		if err != nil {
			return nil, err
		}
		o, err := jit.Build(x.target.Machine().Arch(), f)
		if err != nil {
			return nil, err
		}
		out[tune.ProblemHash(p)] = &live.Binary{Spec: live.Spec(p, v), Object: *o}
	}
	return out, nil
}
