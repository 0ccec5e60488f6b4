package grammar

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// words are tokens for tests. The first ones are bytes.
type words []string

func (w words) Len() int { return len(w) }
func (w words) AppendPiece(dst []byte, id int32, special bool) []byte {
	if w.EndOfGeneration(id) && !special {
		return dst
	}
	return append(dst, w[id]...)
}
func (w words) EndOfGeneration(id int32) bool { return strings.HasPrefix(w[id], "<end") }

// vocabulary is all bytes, and random pieces of texts that grammars of tests like.
func vocabulary(rng *rand.Rand) words {
	var w words
	for b := range 256 {
		w = append(w, string([]byte{byte(b)}))
	}
	const text = `{"name": "abc", "list": [1, 2.5e3, -17, true, false, null]} the 0000 aaaabbbbcccc xyz éüß日本語` + "\n\t"
	for range 400 {
		from := rng.IntN(len(text) - 1)
		w = append(w, text[from:from+1+rng.IntN(min(6, len(text)-from))])
	}
	return append(w, "<end1>", "<end2>", "")
}

func parsed(t testing.TB, text string) *Grammar {
	t.Helper()
	g, err := Parse(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return g
}

// accepts reports whether a text, and whether the beginning of one, is of a grammar.
func accepts(t testing.TB, g *Grammar, text string) (whole, beginning bool) {
	t.Helper()
	m, err := newMachine(g)
	if err != nil {
		t.Fatal(err)
	}
	at := start
	for _, b := range []byte(text) {
		if at, err = m.next(at, b); err != nil {
			t.Fatal(err)
		}
	}
	return m.states[at].ends, at != dead
}

// Texts by hand: the ones before "not" are of the grammar.
func TestGBNF(t *testing.T) {
	const not = "\x00not"
	for _, c := range []struct {
		grammar string
		texts   []string
	}{
		{`root ::= "a" | "bc"`, []string{"a", "bc", not, "", "b", "ab", "abc"}},
		{"root ::= x*\nx ::= [0-9] | \"-\" x", []string{"", "0", "12", "-1", "--12", not, "-", "1-", "x"}},
		{"# comment\nroot ::= ( # more\n  \"a\"\n  \"b\"\n)+ # end\n", []string{"ab", "abab", not, "", "a", "aba"}},
		{"root ::= \"a\" |\n \"b\"", []string{"a", "b", not, "ab"}},
		{`root ::= "x"{3}`, []string{"xxx", not, "xx", "xxxx"}},
		{`root ::= "x"{2,}`, []string{"xx", "xxxxxxx", not, "x"}},
		{`root ::= "x"{1,3} "y"?`, []string{"x", "xxxy", not, "", "xxxx", "yy"}},
		{`root ::= ("a"? "b"?){2} "c"`, []string{"c", "abc", "ababc", "aac", "bbc", not, "aaac", "ab"}},
		{`root ::= ("a"*)* "b"`, []string{"b", "aaab", not, "a"}},
		{`root ::= "x"{0} "y"`, []string{"y", not, "xy"}},
		{`root ::= [^a-c\n] [\x41\u00e9\U0001F600\]\-]`, []string{"dA", "é😀", "x]", "x-", not, "aA", "\nA", "dB"}},
		{`root ::= . .`, []string{"ab", "é\n", "😀x", not, "a", "\x80a", "a\xff"}},
		{`root ::= "é\t\"\\" [à-ö]`, []string{"é\t\"\\ã", not, "é\t\"\\e"}},
		{"root ::= list\nlist ::= \"(\" list? \")\" list?", []string{"()", "(())", "()()(()())", not, "(", ")(", ""}},
		{"root ::= | \"a\" root", []string{"", "aaaa", not, "b"}},
		{"root::=a-b_1 \"\"\r\na-b_1::=\"x\"\r\n", []string{"x", not, ""}},
		{`root ::= [\u0700-\u0900] | [\uD000-\uE100] | [\U00010000-\U0010FFFF]`, []string{"\u0700", "\u07ff", "\u0800", "\u0900", "\ud7ff", "\ue000", "\ue100", "\U00010000", "\U0010ffff", not, "\u06ff", "\u0901", "\ue101", "\xed\xa0\x80"}},
		{`root ::= "[" [+-]? "]"`, []string{"[]", "[+]", "[-]", not, "[,]"}},
	} {
		g, want := parsed(t, c.grammar), true
		for _, text := range c.texts {
			if text == not {
				want = false
				continue
			}
			if got, _ := accepts(t, g, text); got != want {
				t.Errorf("%s\n%q: %t, want %t", c.grammar, text, got, want)
			}
			for i := range len(text) {
				if _, begins := accepts(t, g, text[:i]); want && !begins {
					t.Errorf("%s\n%q: not the beginning of %q", c.grammar, text[:i], text)
				}
			}
		}
	}
}

// Faults have a line and a column, and name the fault.
func TestGBNFRefuses(t *testing.T) {
	for _, c := range [][2]string{
		{"", "line 1, column 1: there is no rule root"},
		{"x ::= \"a\"", "line 1, column 1: there is no rule root"},
		{"root ::= \"a\n", "line 1, column 10: the \" has no second one"},
		{"root ::= [a", "line 1, column 10: the [ has no ]"},
		{"root ::= []", "line 1, column 10: the set of characters is empty"},
		{"root ::= [b-a]", "line 1, column 11: the range is from 'b' to 'a'"},
		{"root ::= ( \"a\"", "line 1, column 15: want ) for the ( of line 1, column 10, not the end"},
		{"root ::= \"a\" )", "line 1, column 14: want the end of the rule, not ')'"},
		{"root ::= \"é\" ?? = \"b\"", "line 1, column 17: want the end of the rule, not '='"},
		{"root ::= x\n\ny ::= x", "line 1, column 10: there is no rule x"},
		{"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: there is another rule root"},
		{"root = \"a\"", "line 1, column 6: want ::= after the name of a rule, not '='"},
		{"root ::= \"a\"\n+", "line 2, column 1: want the name of a rule, not '+'"},
		{"root ::= \"a\\q\"", "line 1, column 12: there is no escape \\q"},
		{"root ::= \"\\x1\"", "line 1, column 14: want 2 hexadecimal digits"},
		{"root ::= \"\\ud800\"", "line 1, column 11: \\ud800 is no character"},
		{"root ::= \"\\x\x10\x10\"", "line 1, column 13: want 2 hexadecimal digits"},
		{"root ::= \"a\"{2,1}", "line 1, column 13: the repetition is from 2 to 1"},
		{"root ::= \"a\"{x}", "line 1, column 14: want a number of repetitions, not 'x'"},
		{"root ::= \"a\"{1", "line 1, column 15: want } for the { of line 1, column 13"},
		{"root ::= \"a\"{100001}", "line 1, column 14: more than 100000 repetitions"},
		{"root ::= <think>", "line 1, column 10: tokens, such as <think>, are not possible"},
		{"root ::= \xff", "line 1, column 10: want the end of the rule"},
		{"root ::= \"\xff\"", "line 1, column 11: the grammar is not UTF-8"},
		{"root ::= \"a\"\nx ::= x \"a\"\nroot2 ::= x", ""},
		{"root ::= a\na ::= \"x\"? b\nb ::= a \"y\" | \"z\"", "line 2, column 1: the rule a begins with itself, by the rule b: left recursion"},
		{"root ::= root \"a\" | \"b\"", "line 1, column 1: the rule root begins with itself: left recursion"},
		{"root ::= (root \"a\")* \"b\"", "line 1, column 1: the rule root begins with itself"},
		{"root ::= \"a\" x | \"c\"\nx ::= \"b\" x", "line 2, column 1: the rule x never ends"},
		{"root ::= (\"a\"{100000}){100000}", "line 1, column 1: the rule root never ends"},
		{"root ::= " + strings.Repeat("(", 600), "more than 500 parentheses"},
		{"root ::= " + strings.Repeat("a", 1<<18), "the grammar has 262153 bytes"},
	} {
		_, err := Parse(c[0])
		if c[1] == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%.80s\n%v\nwant %s", c[0], err, c[1])
		}
	}
}

