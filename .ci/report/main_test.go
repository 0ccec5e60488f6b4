package main

import (
	"slices"
	"testing"
)

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
