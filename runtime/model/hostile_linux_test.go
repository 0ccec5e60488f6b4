package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/ggufparts"
	"github.com/tmacc/tmacc/tests/hostile"
	"github.com/tmacc/tmacc/tests/oracle"
)

// small returns a model of the repository with its first layer only, so that thousands can be tried.
func small(t testing.TB, name string) *ggufparts.Parts {
	t.Helper()
	folder, err := expected.Folder()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	return oneLayer(data)
}

// oneLayer is a model with its first layer only.
func oneLayer(data []byte) *ggufparts.Parts {
	p := ggufparts.Take(data)
	var kept []ggufparts.Tensor
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

// tryFile opens a model, and evaluates a prompt and two tokens if that succeeds. The error is a fault of ours.
func tryFile(data []byte) (out trial, err error) {
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
	var seeds []*ggufparts.Parts
	for _, name := range expected.Committed {
		p := small(t, name)
		if out, err := tryFile(p.Bytes()); err != nil || out != (trial{}) {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		seeds = append(seeds, p)
	}
	for _, arch := range []string{"gemma2", "gemma3", "mistral3", "phi3"} {
		p := ggufparts.Take(oracle.NewTinyLayers(arch, 1, oracle.Same("Q4_0")).Bytes())
		if out, err := tryFile(p.Bytes()); err != nil || out.refused != nil || out.notFinite != nil {
			t.Fatalf("%s: %+v, %v", arch, out, err)
		}
		seeds = append(seeds, p)
	}
	experts := oneLayer(oracle.NewTinyExperts("llama", 4, oracle.Same("Q4_0")).Bytes())
	if out, err := tryFile(experts.Bytes()); err != nil || out.refused != nil || out.notFinite != nil {
		t.Fatalf("experts: %+v, %v", out, err)
	}
	seeds = append(seeds, experts)
	seed := hostile.Seed()
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
		hostile.ResetPeak()
		began, resident := hostile.Used(), hostile.Resident()
		out, err := tryFile(data)
		cost := began.Since()
		peak := hostile.Peak()
		cost.Bytes = max(cost.Bytes, peak-min(resident, peak)) // packed weights are not on the heap
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

// counted is a file that counts the bytes that are read of it.
type counted struct {
	*bytes.Reader
	read int64
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.read += int64(len(p))
	return c.Reader.ReadAt(p, off)
}

// TestHostileModels: each fault has an error that names it, and no weights are read before.
func TestHostileModels(t *testing.T) {
	const base = "llama-q4_0"
	words := func(n int) func(*ggufparts.Parts) {
		return func(p *ggufparts.Parts) {
			all := p.Value("tokenizer.ggml.tokens").Texts()
			p.Value("tokenizer.ggml.tokens").SetTexts(all[:n])
		}
	}
	number := func(key string, n uint32) func(*ggufparts.Parts) {
		return func(p *ggufparts.Parts) { p.Value(key).SetUint32(n) }
	}
	for name, c := range map[string]struct {
		change func(*ggufparts.Parts)
		opt    model.Options
		want   string
	}{
		"no tensor": {change: func(p *ggufparts.Parts) { p.Tensor("blk.0.ffn_up.weight").Name = "x" }, want: `"blk.0.ffn_up.weight": is missing`},
		"a tensor twice": {change: func(p *ggufparts.Parts) { p.Tensors = append(p.Tensors, *p.Tensor("blk.0.ffn_up.weight")) },
			want: `"blk.0.ffn_up.weight": is there twice`},
		"a shape":             {change: func(p *ggufparts.Parts) { slices.Reverse(p.Tensor("blk.0.ffn_up.weight").Shape) }, want: `"blk.0.ffn_up.weight": has the shape [768 256]; the hyperparameters say [256 768]`},
		"a short vocabulary":  {change: words(2000), want: `"tokenizer.ggml.tokens": has 2000 tokens, and tensor "token_embd.weight" has rows for 2048`},
		"no vocabulary":       {change: words(0), want: `"tokenizer.ggml.tokens": has 0 tokens`},
		"a context of 2^31":   {change: number("llama.context_length", 1<<31), want: `"llama.context_length": is 2147483648`},
		"a context of 2^31-1": {change: number("llama.context_length", 1<<31-1), opt: model.Options{Context: 1<<31 - 1}, want: "memory: the model takes"},
		"too long a session":  {change: func(*ggufparts.Parts) {}, opt: model.Options{Context: 513}, want: "512"},
		"too little memory":   {change: func(*ggufparts.Parts) {}, opt: model.Options{MemoryLimit: 1 << 20}, want: "memory: the model takes"},
		"no heads":            {change: number("llama.attention.head_count", 0), want: `"llama.attention.head_count": is 0`},
		"2^32-1 layers":       {change: number("llama.block_count", 1<<32-1), want: `"llama.block_count": is 4294967295`},
		"a million layers":    {change: number("llama.block_count", 1<<20), want: `"blk.1.attn_norm.weight": is missing`},
		"an architecture":     {change: func(p *ggufparts.Parts) { p.Value("general.architecture").SetText("gpt9") }, want: `"gpt9": is unknown`},
		"an unknown tensor": {change: func(p *ggufparts.Parts) {
			p.Tensors = append(p.Tensors, ggufparts.Tensor{Name: "blk.0.attn_gate.weight", Shape: []uint64{1}, Data: make([]byte, 4)})
		}, want: `"blk.0.attn_gate.weight"`},
		"a norm of NaN": {change: func(p *ggufparts.Parts) {
			x := p.Tensor("output_norm.weight")
			x.Data = slices.Repeat([]byte{0xff}, len(x.Data))
		}, want: `"output_norm.weight"`},
		"a scale of NaN": {change: func(p *ggufparts.Parts) {
			x := p.Tensor("blk.0.attn_v.weight")
			x.Data = slices.Repeat([]byte{0xff}, len(x.Data))
		}, want: `"blk.0.attn_v.weight"`},
	} {
		p := small(t, base)
		c.change(p)
		file := &counted{Reader: bytes.NewReader(p.Bytes())}
		f, err := gguf.New(file, file.Size())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		header := file.read
		hostile.ResetPeak()
		began, resident := hostile.Used(), hostile.Resident()
		m, err := model.New(f, model.PureGo{}, c.opt)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want %s", name, err, c.want)
			continue
		}
		if err := sensible(err); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cost, peak := began.Since(), hostile.Peak(); cost.Time > hostile.MostTime || peak > resident+hostile.MostMemory {
			t.Errorf("%s: %v, %d MiB", name, cost.Time, (peak-min(resident, peak))>>20)
		}
		if read := file.read - header; !strings.Contains(name, "NaN") && read > 1<<17 {
			t.Errorf("%s: %d bytes of weights were read before the error", name, read)
		}
	}
}