// expressionOf is a random regular expression, and the same in GBNF.
func expressionOf(rng *rand.Rand, depth int) (gbnf, expression string) {
	if depth == 0 {
		switch rng.IntN(5) {
		case 0:
			return `[^ab]`, `[^ab]`
		case 1:
			return `[b-y]`, `[b-y]`
		case 2:
			return `.`, `(?s:.)`
		}
		c := string("abcé"[rng.IntN(3):][:1])
		return `"` + c + `"`, c
	}
	a, x := expressionOf(rng, depth-1)
	b, y := expressionOf(rng, rng.IntN(depth))
	switch rng.IntN(6) {
	case 0:
		return "(" + a + " | " + b + ")", "(?:" + x + "|" + y + ")"
	case 1:
		return "(" + a + ")*", "(?:" + x + ")*"
	case 2:
		return "(" + a + "){1,2}", "(?:" + x + "){1,2}"
	case 3:
		return "(" + a + " " + b + ")?", "(?:" + x + y + ")?"
	}
	return a + " " + b, x + y
}

// Random regular expressions accept the same texts as package regexp.
func TestRegular(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	both := [2]int{}
	for range 400 {
		gbnf, text := expressionOf(rng, 4)
		g, re := parsed(t, "root ::= "+gbnf), regexp.MustCompile("^(?:"+text+")$")
		for range 30 {
			s := ""
			for range rng.IntN(7) {
				s += []string{"a", "b", "c", "z", "é", "\n"}[rng.IntN(6)]
			}
			got, _ := accepts(t, g, s)
			if want := re.MatchString(s); got != want {
				t.Fatalf("%s, %q: %t, want %t", gbnf, s, got, want)
			}
			if got {
				both[1]++
			} else {
				both[0]++
			}
		}
	}
	if min(both[0], both[1]) < 1000 {
		t.Errorf("%d texts refused and accepted", both)
	}
}

