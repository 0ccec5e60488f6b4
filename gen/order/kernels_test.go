package order

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
)

// onTwo are options for two targets, one of each architecture.
func onTwo() Options {
	return Options{Act: UsualAct(), Targets: []lower.Target{targets.ByName("avx2"), targets.ByName("dotprod")}}
}

// traceFile is a file with a schedule of one step.
func traceFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.json")
	if err := os.WriteFile(path, []byte(`[{"hoist_zero":{"at":"init"}}]`), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Kernels of one name are one product with a trace for each target. A kernel without traces has none.
func TestKernelsOfOneName(t *testing.T) {
	o, path := newOrder(t, onTwo()), traceFile(t)
	for _, text := range []string{"name=Own,format=w2,act-group=32,target=avx2,trace=" + path, "name=Own,format=w2,act-group=32,target=arm64/dotprod,trace=" + path, "name=Other,format=w2,max-k=8192"} {
		k, err := ParseKernel(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.AddKernel(k); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.Products) != 2 {
		t.Fatalf("%d products", len(o.Products))
	}
	own, other := o.Products[0], o.Products[1]
	if traced := strings.Join(own.Traced(o.options.targets()), " "); own.Name() != "Own" || own.Label() != "Own" || own.Problem.Act.Group != 32 || traced != "amd64/avx2 arm64/dotprod" {
		t.Errorf("%s: %+v, traces for %s", own.Name(), own.Problem.Act, traced)
	}
	if own.Traces["amd64/avx2"].Path != path {
		t.Errorf("%+v", own.Traces)
	}
	if other.Name() != "Other" || other.Problem.LimitK() != 8192 || other.Traced(o.options.targets()) != nil {
		t.Errorf("%s: %d, %v", other.Name(), other.Problem.LimitK(), other.Traces)
	}
}

// A kernel that cannot be added is refused by name. It may be made by a program, not by ParseKernel.
func TestKernelRefused(t *testing.T) {
	path, huge := traceFile(t), 1<<30
	for want, k := range map[string]Kernel{
		"kernel a: want a name of letters and digits that begins with a capital":                              {Name: "a", Format: "w2"},
		"kernel A: has no format: add format=FORMAT":                                                          {Name: "A"},
		"kernel A: the target is that of a trace: add trace=FILE, or leave it out":                            {Name: "A", Format: "w2", Target: "avx2"},
		"kernel A: max-k 1073741824: want 1 to 16777216, or 0: the usual":                                     {Name: "A", Format: "w2", MaxK: &huge},
		"kernel A: a trace is for one target: these are 2: give the entry the target of its trace":            {Name: "A", Format: "w2", Trace: path},
		"kernel A: unknown target \"sse\": have ":                                                             {Name: "A", Format: "w2", Trace: path, Target: "sse"},
		"kernel A: nothing is compiled for target arm64/neon: add it to the targets (avx2, dotprod)":          {Name: "A", Format: "w2", Trace: path, Target: "neon"},
		"kernel Twice: there are two of that name: rename one, or give each the target that its trace is for": {Name: "Twice", Format: "w2"},
		"kernel Traced: there are two traces for amd64/avx2: leave one out":                                   {Name: "Traced", Format: "w2", Trace: path, Target: "avx2"},
		"kernel Traced: entries of one name are one product: these differ in format (w2, w3)":                 {Name: "Traced", Format: "w3", Trace: path, Target: "dotprod"},
	} {
		o := newOrder(t, onTwo())
		for _, k := range []Kernel{{Name: "Twice", Format: "w2"}, {Name: "Traced", Format: "w2", Trace: path, Target: "avx2"}} {
			if err := o.AddKernel(k); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.AddKernel(k); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
