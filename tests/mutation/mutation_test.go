package mutation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var mutate = flag.String("mutate", "", "run the mutants of these files, named from the module's root and separated by commas, or of all")

// proven lists the files whose mutants are all noticed or listed: proofs, and code that checks or places data.
var proven = []string{
	"ir/format/codewords.go",
	"ir/format/gguf/gguf.go",
	"ir/format/gguf/parse.go",
	"ir/format/gguf/place.go",
	"ir/format/gguf/reader.go",
	"ir/format/gguf/split.go",
	"ir/format/gguf/types.go",
	"ir/format/layout.go",
	"ir/format/pack.go",
	"ir/format/packer.go",
	"ir/format/validate.go",
	"ir/vir/ranges.go",
	"ir/vir/verify.go",
	"schedule/ranges.go",
}

// equivalents lists mutants that change nothing, with the reason.
const equivalents = "testdata/equivalent.txt"

// TestSample runs the mutants of a small package, whose fates are known.
func TestSample(t *testing.T) {
	f, fates, err := Run("testdata/sample/sample.go", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var have strings.Builder
	for i, m := range f.Mutants {
		fmt.Fprintf(&have, "%d %v: %v\n", m.Line, m, fates[i])
	}
	const want = `
5 declarations: 1 << 3 => 1 >> 3: noticed
9 Clamp: max(0, min(x, Most)) => min(0, min(x, Most)): noticed
9 Clamp: min(x, Most) => max(x, Most): noticed
14 Count: i < len(all) => i <= len(all): noticed
14 Count: i < len(all) => i > len(all): noticed
14 Count: i++ => i--: noticed
15 Count: all[i] < limit => all[i] <= limit: NOT NOTICED
15 Count: all[i] < limit => all[i] > limit: noticed
16 Count: n++ => n--: noticed
27 Box.Name: !(len(b.of) == 0) => (len(b.of) == 0): noticed
27 Box.Name: len(b.of) == 0 => len(b.of) != 0: noticed
28 Box.Name: "box " + text[0] => "box " - text[0]: does not compile
38 Twice: x < 100 => x <= 100: noticed
38 Twice: x < 100 => x > 100: noticed
39 Twice: x *= 2 => x /= 2: noticed by the time it takes
`
	if have.String() != want[1:] {
		t.Errorf("have\n%swant%s", &have, want)
	}
}

// TestMutants checks the list of mutants that change nothing. With -mutate it runs mutants: each must
// be noticed by the tests of its package, or be on the list.
func TestMutants(t *testing.T) {
	reasons := readEquivalents(t)
	run := strings.Split(*mutate, ",")
	if *mutate == "all" {
		run = proven
	}
	for file := range reasons {
		findListed(t, file, reasons[file])
	}
	for _, file := range run {
		if file != "" {
			runMutants(t, file, reasons[file])
		}
	}
}

// findListed checks that the listed mutants of a file exist.
func findListed(t *testing.T, file string, reasons map[string]string) {
	f, err := Parse("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for name := range reasons {
		missing[name] = true
	}
	for _, m := range f.Mutants {
		delete(missing, m.String())
	}
	for name := range missing {
		t.Errorf("%s: %s has no such mutant any more:\n%s", equivalents, file, name)
	}
}

func runMutants(t *testing.T, file string, reasons map[string]string) {
	began := time.Now()
	f, fates, err := Run("../../"+file, t.TempDir())
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	count := map[Fate]int{}
	for i, m := range f.Mutants {
		count[fates[i]]++
		_, listed := reasons[m.String()]
		switch {
		case fates[i] == TimedOut:
			t.Logf("%s:%d: timed out: %v", file, m.Line, m)
		case fates[i] == Unnoticed && !listed:
			t.Errorf("%s:%d: not noticed: %v", file, m.Line, m)
		case fates[i] != Unnoticed && listed:
			t.Errorf("%s:%d: on the list of %s, but %v: %v", file, m.Line, equivalents, fates[i], m)
		}
	}
	t.Logf("%s: %d mutants, %d noticed (%d by the time they take), %d not (%d listed), %.0f s", file, len(fates)-count[Refused],
		count[Noticed]+count[TimedOut], count[TimedOut], count[Unnoticed], len(reasons), time.Since(began).Seconds())
}

// readEquivalents is the list of equivalents: the reason by file and Mutant.String. A reason is indented
// and holds for the lines before it.
func readEquivalents(t *testing.T) map[string]map[string]string {
	text, err := os.ReadFile(equivalents)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	var waiting [][2]string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if reason, ok := strings.CutPrefix(line, "\t"); ok {
			for _, w := range waiting {
				if all[w[0]] == nil {
					all[w[0]] = map[string]string{}
				}
				all[w[0]][w[1]] = reason
			}
			waiting = nil
			continue
		}
		file, name, ok := strings.Cut(line, " ")
		if !ok || all[file][name] != "" {
			t.Fatalf("%s: want a file and a mutant, once: %q", equivalents, line)
		}
		waiting = append(waiting, [2]string{file, name})
	}
	if len(waiting) > 0 {
		t.Fatalf("%s: no reason for %q", equivalents, waiting[0])
	}
	return all
}
