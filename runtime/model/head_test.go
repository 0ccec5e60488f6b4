package model_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/oracle"
)

// withHead is a model of Q4_0 whose embedding has a type, and with another one "" a head of its own.
func withHead(embedding, head string) *oracle.Tiny {
	x := oracle.NewTiny("llama", func(name string) string {
		switch name {
		case "token_embd.weight":
			return embedding
		case "output.weight":
			return head
		}
		return "Q4_0"
	})
	if head != "" {
		x.AddHead()
	}
	return x
}

// TestHead: a head in another type gives logits near those without, and takes the memory of that type. So does an embedding that is the head, or of floats.
// Another embedding stays, and so does a head that takes no more.
func TestHead(t *testing.T) {
	for _, c := range []struct {
		embedding, head, option string
		want                    string // the type of the head
		shrinks                 []string
		most                    float64 // relative RMS of the difference of logits in float; 0: none
	}{
		{"F16", "", "Q8_0", "Q8_0", []string{"F16"}, 0.01},
		{"BF16", "", "Q6_K", "Q6_K", []string{"BF16"}, 0.04},
		{"F32", "F16", "Q8_0", "Q8_0", []string{"F32", "F16"}, 0.01},
		{"Q4_0", "F16", "Q6_K", "Q6_K", []string{"F16"}, 0.04},
		{"Q8_0", "Q8_0", "Q6_K", "Q6_K", []string{"Q8_0"}, 0.04},
		{"Q4_0", "F32", "", "F32", nil, 0},
		{"F16", "", "", "F16", nil, 0},
		{"Q4_0", "Q6_K", "Q8_0", "Q6_K", nil, 0},
		{"Q8_0", "", "Q8_0", "Q8_0", nil, 0},
	} {
		x := withHead(c.embedding, c.head)
		as, now := tiny(t, x, model.Options{}), tiny(t, x, model.Options{Head: c.option})
		if now.HeadType() != c.want {
			t.Errorf("%+v: a head of %s", c, now.HeadType())
		}
		saved := as.Memory().Weights - now.Memory().Weights
		if want := shrinking(t, x, c.shrinks, c.option); math.Abs(float64(saved-want)) > 8<<10 { // heads of matrices, and rows beyond the last
			t.Errorf("%+v: %d bytes less, want %d", c, saved, want)
		}
		float := func(head string) []float32 { return headLogits(t, tiny(t, x, model.Options{Head: head, Float: true})) }
		want := float(c.option)
		if d := oracle.RelativeRMS(want, float("")); d > c.most || (d > 0) != (c.most > 0) {
			t.Errorf("%+v: logits in float differ by %v, want %v at most", c, d, c.most)
		}
		if d := oracle.RelativeRMS(headLogits(t, now), want); d > 0.03 {
			t.Errorf("%+v: logits differ by %v from those in float", c, d)
		}
	}
}

// shrinking is how many bytes less a model's matrices of vocabulary take, one of each type given, in another type.
func shrinking(t *testing.T, x *oracle.Tiny, from []string, to string) (n int64) {
	t.Helper()
	const m, k = 96, 256 // 70 rows, rounded up as panels are
	floats := map[string]int64{"F32": 4 * m * k, "F16": 2 * m * k, "BF16": 2 * m * k}
	for _, name := range from {
		before, isFloat := floats[name]
		if !isFloat {
			before = blockBytes(t, name, x.Vocabulary, k)
		}
		n += before - blockBytes(t, to, x.Vocabulary, k)
	}
	return n
}

func blockBytes(t *testing.T, name string, m, k int) int64 {
	t.Helper()
	b, err := blocks.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	size, err := b.Size(m, k)
	if err != nil {
		t.Fatal(err)
	}
	return int64(size)
}

// headLogits are the logits after some tokens.
func headLogits(t *testing.T, m *model.Model) []float32 {
	t.Helper()
	return oracle.Feed(t, oracle.NewSession(t, m), model.WantLast, []int32{1, 5, 9})[0]
}

// A type that no head gets, rows that are not whole blocks, and values that a block cannot hold are errors that say so.
func TestHeadRefuses(t *testing.T) {
	if err := refusal(withHead("F16", ""), model.Options{Head: "Q4_0"}); err == nil || !strings.Contains(err.Error(), `option Head: is "Q4_0"; want Q8_0 or Q6_K, or nothing`) {
		t.Error(err)
	}
	x := narrow(oracle.NewTiny("llama", oracle.Same("F32")))
	if err := refusal(x, model.Options{Head: "Q6_K"}); err == nil ||
		!strings.Contains(err.Error(), `tensor "token_embd.weight": cannot be Q6_K, as option Head says`) || !strings.Contains(err.Error(), "not whole blocks of 256") {
		t.Error(err)
	}
	if err := refusal(x, model.Options{Head: "Q8_0"}); err != nil {
		t.Error(err)
	}
	x = withHead("Q4_0", "F32")
	infinite(x, "output.weight", 3*256+7)
	for _, typ := range blocks.Quantized() {
		if err := refusal(x, model.Options{Head: typ}); err == nil || !strings.Contains(err.Error(), `tensor "output.weight"`) || !strings.Contains(err.Error(), "row 3") ||
			!strings.Contains(err.Error(), "element 7 is +Inf") {
			t.Error(err)
		}
	}
}

// narrow makes a model of floats of 192 elements of one of 256.
func narrow(x *oracle.Tiny) *oracle.Tiny {
	x.Embedding, x.Feed, x.Heads, x.KVHeads = 192, 192, 3, 1
	for i := range x.Tensors {
		t, n := &x.Tensors[i], 4
		for j, extent := range t.Shape {
			switch extent {
			case 256:
				t.Shape[j] = 192
			case 128:
				t.Shape[j] = 64
			}
			n *= int(t.Shape[j])
		}
		t.Data = t.Data[:n]
	}
	return x
}
