package model_test

import (
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/oracle"
)

func open(t testing.TB, path string, opt model.Options) *model.Model {
	t.Helper()
	m, err := model.Open(path, model.PureGo{}, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// comparison is a model and how it is compared.
type comparison struct {
	oracle.Model
	name string // of the precision
	oracle.Precision
}

// comparisons are in float, of all models, and as the files are, of one model in two, or of all with TMACC_LONG=1.
func comparisons(t *testing.T, models []oracle.Model) (out []comparison) {
	t.Helper()
	for _, x := range models {
		out = append(out, comparison{x, "float", oracle.FullFloat}, comparison{x, "half", oracle.HalfFloat})
	}
	for _, x := range drawn.Some(drawn.New(t), 2, models) {
		out = append(out, comparison{x, "as-is", x.AsIs()})
	}
	return out
}

// TestOracle compares models with what llama.cpp computed: in float, which finds a wrong graph, and as the files are.
func TestOracle(t *testing.T) {
	for _, x := range comparisons(t, oracle.Models) {
		t.Run(x.Name+"/"+x.name, func(t *testing.T) {
			t.Parallel()
			x.Compare(t, open(t, expected.Open(t, x.Name).Path, x.Options()), x.Precision)
		})
	}
}

// TestCached, of the folder that TMACC_DATA names, compares batches, removed ends, shared prefixes and long sequences.
func TestCached(t *testing.T) {
	for _, x := range comparisons(t, oracle.Cached) {
		t.Run(x.Name+"/"+x.name, func(t *testing.T) {
			t.Parallel()
			m := open(t, expected.Open(t, x.Name).Path, x.Options())
			x.Batch(t, m, x.Precision)
			x.Prefix(t, m, x.Precision)
			x.Long(t, m, x.Precision)
		})
	}
}
