package measure

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/amd64"
)

func readLimits(t *testing.T) Limits {
	t.Helper()
	data, err := os.ReadFile("../../docs/lab/limits.json")
	if err != nil {
		t.Fatal(err)
	}
	l, err := ParseLimits(data)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestParseLimits(t *testing.T) {
	l := readLimits(t)
	if r := l.row("avx512vbmi", "w4-g128-f16"); r.L2 != 107 || r.DRAMShare != 0.95 || r.GEMM != 0 {
		t.Errorf("w4-g128-f16 is %+v", r)
	}
	if l.PrepareCycles["int8_per_row"] != 727 || l.Instructions["H w2 avx2"] != 125 {
		t.Errorf("limits are %+v", l)
	}
	for _, c := range []struct{ text, want string }{
		{`{"avx2": {"w2": {"bpw": 2, "l4": 3}}}`, `unknown field "l4"`},
		{`{"neon": {}}`, `unknown field "neon"`},
		{`{} {}`, "after top-level value"},
		{`{"avx2": {"w2": {"bpw": 2, "l2": -3}}}`, "avx2 w2"},
		{`{"avx2": {"w2": {"l2": 3}}}`, "bpw"},
		{`{`, "limits: "},
	} {
		if _, err := ParseLimits([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.text, err, c.want)
		}
	}
}

// Every rule finds its limit, and its mix in the tables of every machine with
// that target.
func TestRulesName(t *testing.T) {
	l := readLimits(t)
	for _, r := range rules {
		for _, row := range r.rows {
			if r.limit(rounds{row: row, limits: l}) == 0 {
				t.Errorf("%s: %+v has no limit", r.name, row)
			}
			if _, _, ok := limitMix(row.target, row.mix); (row.mix != "") != ok {
				t.Errorf("%s: %+v has no mix", r.name, row)
			}
		}
	}
}

// A core that runs every mix as the one of the limits does, with the same limits.
func fullHost() Ceilings {
	c := Ceilings{ClockGHz: 4, Dot: map[string]Ceiling{}, Mix: map[string]map[string]Ceiling{}}
	for target, peak := range map[string]float64{vbmi: 512, vnni: 256, avx2: 256} {
		c.Dot[target], c.Mix[target] = Ceiling{Rate: peak}, map[string]Ceiling{}
		t := amd64.ByName(target)
		for _, m := range mixes(t) {
			c.Mix[target][m.Name] = Ceiling{Rate: 4 * m.WeightsPerCycle(m.PerCycle, t.Machine().VecBits/8)}
		}
	}
	return c
}

// goodRecords satisfy every rule, five times.
func goodRecords(l Limits) []Record {
	var out []Record
	add := func(target, format, mode string, n int, share, perCycle float64) {
		r := Record{Format: format, Target: target, Mode: mode, M: 4096, K: 4096, N: n, Family: "dot", Threads: 1,
			Ns: 1e6, ClockGHz: 4, Share: share, WeightsPerCycle: perCycle, BitsPerWeight: 2, GWeightsS: 8, GBS: 2, CeilingGBS: 1000}
		switch format {
		case "w4", "w4-g32":
			r.PrepareNs = 200 * float64(n)
		case "w1":
			r.PrepareNs = 800 * float64(n)
		}
		out = append(out, r)
	}
	for range Rounds {
		for _, f := range []string{"w1", "w2", "w3", "w4", "w8", "ternary", FormatCodebook6, FormatW5, "w4-g32"} {
			add(vbmi, f, ModeDRAM, 1, 0.9, 0)
			add(vbmi, f, ModeDRAM, 4, 0.9, 0)
		}
		for _, f := range []string{"w2", "w4", "w4-g32", "ternary"} {
			add(vbmi, f, ModeL3, 256, 0.85, 0)
		}
		add(vbmi, "w1", ModeL3, 256, 2, 0)
		for _, row := range rules[1].rows {
			add(row.target, row.format, ModeL2, 1, 0.5, l.row(row.target, row.limit).L2)
		}
		add(vbmi, "w1", ModeL2, 1, 0.5, 100)
		worst := &out[len(out)-1]
		worst.Extreme, worst.Ns = true, 2*worst.Ns
	}
	return out
}

func failed(vs []Verdict) []string {
	var out []string
	for _, v := range vs {
		if v.Failed() {
			out = append(out, v.String())
		}
	}
	return out
}

func TestCheckPasses(t *testing.T) {
	l := readLimits(t)
	vs := Check(l, goodRecords(l), fullHost(), false)
	if f := failed(vs); len(f) > 0 {
		t.Errorf("failed:\n%s", strings.Join(f, "\n"))
	}
	n := 0
	for _, r := range rules {
		if !r.tuned {
			n += len(r.rows)
		}
	}
	if len(vs) != n-1 {
		t.Errorf("%d verdicts of %d rows, one of tuned schedules only", len(vs), n)
	}
}

// tunedRecords satisfy the rules of tuned schedules.
func tunedRecords(l Limits) []Record {
	out := goodRecords(l)
	for i := range out {
		if r := &out[i]; r.Format == "w1" {
			if r.PrepareNs /= 2; r.N == 256 {
				r.Share = 2.5
			}
		}
	}
	for range Rounds {
		for _, row := range cached {
			limit := l.row(row.target, row.limit)
			r := Record{Format: row.format, Target: row.target, Mode: ModeL3, N: 1, Ns: 1e6, ClockGHz: 4, WeightsPerCycle: limit.L3,
				BitsPerWeight: limit.Bits, GWeightsS: 8, GBS: limit.Bits, CeilingGBS: 1000}
			out = append(out, r)
			if r.Mode, r.N = ModeDRAM, 256; limit.GEMM > 0 {
				r.M, r.K, r.Share = 4096, 4096, 0.9
				r.PrepareNs = 1e5
				r.Ns = 4096*4096*256/(limit.GEMM*4) - 1e5
				if row.format == "w1" {
					r.Share = 2
				}
				out = append(out, r)
			}
		}
	}
	return out
}

// Tuned schedules have stricter limits than default ones; a limit without a tuned value holds for both.
func TestCheckTuned(t *testing.T) {
	l, host := readLimits(t), fullHost()
	if f := failed(Check(l, tunedRecords(l), host, true)); len(f) > 0 {
		t.Errorf("failed:\n%s", strings.Join(f, "\n"))
	}
	usual := Check(l, tunedRecords(l), host, false)
	if tuned := Check(l, tunedRecords(l), host, true); len(tuned) < len(usual)+30 {
		t.Errorf("%d verdicts, %d of default schedules", len(tuned), len(usual))
	}
	for _, c := range []struct {
		target, format, mode string
		n                    int
		change               func(r *Record)
		want                 []string
	}{
		{vbmi, "w8", ModeDRAM, 1, func(r *Record) { r.Share = 0.89 }, []string{"FAIL  avx512vbmi w8 dram share: 0.89, at least 0.9 of 1"}},
		{vbmi, "w3", ModeDRAM, 1, func(r *Record) { r.Share = 0.87 }, nil},
		{vbmi, "w4-g32", ModeDRAM, 1, func(r *Record) { r.Share = 0.84 }, []string{"FAIL  avx512vbmi w4-g32 dram share: 0.84, at least 0.85 of 1"}},
		{vbmi, "w1-f32act", ModeL2, 1, func(r *Record) { r.WeightsPerCycle *= 0.8 }, nil},
		{avx2, "w2", ModeL2, 1, func(r *Record) { r.WeightsPerCycle *= 0.94 }, []string{"FAIL  avx2 w2 l2 weights/cycle: 32.9, at least 0.95 of 35 (35 on this host)"}},
		{vbmi, "w8", ModeL2, 1, func(r *Record) { r.CeilingGBS, r.WeightsPerCycle = 160, 38.5 }, nil}, // 40 bytes a cycle
		{vbmi, "w8", ModeL2, 1, func(r *Record) { r.CeilingGBS, r.WeightsPerCycle = 160, 37.5 }, []string{"FAIL  avx512vbmi w8 l2 weights/cycle: 37.5, at least 0.95 of 44 (40 on this host)"}},
		{vbmi, "w8", ModeL2, 1, func(r *Record) { r.CeilingGBS = 0 }, nil},
		{vbmi, "w8", ModeL2, 1, func(r *Record) { r.CeilingGBS, r.WeightsPerCycle = 0, 40 }, []string{"FAIL  avx512vbmi w8 l2 weights/cycle: 40, at least 0.95 of 44"}},
		{vbmi, "w2", ModeL3, 1, func(r *Record) { r.CeilingGBS, r.WeightsPerCycle = 50, 48 }, nil},
		{vbmi, "w2", ModeL3, 1, func(r *Record) { r.CeilingGBS, r.WeightsPerCycle = 50, 47 }, []string{"FAIL  avx512vbmi w2 l3 weights/cycle: 47, at least 0.95 of 102 (50 on this host)"}},
		{vbmi, "w2", ModeL3, 1, func(r *Record) { r.CeilingGBS, r.WeightsPerCycle, r.GBS = 50, 38.5, 2.5 }, nil}, // half a bit of scales
		{vbmi, "w4-g32", "", 256, func(r *Record) { r.Share = 0.61 }, []string{"FAIL  avx512vbmi w4-g32 gemm share: 0.61, at least 0.62 of 1"}},
		{vbmi, "w1", "", 256, func(r *Record) { r.Share = 1.7 }, []string{"FAIL  avx512vbmi w1 gemm over the int8 peak, prepared: 1.604, at least 1.75 of 1"}},
		{vnni, "w4", "", 256, func(r *Record) { r.Ns *= 1.1 }, []string{"FAIL  avxvnni w4 gemm weights/cycle, prepared: 48.2, at least 0.97 of 53 (53 on this host)"}},
		{vnni, "w4", "", 256, func(r *Record) { r.PrepareNs *= 100 }, []string{"FAIL  avxvnni w4 gemm weights/cycle, prepared: 35.6, at least 0.97 of 53 (53 on this host)"}},
		{vbmi, "w4", "", 1, func(r *Record) { r.PrepareNs *= 1.25 }, []string{"FAIL  avx512vbmi w4 prepare cycles of 4096 activations: 1000, at most 1.3 of 727"}},
	} {
		records := tunedRecords(l)
		for i := range records {
			if r := &records[i]; r.Target == c.target && r.Format == c.format && r.N == c.n && (c.mode == "" || r.Mode == c.mode) {
				c.change(r)
			}
		}
		if f := failed(Check(l, records, host, true)); !slices.Equal(f, c.want) {
			t.Errorf("%s %s: failed\n%s\nwant\n%s", c.target, c.format, strings.Join(f, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestCheckFails(t *testing.T) {
	l := readLimits(t)
	is := func(r *Record, target, format, mode string, n int) bool {
		return r.Target == target && r.Format == format && r.Mode == mode && r.N == n
	}
	for _, c := range []struct {
		name   string
		change func(round int, r *Record)
		want   []string // exactly these verdicts fail
	}{
		{"slow from DRAM in three rounds", func(round int, r *Record) {
			if round < 3 && is(r, vbmi, "w3", ModeDRAM, 1) {
				r.Share = 0.79
			}
		}, []string{"FAIL  avx512vbmi w3 dram share: 0.79, at least 0.8 of 1"}},
		{"slow in two", func(round int, r *Record) {
			if round < 2 && is(r, vbmi, "w3", ModeDRAM, 1) {
				r.Share = 0.79
			}
		}, nil},
		{"too fast", func(_ int, r *Record) {
			if is(r, vbmi, "w8", ModeDRAM, 1) {
				r.Share = 1.03
			}
		}, []string{"FAIL  avx512vbmi w8 dram share: a share of 1.030 is an error of the probe"}},
		{"faster than dot products", func(_ int, r *Record) {
			if r.Target != vbmi || r.N != ManyColumns {
				return
			}
			switch r.Format {
			case "ternary":
				r.Share, r.Family = 1.03, "table"
			case "w2":
				r.Share, r.Family = 1.03, "dot"
			}
		}, []string{"FAIL  avx512vbmi w2 gemm share: a share of 1.030 is an error of the probe"}},
		{"missing", func(_ int, r *Record) {
			if is(r, avx2, "w4", ModeL2, 1) {
				r.Format = "w44"
			}
		}, []string{"FAIL  avx2 w4 l2 weights/cycle: 0 measurements, want 5"}},
		{"a round is missing", func(round int, r *Record) {
			if round == 0 && is(r, avx2, "w4", ModeL2, 1) {
				r.Threads = 2
			}
		}, []string{"FAIL  avx2 w4 l2 weights/cycle: 4 measurements, want 5"}},
		{"slow in cache", func(_ int, r *Record) {
			if is(r, avx2, "w2", ModeL2, 1) {
				r.WeightsPerCycle = 26
			}
		}, []string{"FAIL  avx2 w2 l2 weights/cycle: 26, at least 0.75 of 35 (35 on this host)"}},
		{"four columns", func(_ int, r *Record) {
			if is(r, vbmi, "w4", ModeDRAM, 4) {
				r.Ns *= 1.3
			}
		}, []string{"FAIL  avx512vbmi w4 time of N=4 over N=1, dram: 1.3, at most 1.2 of 1 (0.1311 on this host)"}},
		{"preparing", func(_ int, r *Record) {
			r.PrepareNs *= 2
		}, []string{"FAIL  avx512vbmi w4 prepare cycles of 4096 activations: 1600, at most 2 of 727",
			"FAIL  avx512vbmi w1 prepare cycles of 4096 activations and their tables: 6400, at most 2 of 1805"}},
		{"outliers", func(_ int, r *Record) {
			if r.Extreme {
				r.Ns *= 1.25
			}
		}, []string{"FAIL  avx512vbmi w1 speed with all |activation| = 127 over the usual one, l2: 0.4, at least 0.45 of 1"}},
	} {
		records := goodRecords(l)
		perRound := len(records) / Rounds
		for i := range records {
			c.change(i/perRound, &records[i])
		}
		if f := failed(Check(l, records, fullHost(), false)); !slices.Equal(f, c.want) {
			t.Errorf("%s: failed\n%s\nwant\n%s", c.name, strings.Join(f, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// On a core with half the vector ports, half the cycles' worth of a limit is
// enough, but no less.
func TestCheckScales(t *testing.T) {
	l := readLimits(t)
	host := fullHost()
	mix := host.Mix[avx2]["and+dot"]
	mix.Rate /= 2
	host.Mix[avx2]["and+dot"] = mix
	for _, c := range []struct {
		perCycle float64
		pass     bool
	}{{13.2, true}, {13.0, false}} {
		records := goodRecords(l)
		for i := range records {
			if records[i].Target == avx2 && records[i].Format == "w2" {
				records[i].WeightsPerCycle = c.perCycle
			}
		}
		for _, v := range Check(l, records, host, false) {
			if v.Target == avx2 && v.Format == "w2" && (v.Pass != c.pass || v.Limit != 35 || v.Scaled != 17.5) {
				t.Errorf("%v: %v", c.perCycle, v)
			}
		}
	}
}

func TestCheckSkips(t *testing.T) {
	l := readLimits(t)
	host := fullHost()
	delete(host.Dot, vbmi)
	for _, v := range Check(l, nil, host, false) {
		if v.Skipped != (v.Target == vbmi) || v.Failed() == v.Skipped {
			t.Errorf("%v", v)
		}
	}
}