// grammars are for tests of masks.
var grammars = []string{
	`root ::= "a" | "bc" "d"*`,
	"root ::= value\nvalue ::= \"{\" (pair (\", \" pair)*)? \"}\" | \"[\" (value (\",\" value)*)? \"]\" | \"\\\"\" [^\"\\\\\\x00-\\x1f]* \"\\\"\" | \"-\"? [0-9]+\npair ::= \"\\\"\" [a-z]{1,8} \"\\\": \" value",
	`root ::= [éüß日本語]{3,5} "\n"`,
	`root ::= (. .)*`,
	"root ::= \"(\" root* \")\"",
	`root ::= "a"{40,} "xyz"`,
}

// A token may come if, and only if, its bytes continue the text: here each one is tried.
func TestMask(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := vocabulary(rng)
	v := NewVocabulary(w)
	for _, text := range grammars {
		g := parsed(t, text)
		k := NewMask(g, v)
		for range 2 {
			k.Reset()
			said := ""
			for range 10 {
				logits := make([]float32, len(w)+3)
				k.Apply(logits, -1)
				whole, _ := accepts(t, g, said)
				var may []int32
				for id, x := range logits {
					want := false
					switch {
					case id >= len(w) || w[id] == "":
					case w.EndOfGeneration(int32(id)):
						want = whole
					default:
						_, want = accepts(t, g, said+w[id])
					}
					if got := !math.IsInf(float64(x), -1); got != want {
						t.Fatalf("%s\nafter %q: token %q: %t, want %t", text, said, w[min(id, len(w)-1)], got, want)
					}
					if want {
						may = append(may, int32(id))
					}
				}
				if k.MayEnd() != whole || k.Err() != nil {
					t.Fatalf("%s\n%q may end: %t, %v", text, said, k.MayEnd(), k.Err())
				}
				id := may[rng.IntN(len(may))]
				if w.EndOfGeneration(id) {
					break
				}
				k.Accept(id)
				said += w[id]
			}
		}
	}
}

// finish takes random tokens of a mask within a limit, and returns the text, and whether it is complete.
func finish(t *testing.T, k *Mask, w words, limit int, rng *rand.Rand) (string, bool) {
	t.Helper()
	k.Reset()
	said := ""
	for left := limit; left > 0; left-- {
		logits := make([]float32, len(w))
		for i := range logits {
			logits[i] = float32(rng.NormFloat64())
		}
		k.Apply(logits, left)
		id := int32(0)
		for i, x := range logits {
			if x > logits[id] {
				id = int32(i)
			}
		}
		if math.IsInf(float64(logits[id]), -1) {
			t.Fatalf("after %q with %d left: %v", said, left, k.Err())
		}
		if w.EndOfGeneration(id) {
			return said, true
		}
		said += w[id]
		k.Accept(id)
	}
	return said, k.MayEnd()
}

