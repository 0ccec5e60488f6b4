package model_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/ggufgen"
	"github.com/tmacc/tmacc/tests/hostile"
)

// small returns a model of the repository with its first layer only, so that thousands can be tried.
func small(t testing.TB, name string) *ggufgen.Parts {
	t.Helper()
	folder, err := expected.Folder()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	p := ggufgen.Take(data)
	var kept []ggufgen.Tensor
	for _, x := range p.Tensors {
		if !strings.HasPrefix(x.Name, "blk.") || strings.HasPrefix(x.Name, "blk.0.") {
			kept = append(kept, x)
		}
	}
	p.Tensors = kept
	p.Value(string(p.Value("general.architecture").Data[8:]) + ".block_count").SetUint32(1)
	return p
}

// trial is what became of a file.
type trial struct {
	refused   error // by New
	tokens    error // no tokenizer
	notFinite error // by Forward
}

// try opens a model, and evaluates a prompt and two tokens if that succeeds. The error is a fault of ours.
func try(data []byte) (out trial, err error) {
	f, err := gguf.Read(data)
	if err != nil {
		return trial{refused: err}, sensible(err)
	}
	var m *model.Model
	if m, out.refused = model.New(f, model.PureGo{}, model.Options{Threads: 1}); out.refused != nil {
		return out, sensible(out.refused)
	}
	defer m.Close()
	prompt := []int32{0, 1, 2, 3, 4}
	var tok *token.Tokenizer
	if tok, out.tokens = token.New(f); out.tokens != nil {
		if err := sensible(out.tokens); err != nil {
			return out, err
		}
	} else if text := tok.Encode("Water is made of 水 \xff.", token.Options{}); len(text) > 0 {
		prompt = text[:min(len(text), 8)]
	}
	s, err := m.NewSession()
	if err != nil {
		return out, err
	}
	defer s.Close()
	for _, tokens := range [][]int32{prompt, {0}, {int32(m.Config().Vocabulary - 1)}} {
		tokens = tokens[:min(len(tokens), m.Context()-s.Len())]
		if len(tokens) == 0 {
			break
		}
		items := []model.Item{{Session: s, Tokens: tokens}}
		if out.notFinite = m.Forward(context.Background(), items); out.notFinite != nil {
			return out, saysWhere(out.notFinite)
		}
		for i, x := range items[0].Logits {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return out, fmt.Errorf("logit %d is %v", i, x)
			}
		}
	}
	return out, nil
}

// sensible is an error if the message of another one is not a line for a person.
func sensible(err error) error {
	if text := err.Error(); text == "" || strings.ContainsAny(text, "\n\r\x00\x1b") || len(text) > 1000 || strings.Contains(text, "BUG") || strings.Contains(text, "runtime error") {
		return fmt.Errorf("the message is %q", text)
	}
	return nil
}

// saysWhere is an error if the message of another one does not name the part of the model that computes numbers that are not finite.
func saysWhere(err error) error {
	where := []string{"the attention of layer 0", "the feed-forward part of layer 0", "the embedding", "the head"}
	for _, part := range where {
		if strings.Contains(err.Error(), part) && strings.Contains(err.Error(), "not finite") {
			return sensible(err)
		}
	}
	return fmt.Errorf("the message %q does not say where", err)
}

// TestMutatedModels: no mutant of a model panics, or takes long, or much memory, or gives logits that are not finite. TMACC_MUTANTS=50000 is
// the whole campaign.
func TestMutatedModels(t *testing.T) {
	mutants, timed := hostile.Campaign(300)
	var seeds []*ggufgen.Parts
	for _, name := range expected.Committed {
		p := small(t, name)
		if out, err := try(p.Bytes()); err != nil || out != (trial{}) {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		seeds = append(seeds, p)
	}
	seed := uint64(check.Env(t, "TMACC_SEED", int(time.Now().UnixNano())))
	rng := rand.New(rand.NewPCG(seed, 0))
	var data []byte
	defer func() {
		if x := recover(); x != nil {
			t.Errorf("seed %d, %s", seed, hostile.Keep(data))
			panic(x)
		}
	}()
	var most hostile.Cost
	refused, ran, notFinite := 0, 0, 0
	for i := range mutants {
		data = hostile.MutateModel(rng, seeds[rng.IntN(len(seeds))])
		began := hostile.Used()
		out, err := try(data)
		cost := began.Since()
		most.Bytes, most.Time = max(most.Bytes, cost.Bytes), max(most.Time, cost.Time)
		if err == nil && (cost.Bytes > hostile.MostMemory || timed && cost.Time > hostile.MostTime) {
			err = errors.New("too expensive")
		}
		if err != nil {
			t.Fatalf("mutant %d of seed %d, %s: %v (%d MiB, %v)", i, seed, hostile.Keep(data), err, cost.Bytes>>20, cost.Time)
		}
		switch {
		case out.refused != nil:
			refused++
		case out.notFinite != nil:
			notFinite++
		default:
			ran++
		}
	}
	t.Logf("%d mutants, seed %d: %d refused, %d ran, %d not finite; the most memory of one %.1f MiB, the most time %v",
		mutants, seed, refused, ran, notFinite, float64(most.Bytes)/(1<<20), most.Time)
	if refused < mutants/10 || ran < mutants/10 || notFinite == 0 {
		t.Errorf("mutants are too much alike: %d refused, %d ran, %d not finite", refused, ran, notFinite)
	}
}
