package drawn

import (
	"os"
	"strconv"
	"testing"
)

// Env is the number that the environment variable name holds, or otherwise.
func Env(t testing.TB, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
