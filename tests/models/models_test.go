package models

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/oracle"
)

// longWays are all ways: caches, threads, pieces, alone and among others.
func longWays() (out []way) {
	for _, cache := range []model.CacheType{model.CacheF16, model.CacheF32, model.CacheQ8} {
		for n := 1; n <= threads; n++ {
			for _, piece := range []int{0, 7, 1} {
				out = append(out, way{cache, n, piece, false}, way{cache, n, piece, true})
			}
		}
	}
	return out
}

// shortWays have every value of every part of a way.
var shortWays = []way{
	{model.CacheF16, 1, 0, false},
	{model.CacheF16, 3, 7, true},
	{model.CacheF16, 2, 1, false},
	{model.CacheF32, 2, 0, true},
	{model.CacheQ8, 3, 7, false},
}

// shortPrompt is how many tokens of a prompt are computed where not all are: the last ones are in the second page of the cache.
const shortPrompt = 66

// newTask is a model with the beginning of its longest prompt.
func newTask(t *testing.T, name string, ways []way) task {
	t.Helper()
	x := expected.Open(t, name)
	prompts := promptsOf(x)
	longest := prompts[len(prompts)-1]
	if len(longest) < shortPrompt {
		t.Fatalf("%s has no prompt of %d tokens", name, shortPrompt)
	}
	return task{x.Path, 2, []part{{longest[:shortPrompt], ways}}}
}

// longTask is a model with all its prompts, the longest one in all ways.
func longTask(t *testing.T, name string) task {
	t.Helper()
	x := expected.Open(t, name)
	out := task{Path: x.Path, Decode: 8}
	for _, prompt := range promptsOf(x) {
		out.Parts = append(out.Parts, part{prompt, shortWays})
	}
	out.Parts[len(out.Parts)-1].Ways = longWays()
	return out
}

// promptsOf are the prompts of a model, the longest last.
func promptsOf(x expected.Model) (out [][]int32) {
	for _, p := range x.Prompts {
		var tokens []int32
		for _, token := range p.Tokens() {
			tokens = append(tokens, int32(token))
		}
		out = append(out, tokens)
	}
	slices.SortFunc(out, func(a, b []int32) int { return len(a) - len(b) })
	return out
}

// TestSameLogits: the logits of models have the same bits in pure Go and on each target of this CPU, for any number of threads, however a
// prompt is divided, alone and among other sequences. Each target has a process of its own. With TMACC_LONG=1 all models of TMACC_DATA
// are computed in all ways.
func TestSameLogits(t *testing.T) {
	machines, folder := here(t), filepath.Join(t.TempDir(), "kernels")
	long := drawn.New(t).Long()
	for _, name := range names(long) {
		t.Run(name, func(t *testing.T) {
			if long {
				compare(t, machines, longTask(t, name), folder)
			} else {
				compare(t, machines, newTask(t, name, shortWays), folder)
			}
		})
	}
}

// names are the models in the repository, or all of them.
func names(long bool) (out []string) {
	if !long || os.Getenv("TMACC_DATA") == "" {
		return expected.Committed
	}
	for _, x := range oracle.Models {
		out = append(out, path.Base(x.Name))
	}
	return out
}

// TestSameLogitsEmulated: pure Go and the targets of Arm give the bits of pure Go here. Half of the machines are drawn, and one of two models.
func TestSameLogitsEmulated(t *testing.T) {
	draw, ways := drawn.New(t), shortWays
	if draw.Long() {
		ways = longWays()
	}
	machines := append(here(t)[:1], drawn.Some(draw, 2, emulatedArms(t))...)
	for _, name := range drawn.Some(draw, 2, []string{"bitnet-tq2_0", "llama-q4_0"}) {
		t.Run(name, func(t *testing.T) { compare(t, machines, newTask(t, name, ways), "") })
	}
}
