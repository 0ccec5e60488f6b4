package tests

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/native"
)

// sequences are the hand-written instruction sequences that committed traces
// reproduce, by the names of limits.json.
var sequences = []struct{ limit, file, target string }{
	{"A w1 avx512", "a-w1", "avx512vbmi"},
	{"A w2 avx512", "a-w2", "avx512vbmi"},
	{"A w4 avx512", "a-w4", "avx512vbmi"},
	{"B w3 avx512", "b-w3", "avx512vbmi"},
	{"C ternary-1.6 avx512", "c-ternary", "avx512vbmi"},
	{"D codebook16 avx512", "d-codebook16", "avx512vbmi"},
	{"E w1 i16 avx512", "e-w1", "avx512"},
	{"F w1 u8 avx512", "f-w1", "avx512vbmi"},
	{"G ternary LUT avx512", "g-ternary", "avx512"},
	{"H w2 avx2", "h-w2", "avx2"},
	{"I w1 f32 avx512", "i-w1", "avx512"},
}

// TestSequences counts the instructions of each sequence's steady loop in the
// printed assembly, and runs it.
func TestSequences(t *testing.T) {
	limits := instructionLimits(t)
	for _, s := range sequences {
		t.Run(s.file, func(t *testing.T) {
			target := native.Target(t, s.target)
			r := check.ReadReplay(t, filepath.Join("sequences", s.file+".json"))
			k, err := native.Compile(target, r.Problem, r.Trace)
			if err != nil {
				t.Fatal(err)
			}
			text, err := k.Text(target)
			if err != nil {
				t.Fatal(err)
			}
			loops := 1
			if k.Tables != nil && k.Tables.Residual {
				loops = 2
			}
			loop, err := steadyLoop(text, loops)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			weights := k.Rows * k.Cols * k.StepK
			have, limit := 1000*float64(len(loop))/float64(weights), limits[s.limit]
			t.Logf("%d instructions for %d weights: %.1f per 1000 of %.0f", len(loop), weights, have, limit)
			if limit == 0 || have > limit {
				t.Errorf("%.1f instructions per 1000 weights, limits.json has %q at %.0f\n%s", have, s.limit, limit, strings.Join(loop, "\n"))
			}
			native.Load(t, target, k)
			for kind := check.Uniform; kind <= check.NotFinite; kind++ {
				rng := rand.New(rand.NewSource(int64(kind)))
				if err := k.Check(check.New(rng, r.Problem, k.Rows+5, 2, 2*k.StepK+63, kind)); err != nil {
					t.Errorf("kind %d: %v", kind, err)
				}
			}
		})
	}
}

// instructionLimits are instructions per 1000 weights by sequence.
func instructionLimits(t *testing.T) map[string]float64 {
	data, err := os.ReadFile("../docs/lab/limits.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Steady map[string]float64 `json:"instructions_per_1000_weights_steady_loop"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all.Steady
}

var (
	loopLabel = regexp.MustCompile(`^(loop\w*):$`)
	loopJump  = regexp.MustCompile(`^J\w+\s+(loop\w*)$`)
)

// steadyLoop returns the instructions of the first loop in text, from its label to the jump
// back. One that follows it, if there is, takes what few iterations of it left out.
func steadyLoop(text string, most int) ([]string, error) {
	var loop []string
	open, loops := "", 0
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		if m := loopLabel.FindStringSubmatch(line); m != nil {
			open, loops = m[1], loops+1
			continue
		}
		if open == "" || line == "" {
			continue
		}
		if loops == 1 {
			loop = append(loop, line)
		}
		if m := loopJump.FindStringSubmatch(line); m != nil {
			if m[1] != open {
				return nil, fmt.Errorf("%q jumps to another loop than %s", line, open)
			}
			open = ""
		}
	}
	if loops == 0 || loops > most || open != "" {
		return nil, fmt.Errorf("%d loops, want one to %d", loops, most)
	}
	return loop, nil
}
