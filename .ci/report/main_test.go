package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// events are the lines of go test -json for a test that ends in the given way after it printed text, and for its package.
func events(action, text string) string {
	return fmt.Sprintf(`{"Action":"run","Package":"p","Test":"TestOther"}
{"Action":"pass","Package":"p","Test":"TestOther"}
{"Action":"run","Package":"p","Test":"TestX"}
{"Action":"output","Package":"p","Test":"TestX","Output":%q}
{"Action":%q,"Package":"p","Test":"TestX"}
{"Action":"pass","Package":"p"}
{"Action":"skip","Package":"without tests"}
`, text, action)
}

// A test that is skipped for lack of a tool fails the run, as does one that fails or is not there.
func TestReport(t *testing.T) {
	avx2 := map[string]bool{"avx2": true}
	for _, c := range []struct {
		in    string
		rules rules
		ok    bool
		says  string
	}{
		{events("pass", ""), rules{}, true, "2 tests passed\n"},
		{events("skip", "    x_test.go:1: needs qemu-aarch64 (Debian: qemu-user)\n"), rules{have: avx2}, false, "SKIP  p TestX (not allowed)\n    x_test.go:1: needs qemu-aarch64"},
		{events("skip", ""), rules{have: avx2}, false, "SKIP  p TestX (not allowed)\n"},
		{events("skip", "    x_test.go:1: this CPU lacks AVX512F\n"), rules{have: avx2}, true, "SKIP  p TestX (another CPU's)\n"},
		{events("skip", "    x_test.go:1: this CPU lacks AVX2\n"), rules{have: avx2}, false, "SKIP  p TestX (not allowed)\n"},
		{events("skip", "    x_test.go:1: instrumented code allocates\n"), rules{allowed: []string{"TestX"}}, true, "SKIP  p TestX (allowed)\n"},
		{events("skip", "    x_test.go:1: TMACC_DATA names no folder of models\n"), rules{}, true, "SKIP  p TestX (no data)\n"},
		{events("skip", "    x_test.go:1: TMACC_DATA names no folder of models\n"), rules{data: true}, false, "SKIP  p TestX (not allowed)\n"},
		{events("fail", "    x_test.go:1: wrong\n"), rules{}, false, "FAIL  p TestX\n    x_test.go:1: wrong\n"},
		{events("pass", ""), rules{named: []string{"TestX", "TestY"}}, false, "no such test: TestY\n"},
		{"", rules{}, false, "no test ran\n"},
		{"go: no such package\n" + events("pass", ""), rules{}, false, "go: no such package\n"},
	} {
		var out strings.Builder
		if ok := report(strings.NewReader(c.in), &out, c.rules); ok != c.ok || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s\n%v, want %v and %q in\n%s", c.in, ok, c.ok, c.says, &out)
		}
	}
}

// A test is skipped for its CPU only if that is what it said last, and true.
func TestNeedsOther(t *testing.T) {
	have := map[string]bool{"avx2": true, "f16c": true}
	for _, c := range []struct {
		output []string
		have   map[string]bool
		want   bool
	}{
		{[]string{"=== RUN   TestX\n", "    x_test.go:1: this CPU lacks AVX512F AVX512BW\n", "--- SKIP: TestX (0.00s)\n"}, have, true},
		{[]string{"    x_test.go:1: this CPU lacks AVX512F\n", "    --- SKIP: TestX/y (0.00s)\n"}, have, true},
		{[]string{"    x_test.go:1: this CPU lacks AVX512F AVX2\n", "--- SKIP: TestX (0.00s)\n"}, have, false},
		{[]string{"    x_test.go:1: this CPU lacks \n", "--- SKIP: TestX (0.00s)\n"}, have, false},
		{[]string{"    x_test.go:1: this CPU lacks AVX512F\n", "    x_test.go:2: qemu-aarch64 is missing\n", "--- SKIP: TestX (0.00s)\n"}, have, false},
		{[]string{"    x_test.go:1: this CPU lacks AVX512F\n", "--- SKIP: TestX (0.00s)\n"}, nil, false},
		{[]string{"--- SKIP: TestX (0.00s)\n"}, have, false},
		{nil, have, false},
	} {
		if got := needsOther(c.output, c.have); got != c.want {
			t.Errorf("%q on %v: %v, want %v", c.output, c.have, got, c.want)
		}
	}
}

func TestNamesIn(t *testing.T) {
	for pattern, want := range map[string][]string{"^(TestA|TestB)$": {"TestA", "TestB"}, "^(TestA)$": {"TestA"}, "^TestA$": nil, "TestA|TestB": nil, "^$": nil} {
		if got := namesIn(pattern); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
}
