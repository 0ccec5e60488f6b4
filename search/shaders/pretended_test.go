package shaders

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	tmacc "github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// pretended is a device of a worker that times nothing. The first product that the worker times is the default. What happens to the others
// the file says that the environment names, a word for each.
type pretended struct {
	first []byte // the default's shader
	lost  bool
}

const (
	envFate = "TMACC_TEST_FATE"

	fine   = "fine"
	lacks  = "lacks" // memory
	loses  = "loses" // the device
	hangs  = "hangs"
	absent = "absent" // from then on there is no device
)

// fate is the first word of the file, and removes it.
func fate() string {
	data, _ := os.ReadFile(os.Getenv(envFate))
	word, rest, _ := strings.Cut(string(data), " ")
	if word != absent {
		os.WriteFile(os.Getenv(envFate), []byte(rest), 0o600)
	}
	return word
}

func (d *pretended) Open(string) (*worker.Device, error) {
	if data, _ := os.ReadFile(os.Getenv(envFate)); strings.HasPrefix(string(data), absent) {
		return nil, errors.New("no driver finds a device")
	}
	return &worker.Device{Name: "pretended"}, nil
}

func (d *pretended) Timed(spec tmacc.Spec, _ format.Source, _ worker.Timed) (func() (float64, error), func(), error) {
	code := spec.Variants[0].Shaders[0][0].Code
	if d.first == nil {
		d.first = code
	}
	run := func() (float64, error) { return 100, nil }
	if bytes.Equal(code, d.first) {
		return run, func() {}, nil
	}
	switch fate() {
	case lacks:
		return nil, nil, errors.New("too little memory")
	case loses, absent:
		d.lost = true
		return nil, nil, errors.New("the device is lost")
	case hangs:
		time.Sleep(time.Hour)
	}
	return run, func() {}, nil
}

func (d *pretended) Device() (abi.Device, func() error, func())         { return nil, nil, nil }
func (d *pretended) ReadGBS() (float64, error)                          { return 1, nil }
func (d *pretended) Refused(error) bool                                 { return false }
func (d *pretended) Lost() bool                                         { return d.lost }
func (d *pretended) Calibrate(like spirv.Speeds) (*spirv.Speeds, error) { return &like, nil }

// pretend opens the device, by a program that stands behind a broken one in PATH, and is a search whose candidates all are the same one.
func pretend(t *testing.T) (*Search, *Candidate) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, worker.DeviceProgram)); err != nil {
		t.Skip(err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, worker.DeviceProgram), []byte("#!/bin/sh\necho no >&2; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", strings.Join([]string{broken, dir, os.Getenv("PATH")}, string(filepath.ListSeparator)))
	t.Setenv(envFate, filepath.Join(dir, "fate"))
	var passed []string
	lab, err := Open(context.Background(), "", func(what string) { passed = append(passed, what) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.Close)
	if len(passed) != 1 || !strings.HasPrefix(passed[0], filepath.Join(broken, worker.DeviceProgram)+" does not work: ") || !strings.HasSuffix(passed[0], ": passed over") {
		t.Errorf("passed over: %q", passed)
	}
	target, _ := spirv.ByName("spirv")
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	uses, err := Default(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	shaders := func(c spirv.Controls) *variant.Shaders {
		v, err := build.Shaders(t.Context(), p, target, uses[:1], c)
		if err != nil {
			t.Fatal(err)
		}
		return &v
	}
	s := &Search{Problem: p, Target: target, Purposes: []tune.Purpose{{Mode: "l2", M: 16, N: 1, K: 512}}, lab: lab, base: shaders(spirv.Controls{}), best: 1e-9}
	return s, &Candidate{Uses: uses[:1], shaders: shaders(spirv.Controls{Denormals: true})}
}

// fates has candidates meet these fates, in turn.
func fates(t *testing.T, ctx context.Context, s *Search, c *Candidate, all ...string) (errs []error, stopped error) {
	t.Helper()
	if err := os.WriteFile(os.Getenv(envFate), []byte(strings.Join(all, " ")), 0o600); err != nil {
		t.Fatal(err)
	}
	var cs []*Candidate
	for range all {
		cs = append(cs, c)
	}
	ctx, stop := context.WithCancelCause(ctx)
	for _, r := range s.measure(ctx, stop, cs) {
		errs = append(errs, r.Err)
	}
	if errors.As(context.Cause(ctx), new(*tune.Unmeasured)) {
		stopped = context.Cause(ctx)
	}
	stop(nil)
	return errs, stopped
}

// TestFaults: a candidate that the device refuses, or that loses it, is a fault, and the others are measured.
func TestFaults(t *testing.T) {
	s, c := pretend(t)
	var logged []tune.Trial
	s.Log = func(x tune.Trial) { logged = append(logged, x) }
	errs, stopped := fates(t, t.Context(), s, c, fine, lacks, fine, loses, fine)
	if stopped != nil {
		t.Fatal(stopped)
	}
	for i, want := range []string{"", "too little memory", "", "the device is lost", ""} {
		if have := errs[i]; (have == nil) != (want == "") || have != nil && !strings.Contains(have.Error(), want) {
			t.Errorf("candidate %d: %v, want %q", i, have, want)
		}
	}
	if len(logged) != 5 || logged[1].Error != "refused" || logged[3].Error != "crashed" {
		t.Errorf("%+v", logged)
	}
	errs, stopped = fates(t, t.Context(), s, c, fine, absent, fine)
	if stopped == nil || !strings.Contains(stopped.Error(), "no driver finds a device") || errs[0] != nil || errs[2] == nil {
		t.Errorf("no device any more: %v, %v", errs, stopped)
	}
}

// TestHangs: a shader that never ends, ends with the search. The next search has another worker.
func TestHangs(t *testing.T) {
	s, c := pretend(t)
	s.Log = func(x tune.Trial) { t.Errorf("logged: %+v", x) }
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	errs, stopped := fates(t, ctx, s, c, hangs, fine)
	if stopped != nil || !errors.Is(errs[0], context.DeadlineExceeded) || !errors.Is(errs[1], context.DeadlineExceeded) {
		t.Errorf("%v, %v", errs, stopped)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	s.Log = nil
	if errs, stopped := fates(t, t.Context(), s, c, fine); errs[0] != nil || stopped != nil {
		t.Errorf("the next search: %v, %v", errs, stopped)
	}
}
