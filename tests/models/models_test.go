package models

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/oracle"
)

// longWays are all ways: caches, threads, pieces, alone and among others.
func longWays() (out []way) {
	for _, cache := range []model.CacheType{model.CacheF16, model.CacheF32} {
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
	{model.CacheF32, 3, 7, false},
}

// shortPrompt is how many tokens of a prompt are computed where not all are: the last ones are in the second page of the cache.
const shortPrompt = 66

// newTask is a model with all its prompts, or with the beginning of one.
func newTask(t *testing.T, name string, ways []way, whole bool) task {
	t.Helper()
	x := expected.Open(t, name)
	out := task{Path: x.Path, Decode: 2, Ways: ways}
	for _, p := range x.Prompts {
		var tokens []int32
		for _, token := range p.Tokens() {
			tokens = append(tokens, int32(token))
		}
		if whole {
			out.Prompts = append(out.Prompts, tokens)
		} else if len(tokens) > shortPrompt {
			out.Prompts = [][]int32{tokens[:shortPrompt]}
		}
	}
	if len(out.Prompts) == 0 {
		t.Fatalf("%s has no prompt of %d tokens", name, shortPrompt)
	}
	return out
}

// TestSameLogits: the logits of models have the same bits in pure Go and on each target of this CPU, for any number of threads, however a
// prompt is divided, alone and among other sequences. Each target has a process of its own. With TMACC_LONG=1 all models of TMACC_DATA
// are computed in all ways.
func TestSameLogits(t *testing.T) {
	names, ways, long := expected.Committed, shortWays, check.NewDraw(t).Long()
	if long {
		ways = longWays()
	}
	if long && os.Getenv("TMACC_DATA") != "" {
		names = nil
		for _, x := range oracle.Models {
			names = append(names, path.Base(x.Name))
		}
	}
	machines, folder := here(t), filepath.Join(t.TempDir(), "kernels")
	for _, name := range names {
		t.Run(name, func(t *testing.T) { compare(t, machines, newTask(t, name, ways, long), folder) })
	}
}

// TestSameLogitsEmulated: Arm's targets give the bits of pure Go here. Of two models and the targets some are drawn.
func TestSameLogitsEmulated(t *testing.T) {
	draw, ways := check.NewDraw(t), shortWays
	if draw.Long() {
		ways = longWays()
	}
	machines := append(here(t)[:1], check.Some(draw, 3, emulatedArms(t))...)
	for _, name := range check.Some(draw, 2, []string{"bitnet-tq2_0", "llama-q4_0"}) {
		t.Run(name, func(t *testing.T) { compare(t, machines, newTask(t, name, ways, false), "") })
	}
}
