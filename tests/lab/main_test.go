package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
	shared "github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// pages is the folder of the pages and their records, and tables is the page that has the summaries of both between marks.
const pages, tables = "../../" + home, "../../docs/benchmarks.md"

var update = flag.Bool("update", false, "write the pages that tests hold against records, and the tables between their marks")

// TestMain makes this binary the command for tests that need a process of it, and its own worker.
func TestMain(m *testing.M) {
	worker.Main()
	bench.Brief()
	shared.Share()
	if os.Getenv("LAB_TEST_MAIN") != "" {
		main()
	}
	sparing.Run(m)
}

// ok runs a command that must succeed.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	if code := run(args, strings.NewReader(""), &out, &err); code != 0 {
		t.Fatalf("lab %s: exit code %d\n%s", strings.Join(args, " "), code, &err)
	}
	return out.String()
}

// refused runs a command that must fail with one line that has want.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	var out, err bytes.Buffer
	if code := run(args, strings.NewReader(""), &out, &err); code != 2 || strings.Count(err.String(), "\n") != 1 || !strings.HasPrefix(err.String(), "lab: ") || !strings.Contains(err.String(), want) {
		t.Errorf("lab %s: exit code %d\n%s\twant 2 and one line with %s", strings.Join(args, " "), code, &err, want)
	}
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readPage(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// same compares a committed page with what it should be, or writes it.
func same(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != want {
		t.Errorf("%s is not what its records say (%v): go test ./tests/lab -run %s -update", path, err, t.Name())
	}
}

// needMeasuring skips a test where nothing can be measured.
func needMeasuring(t *testing.T) {
	t.Helper()
	if len(measure.TargetsOn(timing.ThisHost())) == 0 || jit.Mappable() != nil {
		t.Skip("needs a CPU with a target, and executable memory")
	}
}

// Commands that cannot begin say why in one line.
func TestRefusals(t *testing.T) {
	taken := file(t, "taken", "")
	for args, want := range map[string]string{
		"study -format w9":     "no format w9: have w2, ternary",
		"study -seeds 0":       "-seeds 0",
		"study -o " + taken:    "-o mkdir " + taken,
		"families -o " + taken: "-o mkdir " + taken,
		"families -rounds 0":   "-rounds 0: want 1 to 1000",
		"families -tables 101": "-tables 101: want 1 to 100",
		"families -target sse": "target sse: this machine does not run it",
		"families w2":          "families: 1 arguments, want 0",
		"threads -threads 0":   "-threads 0: want 1 to 1024",
		"threads -busy -1":     "-busy -1: want 0 to 1024",
		"threads -k 16777217":  "-k 16777217: want 1 to 16777216",
		"threads -m 1048576":   "-m 1048576 -k 4096: at most 1073741824 weights are measured",
		"threads -format w44":  `unknown format "w44"`,
		"threads -foo":         "flag provided but not defined: -foo",
		"study -method luck":   "no method luck: have random, evolution and long",
		"compare a":            "compare: 1 arguments, want 2",
		"compare nofile b":     "nofile: no such file",
		"compare -mode l1 a b": "-mode l1: want l2, l3 or dram",
		"compare -n 0 a b":     "-n 0: want 1 to 4096",
		"choosing -only [ a b": "-only: error parsing",
		"heldout -time 0s":     "-time 0s",
		"heldout -o /dev/null": "-o /dev/null: want a regular file, which is read before it is appended to",
		"heldout -format w44":  `unknown format "w44"`,
		"searches nofile":      "searches: 1 arguments, want 2",
		"limits":               "limits: 0 arguments, want 1",
		"limits nofile":        "nofile: no such file",
		"peer nofile":          "nofile: no such file",
	} {
		if strings.HasPrefix(args, "families -target") || strings.HasPrefix(args, "threads -format") {
			if len(measure.TargetsOn(timing.ThisHost())) == 0 || jit.Mappable() != nil {
				continue
			}
		}
		refused(t, want, strings.Fields(args)...)
	}
	var out, err bytes.Buffer
	if code := run([]string{"foo"}, nil, &out, &err); code != 2 || !strings.Contains(err.String(), "compare tmacc tune's search") || strings.Contains(err.String(), "\n  busy") {
		t.Errorf("exit code %d: %s", code, &err)
	}
}
