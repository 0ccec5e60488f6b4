package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func export(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(context.Background(), args, &out)
	return out.String(), err
}

// A file gets the rows that it does not have, of one commit.
func TestAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	lines := func() int {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(data, []byte("\n"))
	}
	args := []string{"-format", "w2", "-target", "avx2,avx512", "-commit", "one", "-o", path}
	for range 2 {
		if _, err := export(t, append(args, "-only", "avx2$")...); err != nil || lines() != 1 {
			t.Fatalf("%d lines, %v", lines(), err)
		}
	}
	if _, err := export(t, args...); err != nil || lines() != 2 {
		t.Fatalf("%d lines, %v", lines(), err)
	}
	args[5] = "two"
	if _, err := export(t, args...); err == nil || !strings.Contains(err.Error(), `has rows of commit "one", and this is "two"`) {
		t.Errorf("error %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"-format w44":  `-format: format: unknown format "w44"`,
		"-target sse":  `-target: unknown target "sse"`,
		"-only [":      "-only: ",
		"w2":           "1 arguments, want none",
		"-o .":         "-o .: want a regular file",
		"-o /dev/null": "-o /dev/null: want a regular file, which is read before it is appended to: without -o, rows go to standard output",
	} {
		if _, err := export(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("export %s: error %v, want %s", args, err, want)
		}
	}
}
