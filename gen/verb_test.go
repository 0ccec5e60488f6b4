package gen

import (
	"fmt"
	"strings"
	"testing"
)

// The verb of a name has its parts, and a %d for each of its numbers, as numbersOf finds them.
func TestVerbOf(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "7": "%d", "blk.7.ffn_up.weight": "blk.%d.ffn_up.weight", "q4.w_2": "q4.w_2", "1.2": "%d.%d", "a.10.": "a.%d.", ".3": ".%d",
		"50%.1": "%d%%.%d", "a-1-b": "a-%d-b", "1..2": "%d..%d", "é1.2": "é%d.%d",
	} {
		verb, n := verbOf(name)
		parts, numbers := numbersOf(name)
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], "%", "%%")
		}
		if verb != want || verb != strings.Join(parts, "%d") || n != len(numbers) {
			t.Errorf("%q: %q with %d numbers, want %q; its numbers are %v", name, verb, n, want, numbers)
		}
		args := make([]any, len(numbers))
		for i, number := range numbers {
			args[i] = atoi(number)
		}
		if back := fmt.Sprintf(verb, args...); back != name {
			t.Errorf("%q comes back as %q", name, back)
		}
	}
}

func atoi(s string) (n int) {
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}
