package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/records"
	"github.com/tmacc/tmacc/tests/lab/defaults"
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

// With -records, a product that the core has a record of has the record's schedules.
func TestRecorded(t *testing.T) {
	of := func(more ...string) defaults.Row {
		text, err := export(t, append(more, "-format", "w3", "-target", "avx512vbmi+zen4")...)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := defaults.Read(strings.NewReader(text))
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		return rows[0]
	}
	target := targets.ByName("amd64/avx512vbmi+zen4")
	p, err := ir.Named("w3")
	if err != nil {
		t.Fatal(err)
	}
	e, err := records.Find(p, target)
	if err != nil || e == nil {
		t.Fatalf("record %v, %v", e, err)
	}
	got := of("-records")
	for i, k := range e.Kernels {
		if len(got.Kernels) != len(e.Kernels) || got.Kernels[i].Trace.Key() != k.Trace.Key() {
			t.Fatalf("%d kernels, want %d of the record's", len(got.Kernels), len(e.Kernels))
		}
	}
	if usual := of(); len(usual.Kernels) == len(got.Kernels) && usual.Kernels[0].Trace.Key() == got.Kernels[0].Trace.Key() {
		t.Error("the beam search finds the record")
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
