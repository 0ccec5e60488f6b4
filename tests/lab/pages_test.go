package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/bench/peer"
	"github.com/tmacc/tmacc/search/measure"
)

// TestPages holds the pages of limits and of ratios, of all machines, and the tables of the README against their records.
func TestPages(t *testing.T) {
	ratios := filepath.Join(pages, "ratios.json")
	for _, dir := range []string{"", "tuned", "zen4", "zen3"} {
		dir = filepath.Join(pages, dir)
		same(t, filepath.Join(dir, "limits.md"), ok(t, "limits", filepath.Join(dir, "limits.jsonl")))
	}
	for _, dir := range []string{"", "zen4", "zen3", "emerald"} {
		dir = filepath.Join(pages, dir)
		same(t, filepath.Join(dir, "performance.md"), ok(t, "peer", "-check", ratios, filepath.Join(dir, "performance.jsonl")))
	}
	c, err := bench.ParseChecked(readPage(t, filepath.Join(pages, "limits.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	records, err := peer.ParseRecords(readPage(t, filepath.Join(pages, "performance.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	limits, err := readRatios(ratios)
	if err != nil {
		t.Fatal(err)
	}
	const by = ": go test ./tests/lab -run TestPages -update -->\n"
	text := marked(t, string(readPage(t, tables)), "<!-- limits"+by, checked{c}.summary(), "<!-- /limits -->\n")
	same(t, tables, marked(t, text, "<!-- peers"+by, peerSummary(records, limits), "<!-- /peers -->\n"))
}

// TestModelsPage holds the page of models against its records.
func TestModelsPage(t *testing.T) {
	same(t, filepath.Join(pages, "../models-performance.md"), ok(t, "models", filepath.Join(pages, "models")))
}

// TestModelsPageRows prints a page of a prompt that failed and of generated tokens.
func TestModelsPageRows(t *testing.T) {
	const about = `"build_commit":"c0","cpu_info":"here","model_type":"toy","test_time":"2026-01-02T03:04:05Z","n_threads":2,"energy":"not available","attention_ns_per_token":1500000,`
	path := file(t, "records.json", `
[{`+about+`"n_prompt":512,"rounds":3,"ours":{"median_ts":400},"error":"llama.cpp ended the process"}]
[{`+about+`"n_gen":32,"n_depth":4096,"rounds":5,"ours":{"median_ts":20,"read_share":0.9},"theirs":{"median_ts":10,"read_share":0.45},"ratio":2,"ratio_low":1.9,"ratio_high":2.25}]
`)
	page := ok(t, "models", filepath.Dir(path))
	for _, line := range []string{
		"* tmacc c0; 2026-01-02: here\n",
		"* toy, threads 2, pp512: llama.cpp ended the process\n",
		"| toy | pp512 | 2 | 3 |  | 400.00 |  |  | failed |  |  |\n",
		"| toy | tg32 @ d4096 | 2 | 5 |  | 20.00 | 10.00 | 2.00 | 1.90 – 2.25 | 90 % | 45 % |\n",
		"| toy | tg32 @ d4096 | 2 | 0.00 | 1.50 | 0.00 | 0.00 |\n",
	} {
		if strings.Count(page, line) != 1 {
			t.Errorf("not one line %s in\n%s", line, page)
		}
	}
	refused(t, "other.json: after record 0: ", "models", filepath.Dir(file(t, "other.json", `{"format":"w4"}`)))
	refused(t, "has no records *.json", "models", t.TempDir())
}

// marked returns text with another middle between two marks.
func marked(t *testing.T, text, begin, middle, end string) string {
	t.Helper()
	before, rest, begins := strings.Cut(text, begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no marks %s and %s", tables, begin, end)
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
	x := checked{bench.Checked{About: bench.About{Limits: "limits.json", Host: "here", Date: "2026-01-02", Commit: "c0ffee"}, Records: []measure.Record{record, cached, gemm, other, near}, Verdicts: []measure.Verdict{
		{Rule: "share", Target: "best", Format: "w2", Have: 0.9, Limit: 1, Factor: 0.8, Rounds: 5, Pass: true},
		{Rule: "l2", Target: "best", Format: "w2", Have: 70, Limit: 100, Scaled: 80, Factor: 0.75, Rounds: 5, Pass: true},
		{Rule: "time", Target: "best", Format: "w2", Have: 2, Limit: 1, Factor: 1.2, AtMost: true, Rounds: 5},
		{Rule: "share", Target: "none", Format: "w2", Skipped: true, Problem: "this machine does not run the target"},
	}}}
	var b bytes.Buffer
	if err := x.Encode(&b); err != nil {
		t.Fatal(err)
	}
	page := ok(t, "limits", file(t, "limits.jsonl", b.String()))
	for _, line := range []string{
		"medians of 5 interleaved rounds, of the best of 11 samples each. They were measured on\nhere; 2026-01-02, tmacc c0ffee.",
		"Written by `go run ./tests/lab limits limits.jsonl` from",
		"40 to 40 GB/s read from memory, 500 to 510 G int8 products/s (best), 3.5 to 4.0 GHz.",
		"| w2 | best | 2 | 150 | 0.90 | 110 | 480 | 0.95 |\n",
		"| w3 | other | 2 | 150 | 0.90 |  |  |  |\n",
		"| w5 | other | 5 |  |  | 110 |  |  |\n",
		"# What default schedules reach\n",
		"2 of 3 limits hold; one (best w2 l2) holds only after scaling to this machine.\n",
		"ok    best w2 l2: 70, at least 0.75 of 100 (80 on this host)\n",
		"FAIL  best w2 time: 2, at most 1.2 of 1\n",
		"skip  none w2 share: this machine does not run the target\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
	if summary := x.summary(); strings.Contains(summary, "w3") || !strings.Contains(summary, "| w2 | best |") {
		t.Errorf("the table of README.md should have w2 only:\n%s", summary)
	}
	x.Verdicts = x.Verdicts[:2]
	if have := x.holding(); have != "All 2 limits hold; one (best w2 l2) holds only after scaling to this machine." {
		t.Error(have)
	}
	x.Verdicts = append(x.Verdicts, x.Verdicts[1])
	if have := x.holding(); have != "All 3 limits hold; 2 of them hold only after scaling to this machine: best w2 l2; best w2 l2." {
		t.Error(have)
	}
	x.Verdicts = x.Verdicts[:1]
	if have := x.holding(); have != "All 1 limits hold." {
		t.Error(have)
	}
	refused(t, "no.jsonl: line 1: not the first line of bench -check -json", "limits", file(t, "no.jsonl", "{}"))
}

// TestPeerPage prints a page of two records, one of two rounds.
func TestPeerPage(t *testing.T) {
	const host = `"peer":"ggml 0","library":"lib.so","host":"here","date":"today","commit":"c0","target":"avx2","format":"f","m":4096,"k":4096,"bits_per_weight":4`
	path := file(t, "records.jsonl", `
{"type":"A","mode":"dram","n":1,"threads":1,"read_gb_s":20,"ours":{"ns":1000000,"error":0.005},"theirs":[{"ns":3000000},{"ns":2000000}],`+host+`}
{"type":"A","mode":"dram","n":1,"threads":2,"read_gb_s":30,"ours":{"ns":500000,"error":0.005},"theirs":[{"ns":1000000}],`+host+`}
{"type":"A","mode":"dram","n":1,"threads":1,"read_gb_s":20,"ours":{"ns":1000000,"error":0.005},"theirs":[{"ns":3000000},{"ns":2100000}],`+host+`}
{"type":"A","mode":"dram","n":1,"threads":1,"read_gb_s":20,"ours":{"ns":1000000,"error":0.005},"theirs":[{"ns":3000000},{"ns":2200000}],`+host+`}
{"type":"A","mode":"dram","n":1,"threads":1,"read_gb_s":20,"tuned":true,"ours":{"ns":500000,"error":0.005},"theirs":[{"ns":3000000},{"ns":2000000}],`+host+`}
`)
	limits := file(t, "ratios.json", `[{"types":["A"],"mode":"dram","n":1,"threads":1,"ratio":3,"tuned":4},{"types":["A"],"n":1,"threads":2,"scaling":0.9}]`)
	page := ok(t, "peer", "-check", limits, path)
	for _, line := range []string{
		"* ggml 0, lib.so; tmacc c0, target avx2; today: here\n",
		"| A | `f` | 4 | 1 | 16.8 | 5.6 | 8.0 | 2.10 | 3 | 0.50 % | 0.00 % |\n",
		"| A | `f` | 4 | 2 | 33.6 | 16.8 |  | 2.00 |  | 0.50 % | 0.00 % |\n",
		"| A | 2 | 16.8 | 30.0 | 2.00 | 1.50 | 1.33 | 2.10 |\n",
		"| A tuned | `f` | 4 | 1 | 33.6 | 5.6 | 8.4 | 4.00 | 4 | 0.50 % | 0.00 % |\n",
		"\n2 of 3 ratios hold (",
		"ok    avx2 A dram n=1, threads 1, times as fast, tuned: 4, at least 1 of 4\n",
		"FAIL  avx2 A dram n=1, threads 1, times as fast: 2.1, at least 1 of 3\n",
		"ok    avx2 A dram n=1, threads 2 to 1, gain over that of reading: 1.333, at least 1 of 0.9\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
	refused(t, "other.jsonl: record 1: ", "peer", file(t, "other.jsonl", `{"format":"w4"}`))
	refused(t, "ratios: limit 0: wants types", "peer", "-check", file(t, "ratios.json", `[{"n":1}]`), path)
}
