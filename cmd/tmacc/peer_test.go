package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// TestPeerRefusals: what -peer refuses before it measures.
func TestPeerRefusals(t *testing.T) {
	for _, r := range []refusal{
		{2, `-peer foo: want ggml=FOLDER`, "bench -peer foo"},
		{2, `-peer ggml=: want ggml=FOLDER`, "bench -peer ggml="},
		{2, `-peer mkl=/tmp: want ggml=FOLDER`, "bench -peer mkl=/tmp"},
		{2, `-threads is for -peer`, "bench -threads 2"},
		{2, `-threads 0: this process may use 1 to`, "bench -peer ggml=x -threads 0"},
		{2, `-act-group is not for -peer`, "bench -peer ggml=x -act-group 32"},
		{2, `-act is not for -peer`, "bench -peer ggml=x -act f32"},
		{2, `ratios: limit 0: wants types`, "bench -peer ggml=x -check " + file(t, "ratios.json", `[{"n": 1}]`)},
	} {
		refused(t, r)
	}
	if _, _, stderr := tmacc("bench", "-peer", "ggml="+t.TempDir()); strings.Contains(stderr, "libraries are loaded on linux/amd64 only") {
		return // not here
	}
	refused(t, refusal{2, "none: no such folder; npm i", "bench -peer ggml=" + filepath.Join(t.TempDir(), "none")})
	refused(t, refusal{2, "has no libggml-cpu-*.so and no libggml-cpu.so; npm i", "bench -peer ggml=" + t.TempDir()})
}

// TestPeer measures small products beside ggml's real libraries.
func TestPeer(t *testing.T) {
	dir := os.Getenv("TMACC_GGML")
	if dir == "" {
		t.Skip("TMACC_GGML names no folder of ggml's libraries; .ci/run downloads them")
	}
	fast := file(t, "ratios.json", `[{"types": ["Q4_0"], "n": 1, "threads": 1, "ratio": 1e9}]`)
	code, out, stderr := tmacc("bench", "-q", "-json", "-peer", "ggml="+dir, "-format", "Q4_0,Q2_K", "-mode", "l3", "-m", "64", "-k", "512", "-n", "1,32", "-check", fast)
	if code != 1 || !strings.Contains(stderr, "1 of 1 limits are missed") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want one for each type and number of activations:\n%s", len(lines), out)
	}
	for i, line := range lines {
		var r measure.PeerRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if want := []string{"Q4_0", "Q4_0", "Q2_K", "Q2_K"}[i]; r.Type != want || r.N != []int{1, 32}[i%2] || r.M != 64 || r.K != 512 || r.Threads != 1 {
			t.Errorf("record %d: %+v", i, r)
		}
		if r.Ratio <= 0 || len(r.Theirs) == 0 || r.Theirs[0].Buffer != "CPU" || !strings.HasPrefix(r.Peer, "ggml 0.") || !strings.HasPrefix(r.Library, "libggml-cpu") {
			t.Errorf("record %d: %+v", i, r)
		}
		for _, x := range append(r.Theirs, r.Ours) {
			if x.Ns <= 0 || x.Error <= 0 || x.Error > 0.05 {
				t.Errorf("record %d: %+v", i, x)
			}
		}
		if want := map[string]int{"Q4_0": 32, "Q2_K": 256}[r.Type]; r.Theirs[0].ActGroup != want {
			t.Errorf("%s: ggml shares scales among %d activations, want %d", r.Type, r.Theirs[0].ActGroup, want)
		}
	}
	text := ok(t, "bench", "-q", "-peer", "ggml="+dir, "-format", "TQ2_0", "-mode", "dram", "-m", "2048", "-k", "4096", "-n", "1")
	if !strings.HasPrefix(text, "ggml 0.") || !strings.Contains(text, "times ggml") || strings.Count(text, "\n") != 3 {
		t.Errorf("text:\n%s", text)
	}
	refused(t, refusal{2, `type F16: is not one that can be read`, "bench -peer ggml=" + dir + " -q -format F16"})
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
	page := ok(t, "bench", "-md", path, "-check", limits)
	for _, line := range []string{
		"* ggml 0, lib.so; tmacc c0, target avx2; today: here\n",
		"| A | `f` | 4 | 1 | 16.8 | 5.6 | 8.0 | 2.10 | 3 | 0.50 % | 0.00 % |\n",
		"| A | `f` | 4 | 2 | 33.6 | 16.8 |  | 2.00 |  | 0.50 % | 0.00 % |\n",
		"| A | 2 | 16.8 | 30.0 | 2.00 | 1.50 | 1.33 | 2.10 |\n",
		"| A tuned | `f` | 4 | 1 | 33.6 | 5.6 | 8.4 | 4.00 | 4 | 0.50 % | 0.00 % |\n",
		"2 of 3 ratios that are asked hold",
		"ok    avx2 A dram n=1, threads 1, times as fast, tuned: 4, at least 1 of 4\n",
		"FAIL  avx2 A dram n=1, threads 1, times as fast: 2.1, at least 1 of 3\n",
		"ok    avx2 A dram n=1, threads 2 to 1, gain over that of reading: 1.333, at least 1 of 0.9\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
	for _, r := range []refusal{
		{2, `nofile: no such file`, "bench -md nofile"},
		{2, `-md prints records of earlier runs: give it without -peer`, "bench -md x -peer ggml=x"},
		{2, `is empty: want what tmacc bench -json printed`, "bench -md " + file(t, "empty.jsonl", "")},
		{2, `record 1: `, "bench -md " + file(t, "other.jsonl", `{"format":"w4"}`)},
		{2, `record 1: not one of bench -peer -json`, "bench -md " + file(t, "none.jsonl", `{"type":"A"}`)},
	} {
		refused(t, r)
	}
}

