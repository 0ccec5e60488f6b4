package delivery

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
)

// options describe an unchecked package with a product of each format for avx2, in a directory of its own.
func options(t *testing.T, formats ...string) Options {
	t.Helper()
	on := []lower.Target{targets.ByName("avx2")}
	o, err := order.New(order.Options{Act: order.Act{Elem: order.Int8, Group: order.UsualGroup}, Targets: on})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range formats {
		if err := o.AddFormat(name); err != nil {
			t.Fatal(err)
		}
	}
	return Options{Order: o, Targets: on, Dir: filepath.Join(t.TempDir(), "mine"), Module: "none", Unchecked: true}
}

// compiled is a package that has been compiled.
func compiled(t *testing.T, o Options) *Package {
	t.Helper()
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	if err := x.Compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x
}

// What was written does not differ from what would be written, until somebody changes it.
func TestDifferences(t *testing.T) {
	o := options(t, "w2")
	var events []string
	o.Events = func(e Event) { events = append(events, e.String()) }
	if err := compiled(t, o).Write(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"compiling w2 for amd64/avx2 (1 of 1)"}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
	o.ReadOnly = true
	x := compiled(t, o)
	if names, err := x.Differences(); err != nil || len(names) > 0 {
		t.Errorf("%q differ, %v", names, err)
	}
	changed := x.Report().Files[0]
	if err := os.WriteFile(filepath.Join(o.Dir, changed), []byte("package mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if names, err := x.Differences(); err != nil || !slices.Equal(names, []string{changed}) {
		t.Errorf("%q differ, %v; want %s", names, err, changed)
	}
}

// A report has products from the start, and kernels once they are compiled. Nothing is checked or measured if nobody asks.
func TestReport(t *testing.T) {
	o := options(t, "w2")
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if r := x.Report(); r.Package != "mine" || r.Dir != o.Dir || len(r.Products) != 1 || r.Products[0].Name != "W2" || r.Products[0].Kernels != nil {
		t.Errorf("before Compile: %+v", r)
	}
	x = compiled(t, o)
	if err := x.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	kernels := x.Report().Products[0].Kernels
	if len(kernels) == 0 {
		t.Fatal("no kernels")
	}
	for _, k := range kernels {
		if k.Target != "amd64/avx2" || k.Exact != NotRun || k.Speed != nil || k.Bits != 2 || len(k.Trace) == 0 {
			t.Errorf("%+v", k)
		}
	}
}

// An option that does not fit the directory names the flag.
func TestOptionErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for key, c := range map[string]struct {
		set  func(*Options)
		want string
	}{
		"output":  {func(o *Options) { o.Dir = file }, "is not a directory"},
		"package": {func(o *Options) { o.Name = "func" }, "-package func: "},
		"module":  {func(o *Options) { o.Unchecked = false }, "-module none: "},
	} {
		o := options(t, "w2")
		c.set(&o)
		_, err := New(o)
		var bad *OptionError
		if !errors.As(err, &bad) || bad.Key != key || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", key, err, c.want)
		}
	}
}

// Nothing is an error of its own, and so is an interrupt.
func TestCompileEnds(t *testing.T) {
	x, err := New(options(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Compile(t.Context()); !errors.Is(err, ErrNothing) || !x.Empty() {
		t.Errorf("without products: %v", err)
	}
	if x, err = New(options(t, "w2")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := x.Compile(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
