package vir

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// FuzzParse checks that no text makes the package panic, and that what parses
// prints as text that parses to the same.
func FuzzParse(f *testing.F) {
	f.Add(everyForm)
	f.Add(tileText)
	for seed := range uint64(8) {
		f.Add(randomFunc(rand.New(rand.NewPCG(seed, 3))).String())
	}
	f.Add("func f(a ptr)\n\tv0:u8x1024 = load a-1\n\tv1:u8x1024 = lookup16 v0 [a+0 u8x1024 splat 1]\n")
	f.Fuzz(checkText)
}

// TestMutatedText is the check of FuzzParse on texts near to a function: words
// and lines exchanged, repeated and left out.
func TestMutatedText(t *testing.T) {
	verified := 0
	for seed := range uint64(4000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		text := everyForm
		if seed%2 == 1 {
			text = randomFunc(rng).String()
		}
		for range 1 + rng.IntN(3) {
			text = mutate(rng, text)
		}
		checkText(t, text)
		if fn, err := Parse(text); err == nil && Verify(fn) == nil {
			verified++
		}
	}
	if verified < 200 {
		t.Errorf("only %d texts are functions", verified)
	}
}

func mutate(rng *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	i, j := rng.IntN(len(lines)), rng.IntN(len(lines))
	words := strings.SplitAfter(lines[i], " ")
	switch rng.IntN(5) {
	case 0:
		lines[i] = ""
	case 1:
		lines[i] += lines[j]
	case 2:
		lines[i], lines[j] = lines[j], lines[i]
	case 3:
		words[rng.IntN(len(words))] = ""
		lines[i] = strings.Join(words, "")
	default:
		other := strings.SplitAfter(lines[j], " ")
		words[rng.IntN(len(words))] = other[rng.IntN(len(other))]
		lines[i] = strings.Join(words, "")
	}
	return strings.Join(lines, "")
}

// checkText fails t unless text is refused, or printing and parsing give it back
// and Verify, Ranges and Eval handle it.
func checkText(t *testing.T, text string) {
	fn, err := Parse(text)
	if err != nil {
		return
	}
	printed := fn.String()
	again, err := Parse(printed)
	if err != nil {
		t.Fatalf("%v in\n%s", err, printed)
	}
	if again.String() != printed || !reflect.DeepEqual(fn, again) {
		t.Fatalf("have\n%swant\n%s", again, printed)
	}
	if Verify(fn) != nil {
		return
	}
	Ranges(fn)
	if fn.Clone().String() != printed {
		t.Fatalf("clone prints\n%s", fn.Clone())
	}
	args := make([]Arg, len(fn.Params))
	for i := range args {
		args[i] = Arg{Buf: seq(256), Int: 3}
	}
	_ = EvalLimit(fn, args, 10000)
	if fn.String() != printed {
		t.Fatal("Eval changed the function")
	}
}