// A product that is not the definition's is an error that says whose it is, not a
// figure.
func TestPeerDisagrees(t *testing.T) {
	const m, k = 32, 256
	data, err := blocks.Random(rand.New(rand.NewPCG(1, 1)), "Q4_0", m, k)
	if err != nil {
		t.Fatal(err)
	}
	w, src, err := blocks.Read("Q4_0", data, m, k)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, k)
	for i := range x {
		x[i] = float32(i%13) - 6
	}
	c := cell{typ: "Q4_0", at: bench.Place{M: m, K: k}, n: 1, weight: w, src: src}
	for off, want := range map[float64]string{0: "", 0.02: "ggml, buffer type CPU, 32 x 256, 1 activations: measure: the product is another"} {
		e := &entry{out: make([]float32, m), timed: measure.Timed{Buffer: "CPU", ActGroup: 32}}
		e.run = func(int) (timing.Work, error) {
			return timing.Work{Run: func() {
				for r := range e.out {
					sum := 0.0
					for j, v := range x {
						sum += float64(v) * float64(src.Value(w, r, j, k))
					}
					e.out[r] = float32(sum * (1 + off))
				}
			}}, nil
		}
		err := c.agree(x, []*entry{e})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("off by %v: error %v; want %q", off, err, want)
		}
	}
}

// What threads gain is compared round by round: of rounds with half the bandwidth, too, without those that one of both
// did not take, by the median.
func TestBeside(t *testing.T) {
	none := math.NaN()
	probes := []measure.Probe{{Amount: 100}, {Amount: 100}}
	samples := []timing.Sample{{Min: 11, Rounds: []float64{11, 22, 22, 22, 22}}, {Min: 10, Rounds: []float64{10, 20, none, 25, 10}}}
	best, perByte := beside(1000, []float64{100, 200, 1, 250, 10}, probes, samples)
	if best != 10 || perByte != 1 {
		t.Errorf("%v GB/s, %v weights per byte; want 10 and 1", best, perByte)
	}
	if _, perByte := beside(1000, []float64{none, none, 1, none, none}, probes, samples); perByte != 0 {
		t.Errorf("without a round of both: %v weights per byte", perByte)
	}
}