// With a limit of tokens each text is complete, from the fewest tokens on that are one; with fewer it is not.
func TestLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	all := vocabulary(rng)
	for _, lacks := range []string{"", "x"} {
		w := slices.Clone(all)
		if lacks != "" {
			w[lacks[0]] = ""
		}
		v := NewVocabulary(w)
		for _, text := range grammars {
			g := parsed(t, text)
			k := NewMask(g, v)
			least := k.Fewest()
			if least < 0 {
				t.Fatalf("%s: at least %d tokens", text, least)
			}
			for limit := max(1, least-1); limit < least+30; limit++ {
				for range 3 {
					said, complete := finish(t, k, w, limit, rng)
					whole, begins := accepts(t, g, said)
					if whole != complete || !begins || limit >= least && !whole {
						t.Fatalf("%s\nwithin %d tokens: %q, complete: %t; the shortest text has %d", text, limit, said, complete, least)
					}
				}
			}
		}
	}
	k := NewMask(parsed(t, `root ::= "xyz"{30000}`), NewVocabulary(all))
	if n := k.Fewest(); n != -1 {
		t.Errorf("a text of 90000 bytes has a plan of %d tokens", n)
	}
	if _, complete := finish(t, k, all, 5, rng); complete {
		t.Error("90000 bytes in 5 tokens")
	}
}

// A grammar that can be read in ever more ways is an error, not a matter of hours. A machine that is full goes on as another one.
func TestAmbiguous(t *testing.T) {
	w := vocabulary(rand.New(rand.NewPCG(7, 8)))
	v := NewVocabulary(w)
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "r%d ::= r%d \"x\" | r%d \"y\"\n", i, i+1, i+1)
	}
	if _, err := Parse("root ::= r0\n" + b.String() + "r40 ::= \"a\""); err == nil || !strings.Contains(err.Error(), "too ambiguous") {
		t.Error(err)
	}
	b.Reset()
	for i := range 40 {
		fmt.Fprintf(&b, "r%d ::= r%d | r%d\n", i, i+1, i+1)
	}
	parsed(t, "root ::= r0\n"+b.String()+"r40 ::= \"a\"")
	k := NewMask(parsed(t, `root ::= (("a"{0,1000}){0,1000}){0,1000} "b"`), v)
	for n := 0; k.Err() == nil && n < 2000; n++ {
		k.Apply(make([]float32, len(w)), -1)
		k.Accept('a')
	}
	if k.Err() != errAmbiguous {
		t.Error(k.Err())
	}
	k.Reset()
	if k.Apply(make([]float32, len(w)), -1); k.Err() != nil {
		t.Error(k.Err())
	}
}

// A machine that is full is replaced by a new one in the same state.
func TestMoved(t *testing.T) {
	g := parsed(t, "root ::= \"(\" root* \")\" | [a-z]{1,9}")
	m, err := newMachine(g)
	if err != nil {
		t.Fatal(err)
	}
	at := start
	for i, b := range []byte("((abc(x)((zzzz)abcdefg))") {
		other, _ := newMachine(g)
		copied := m.moved(at, other)
		if a, b := m.states[at], other.states[copied]; a.ends != b.ends || a.need != b.need || len(a.bytes) != len(b.bytes) {
			t.Fatalf("after %d bytes: %+v, %+v", i, a, b)
		}
		for c := range 256 {
			x, _ := m.next(at, byte(c))
			y, _ := other.next(copied, byte(c))
			if m.states[x].need != other.states[y].need {
				t.Fatalf("after %d bytes: byte %d", i, c)
			}
		}
		at, _ = m.next(at, b)
	}
}

