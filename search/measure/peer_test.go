package measure

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

func peerRecord(typ string, n, threads int, ours, read float64, theirs ...float64) PeerRecord {
	r := PeerRecord{Type: typ, Target: "t", Mode: ModeDRAM, M: 10, K: 100, N: n, Threads: threads, Ours: Timed{Ns: ours}, ReadGBS: read}
	for _, ns := range theirs {
		r.Theirs = append(r.Theirs, Timed{Ns: ns})
	}
	return r.Complete()
}

func TestPeerRecord(t *testing.T) {
	r := peerRecord("A", 2, 1, 50, 0, 400, 125, 300)
	if r.Ratio != 2.5 || r.Ours.GWeightsS != 40 || r.Theirs[0].GWeightsS != 5 || r.Fastest().Ns != 125 {
		t.Errorf("%+v", r)
	}
	if r := peerRecord("A", 1, 1, 50, 0); r.Ratio != 0 {
		t.Errorf("nobody to compare with: ratio %v", r.Ratio)
	}
}

func TestCheckPeer(t *testing.T) {
	limits := []PeerLimit{
		{Types: []string{"A", "B", "none"}, Mode: ModeDRAM, N: 1, Threads: 1, Ratio: 2},
		{Types: []string{"A", "B"}, Mode: ModeDRAM, N: 1, Threads: 2, Scaling: 0.9},
	}
	records := []PeerRecord{
		peerRecord("A", 1, 1, 100, 20, 210), peerRecord("A", 1, 1, 100, 20, 190), peerRecord("A", 1, 1, 100, 20, 230),
		peerRecord("B", 1, 1, 100, 20, 190), peerRecord("B", 64, 1, 100, 20, 900),
		peerRecord("A", 1, 2, 55, 38, 190), peerRecord("B", 1, 2, 65, 38, 190),
	}
	var have []string
	for _, v := range CheckPeer(limits, records) {
		have = append(have, v.String())
	}
	want := `ok    t A dram n=1, threads 1, times as fast: 2.1, at least 1 of 2
FAIL  t B dram n=1, threads 1, times as fast: 1.9, at least 1 of 2
ok    t A dram n=1, threads 2 to 1, gain over that of reading: 0.9569, at least 1 of 0.9
FAIL  t B dram n=1, threads 2 to 1, gain over that of reading: 0.8097, at least 1 of 0.9`
	if got := strings.Join(have, "\n"); got != want {
		t.Errorf("have\n%s\nwant\n%s", got, want)
	}
	paired := slices.Clone(records[5:6]) // the fastest samples are of different rounds
	paired[0].PerByte = 0.48
	alone := slices.Clone(records[:1])
	alone[0].PerByte = 0.5
	if v := CheckPeer(limits[1:], append(alone, paired...)); len(v) != 1 || !v[0].Pass || v[0].Have != 0.96 || !strings.HasSuffix(v[0].Rule, "by rounds") || Scaling(v, paired[0]) == nil || Scaling(v, alone[0]) != nil {
		t.Errorf("by rounds: %v, want 0.96", v)
	}
	alone[0].PerByte = 0 // an older record
	if v := CheckPeer(limits[1:], append(alone, paired...)); len(v) != 1 || v[0].Have < 0.95 || v[0].Have > 0.959 || strings.HasSuffix(v[0].Rule, "by rounds") {
		t.Errorf("with one that does not say its rounds: %v, want that of the fastest samples, 0.957", v)
	}
	limits[0].Tuned = 2.2
	tuned := peerRecord("A", 1, 1, 100, 20, 210)
	tuned.Tuned = true
	vs := CheckPeer(limits[:1], append(slices.Clone(records[:3]), tuned))
	if want := "FAIL  t A dram n=1, threads 1, times as fast, tuned: 2.1, at least 1 of 2.2"; len(vs) != 2 || !vs[0].Pass || vs[1].String() != want {
		t.Errorf("default and tuned records: %v; want %s", vs, want)
	}
	if v := CheckPeer(limits[1:], records[5:6]); len(v) != 0 {
		t.Errorf("two threads without one: %v", v)
	}
	broken := peerRecord("A", 1, 1, math.NaN(), 20, 210)
	if v := CheckPeer(limits[:1], []PeerRecord{broken}); len(v) != 1 || v[0].Pass {
		t.Errorf("no number passes: %v", v)
	}
}

func TestParsePeerLimits(t *testing.T) {
	data, err := os.ReadFile("../../docs/lab/ratios.json")
	if err != nil {
		t.Fatal(err)
	}
	if limits, err := ParsePeerLimits(data); err != nil || len(limits) == 0 {
		t.Errorf("docs/lab/ratios.json: %v, %d limits", err, len(limits))
	}
	for _, text := range []string{
		``, `{}`, `[] []`, `[{}]`, `[{"types": ["A"], "n": 1, "threads": 1}]`, `[{"types": [], "n": 1, "threads": 1, "ratio": 1}]`,
		`[{"types": ["A"], "n": 1, "threads": 1, "scaling": 1}]`, `[{"types": ["A"], "n": 1, "threads": 2, "scaling": 1, "ratio": 1}]`,
		`[{"types": ["A"], "n": 1, "threads": 2, "scaling": 1, "tuned": 1}]`, `[{"types": ["A"], "n": 0, "threads": 1, "ratio": 1}]`, `[{"types": ["A"], "n": 1, "threads": 1, "ratio": 1, "other": 1}]`,
	} {
		if _, err := ParsePeerLimits([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
