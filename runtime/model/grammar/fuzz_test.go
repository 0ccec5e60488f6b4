package grammar

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// walk takes tokens of a grammar. The text ends within its limit, if it could at the beginning. All takes a bounded time.
func walk(t *testing.T, g *Grammar, err error, w words, v *Vocabulary) {
	began := time.Now()
	if e := (*Error)(nil); err != nil {
		if !errors.As(err, &e) || e.Place == "" || e.Problem == "" {
			t.Fatalf("%v has no place", err)
		}
		return
	}
	const limit = 20
	rng := rand.New(rand.NewPCG(1, 1))
	k := NewMask(g, v)
	ends := k.inTime(limit)
	for left := limit; ; left-- {
		logits := make([]float32, len(w))
		k.Apply(logits, left)
		if k.Err() != nil {
			return
		}
		if left == 0 {
			break
		}
		var may []int32
		for id, x := range logits {
			if !math.IsInf(float64(x), -1) {
				may = append(may, int32(id))
			}
		}
		if len(may) == 0 {
			t.Fatal("no token may come, and there is no error")
		}
		id := may[rng.IntN(len(may))]
		if w.EndOfGeneration(id) {
			if !k.MayEnd() {
				t.Fatal("an early end")
			}
			break
		}
		k.Accept(id)
	}
	if ends && !k.MayEnd() && k.at != dead {
		t.Fatal("the text does not end within its limit")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Fatalf("it takes %v", took)
	}
}

func FuzzGrammar(f *testing.F) {
	for _, text := range grammars {
		f.Add(text)
	}
	f.Add("root ::= ((\"a\"*)+ x?){2,50} | [^a-z\\u1234-\\U00010000]{3}\nx ::= root \"b\" | . x | \"\"")
	f.Add("root ::= ((((\"a\"?){9}){9}){9}){9} \"b\"{1000}")
	w := vocabulary(rand.New(rand.NewPCG(1, 1)))
	v := NewVocabulary(w)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Parse(text)
		walk(t, g, err, w, v)
	})
}

func FuzzSchema(f *testing.F) {
	for _, text := range schemas {
		f.Add(text)
	}
	w := vocabulary(rand.New(rand.NewPCG(1, 1)))
	v := NewVocabulary(w)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseSchema([]byte(text))
		walk(t, g, err, w, v)
	})
}
