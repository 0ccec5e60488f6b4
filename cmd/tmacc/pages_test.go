package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/measure"
)

// TestPages holds docs/lab/limits.md, docs/lab/performance.md, those of other machines and the tables of docs/benchmarks.md against the records that they
// are written from.
func TestPages(t *testing.T) {
	const docs, tables = "../../docs/lab", "../../docs/benchmarks.md"
	ratios := filepath.Join(docs, "ratios.json")
	want := map[string]string{}
	for _, dir := range []string{docs, filepath.Join(docs, "tuned"), filepath.Join(docs, "zen4"), filepath.Join(docs, "zen3")} {
		want[filepath.Join(dir, "limits.md")] = ok(t, "bench", "-md", filepath.Join(dir, "limits.jsonl"))
	}
	for _, dir := range []string{docs, filepath.Join(docs, "zen4"), filepath.Join(docs, "zen3"), filepath.Join(docs, "emerald")} {
		want[filepath.Join(dir, "performance.md")] = ok(t, "bench", "-md", filepath.Join(dir, "performance.jsonl"), "-check", ratios)
	}
	checked, isCheck, err := parseLimitCheck(readPage(t, filepath.Join(docs, "limits.jsonl")))
	if !isCheck || err != nil {
		t.Fatal(isCheck, err)
	}
	peers, err := peerRecords(readPage(t, filepath.Join(docs, "performance.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	limits, err := measure.ParsePeerLimits(readPage(t, ratios))
	if err != nil {
		t.Fatal(err)
	}
	text := string(readPage(t, tables))
	text = marked(t, text, "<!-- limits: go test ./cmd/tmacc -run TestPages -update -->\n", checked.summary(), "<!-- /limits -->\n")
	want[tables] = marked(t, text, "<!-- peers: go test ./cmd/tmacc -run TestPages -update -->\n", peerSummary(peers, limits), "<!-- /peers -->\n")
	for path, want := range want {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(path); err != nil || string(have) != want {
			t.Errorf("%s is not what the records say (%v): go test ./cmd/tmacc -run TestPages -update", path, err)
		}
	}
}

var update = flag.Bool("update", false, "write the pages that tests hold against records and the tables of docs/benchmarks.md between their marks")

func readPage(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// marked is text with the middle between two marks.
func marked(t *testing.T, text, begin, middle, end string) string {
	t.Helper()
	before, rest, begins := strings.Cut(text, begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("docs/benchmarks.md has no marks %s and %s", begin, end)
	}
	return before + begin + middle + end + after
}

// TestLimitPage writes what was checked and prints its page: a limit that holds, one that holds only as scaled, one that is missed and one that no
// target here can hold.
func TestLimitPage(t *testing.T) {
	record := measure.Record{Format: "w2", Target: "best", Mode: measure.ModeDRAM, N: 1, BitsPerWeight: 2, Ns: 1, GWeightsS: 150, Share: 0.9, CeilingGBS: 40, CeilingGMACS: 500, ClockGHz: 4}
	cached, gemm, other := record, record, record
	cached.Mode, cached.WeightsPerCycle, cached.CeilingGBS = measure.ModeL2, 110, 400
	gemm.N, gemm.GWeightsS, gemm.Share, gemm.CeilingGMACS = measure.ManyColumns, 480, 0.95, 510
	other.Format, other.Target, other.ClockGHz = "w3", "other", 3.5
	near := cached
	near.Format, near.Target, near.BitsPerWeight = "w5", "other", 5
	x := limitCheck{about{"limits.json", "here", "2026-01-02", "c0ffee"}, []measure.Record{record, cached, gemm, other, near}, []measure.Verdict{
		{Rule: "share", Target: "best", Format: "w2", Have: 0.9, Limit: 1, Factor: 0.8, Rounds: 5, Pass: true},
		{Rule: "l2", Target: "best", Format: "w2", Have: 70, Limit: 100, Scaled: 80, Factor: 0.75, Rounds: 5, Pass: true},
		{Rule: "time", Target: "best", Format: "w2", Have: 2, Limit: 1, Factor: 1.2, AtMost: true, Rounds: 5},
		{Rule: "share", Target: "none", Format: "w2", Skipped: true, Problem: "this machine does not run the target"},
	}}
	var b bytes.Buffer
	x.encode(&b)
	page := ok(t, "bench", "-md", file(t, "limits.jsonl", b.String()))
	for _, line := range []string{
		"medians of 5 interleaved rounds, of each the best of 11 samples. here; 2026-01-02, tmacc c0ffee.",
		"40 to 40 GB/s read from memory, 500 to 510 G int8 products/s (best), 3.5 to 4.0 GHz.",
		"| w2 | best | 2 | 150 | 0.90 | 110 | 480 | 0.95 |\n",
		"| w3 | other | 2 | 150 | 0.90 |  |  |  |\n",
		"| w5 | other | 5 |  |  | 110 |  |  |\n",
		"# What default schedules reach\n",
		"2 of 3 limits hold, only as scaled to this machine: best w2 l2.\n",
		"ok    best w2 l2: 70, at least 0.75 of 100 (80 on this host)\n",
		"FAIL  best w2 time: 2, at most 1.2 of 1\n",
		"skip  none w2 share: this machine does not run the target\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
	if summary := x.summary(); strings.Contains(summary, "w3") || !strings.Contains(summary, "| w2 | best |") {
		t.Errorf("the summary should have w2 only:\n%s", summary)
	}
	head, _, _ := strings.Cut(b.String(), "\n")
	for _, r := range []refusal{
		{2, "no records and verdicts", "bench -md " + file(t, "head.jsonl", head)},
		{2, "has what it was checked by: -md without -check", "bench -md " + file(t, "all.jsonl", b.String()) + " -check x"},
		{2, "line 6: not one of bench -check -json", "bench -md " + file(t, "more.jsonl", strings.Replace(b.String(), "}\n{\"rule", "} {}\n{\"rule", 1))},
		{2, "line 2: not one of bench -check -json", "bench -md " + file(t, "other.jsonl", head+"\n{}\n")},
	} {
		refused(t, r)
	}
}
