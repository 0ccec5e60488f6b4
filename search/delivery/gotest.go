package delivery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/lower"
)

// TestError is a call of the go command that failed in the package. Its Output says why.
type TestError struct{ *gomod.CommandError }

func (e *TestError) Unwrap() error { return e.CommandError }

// Test builds, vets and tests the package with the go command, after Write. Of an unchecked package it only completes
// a new module. A command that fails is a *TestError. Without the go command Test does nothing.
func (x *Package) Test(ctx context.Context) error {
	if !gomod.Available() {
		if x.module != nil {
			x.say(Note(fmt.Sprintf("the go command is not in PATH: %s is not complete: run go mod tidy there", filepath.Join(x.Dir, "go.mod"))))
		}
		return nil
	}
	for _, step := range x.steps(ctx) {
		err := step()
		var failure *gomod.CommandError
		if errors.As(err, &failure) && ctx.Err() == nil {
			return &TestError{failure}
		}
		if err != nil {
			return err
		}
	}
	if x.Unchecked {
		return nil
	}
	x.tested = true
	return x.learn(ctx)
}

// learn finds out whether the tests ran the assembly. Then the kernels for this machine are checked.
func (x *Package) learn(ctx context.Context) error {
	assembly, err := x.toolchain().Output(ctx, "list", "-f", "{{.SFiles}}", ".")
	switch {
	case err != nil:
		return err
	case strings.Contains(string(assembly), x.Name+"_"):
		x.testsPassed()
	case slices.ContainsFunc(x.Targets, func(t lower.Target) bool { return lacks(t) == "" }):
		x.say(Note("go test ran the package in pure Go: build tags, of GOFLAGS perhaps, leave out the assembly"))
	}
	return nil
}

// toolchain runs the go command in the directory of the package.
func (x *Package) toolchain() gomod.Toolchain {
	t := gomod.Toolchain{Dir: x.Dir}
	if x.module != nil {
		t.Env = []string{"GOWORK=off"}
	}
	return t
}

// steps are the calls of the go command. An unchecked package has only the one that completes a new module.
func (x *Package) steps(ctx context.Context) []func() error {
	t := x.toolchain()
	var steps []func() error
	if x.module != nil {
		steps = append(steps, func() error { return t.Complete(ctx, x.module, gen.WriteFile) })
	}
	if x.Unchecked {
		return steps
	}
	for _, command := range []string{"build", "vet", "test"} {
		steps = append(steps, func() error {
			x.say(Running{command, x.Dir})
			return t.Run(ctx, "", command, ".")
		})
	}
	for _, a := range x.otherArches() {
		steps = append(steps, func() error { return t.Run(ctx, "GOARCH="+a, "vet", ".") })
	}
	return steps
}

// otherArches are the architectures of targets other than this machine's.
func (x *Package) otherArches() (arches []string) {
	for _, t := range x.Targets {
		if a := t.Machine().Arch(); a != runtime.GOARCH && !slices.Contains(arches, a) {
			arches = append(arches, a)
		}
	}
	return arches
}

// testsPassed notes that the tests of the package ran all kernels that this machine runs.
func (x *Package) testsPassed() {
	for _, w := range x.products {
		for i := range w.compiled.Variants {
			if v := &w.compiled.Variants[i]; lacks(v.Target) == "" {
				x.note(w, v, w.compared())
			}
		}
	}
}