// What a mask does not allow is an error, and a vocabulary that lacks what a grammar needs.
func TestMaskErrors(t *testing.T) {
	w := words{"a", "b", "<end>"}
	k := NewMask(parsed(t, `root ::= "ab"`), NewVocabulary(w))
	k.Accept(1)
	if k.Err() != errToken {
		t.Error(k.Err())
	}
	k = NewMask(parsed(t, `root ::= "ac"`), NewVocabulary(w))
	k.Accept(0)
	logits := make([]float32, 3)
	if k.Apply(logits, 9); k.Err() != errNoToken || !math.IsInf(float64(logits[0]+logits[1]+logits[2]), -1) {
		t.Error(k.Err(), logits)
	}
}

// Large grammars are read, or refused, and masked within a moment.
func TestHostileGrammars(t *testing.T) {
	w := vocabulary(rand.New(rand.NewPCG(9, 9)))
	v := NewVocabulary(w)
	many := func(n int, each func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(each(i))
		}
		return b.String()
	}
	for what, text := range map[string]string{
		"alternatives":    `root ::= "x"` + many(20_000, func(i int) string { return fmt.Sprintf(` | "%d"`, i) }),
		"a long text":     `root ::= "` + strings.Repeat("ab", 120_000) + `"`,
		"sets":            `root ::= ` + many(8000, func(i int) string { return fmt.Sprintf(`[^\u%04x-\uffff]`, 0x100+i) }),
		"a large set":     `root ::= [` + many(30_000, func(i int) string { return string(rune(0x100 + 2*i)) }) + `]+`,
		"rules":           "root ::= r0\n" + many(9_000, func(i int) string { return fmt.Sprintf("r%d ::= \"x\" r%d | r%d\n", i, i+1, i+1) }) + `r9000 ::= "y"`,
		"rules backward":  "root ::= r9999\nr0 ::= \"y\"\n" + many(9_999, func(i int) string { return fmt.Sprintf("r%d ::= r%d\n", i+1, i) }),
		"optional rules":  `root ::= ` + many(60_000, func(int) string { return `"a"?` }),
		"counters":        `root ::= (.{0,1000} "a"){0,1000}`,
		"nested counters": `root ::= ((((.{0,99}){0,99}){0,99}){0,99} "b"){0,99}`,
		"recursion":       "root ::= \"a\" root root | \"b\" root | \"\"",
		"all bytes":       `root ::= (` + many(250, func(i int) string { return fmt.Sprintf(`[\x%02x-\xff] "q" | `, i) }) + `"z")+`,
	} {
		began := time.Now()
		g, err := Parse(text)
		var took time.Duration
		if err == nil {
			k := NewMask(g, v)
			for n := 0; n < 30 && k.Err() == nil; n++ {
				logits := make([]float32, len(w))
				k.Apply(logits, 100-n)
				id := int32(slices.Index(logits, 0))
				if id < 0 || w.EndOfGeneration(id) {
					break
				}
				k.Accept(id)
			}
			err = k.Err()
		}
		if took = time.Since(began); took > 20*time.Second {
			t.Errorf("%s: %v", what, took)
		}
		t.Logf("%s, %d bytes: %v, %.150v", what, len(text), took, err)
	}
}

// TestClasses: bytes have the same class if and only if no set tells them apart, however many classes there are.
func TestClasses(t *testing.T) {
	var many strings.Builder
	many.WriteString("root ::= (")
	for c := rune(' '); c < 0x800; c++ {
		fmt.Fprintf(&many, "\"\\u%04X\" | ", c)
	}
	many.WriteString("\"\") [^a]")
	for _, text := range []string{`root ::= ""`, `root ::= [a-z]+ "," [0-9a-f]`, many.String()} {
		g := parsed(t, text)
		classes := map[uint8]bool{}
		for a := range 256 {
			classes[g.class[a]] = true
			for b := range 256 {
				apart := slices.ContainsFunc(g.sets, func(s byteSet) bool { return s.has(byte(a)) != s.has(byte(b)) })
				if apart == (g.class[a] == g.class[b]) {
					t.Fatalf("%.40s: bytes %#x and %#x have the classes %d and %d", text, a, b, g.class[a], g.class[b])
				}
			}
			if b := g.bytes[g.class[a]]; g.class[b] != g.class[a] {
				t.Errorf("%.40s: byte %#x stands for class %d and has %d", text, b, g.class[a], g.class[b])
			}
		}
		if g.count != len(classes) {
			t.Errorf("%.40s: %d classes, %d counted", text, len(classes), g.count)
		}
	}
}
