package model_test

import (
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
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

// precisions are how a model is compared.
func precisions(x oracle.Model) map[string]oracle.Precision {
	return map[string]oracle.Precision{"float": oracle.FullFloat, "half": oracle.HalfFloat, "as-is": x.AsIs()}
}

// TestOracle compares models with what llama.cpp computed: in float, which finds a wrong graph, and as the files are.
func TestOracle(t *testing.T) {
	for _, x := range oracle.Models {
		for name, p := range precisions(x) {
			t.Run(x.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				x.Compare(t, open(t, expected.Open(t, x.Name).Path, p.Options()), p)
			})
		}
	}
}

// TestCached, of the folder that TMACC_DATA names, compares batches, removed ends, shared prefixes and long sequences.
func TestCached(t *testing.T) {
	for _, x := range oracle.Cached {
		for name, p := range precisions(x) {
			t.Run(x.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				m := open(t, expected.Open(t, x.Name).Path, p.Options())
				x.Batch(t, m, p)
				x.Prefix(t, m, p)
				x.Long(t, m, p)
			})
		}
	}
}
