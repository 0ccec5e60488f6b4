package tune

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"regexp"
	goruntime "runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/runtime/abi"
)

// faulty makes the first candidates of every batch do what no schedule may do.
type faulty struct {
	lower.Target
	faults []fault
}

// fault is a wrong body of a candidate, and the reason reported for it.
type fault struct{ body, reason string }

var faults = []fault{
	{"UNDEF", "crashed SIGILL"},
	{"endless:\n\tJMP endless", "timed out"},
	{fmt.Sprintf(map[string]string{
		"amd64": "MOVQ args+0(FP), AX\n\tMOVQ %d(AX), BX\n\tMOVB BX, -1(BX)",
		"arm64": "MOVD args+0(FP), R0\n\tMOVD %d(R0), R1\n\tMOVB R1, -1(R1)",
	}[goruntime.GOARCH], unsafe.Offsetof(abi.GemmArgs{}.Out)), "crashed SIGSEGV"},
	{"RET", "wrong"},
}

var candidateText = regexp.MustCompile(`TEXT ·k(\d+)_n1\(SB\).*\n`)

func (f faulty) File(pkg string, fs ...lower.Named) (lower.File, error) {
	file, err := f.Target.File(pkg, fs...)
	if err != nil || !bytes.Contains(file.Data, []byte("reference_n1")) { // only to be hashed
		return file, err
	}
	n := 0
	file.Data = candidateText.ReplaceAllFunc(file.Data, func(text []byte) []byte {
		if n++; n > len(f.faults) {
			return text
		}
		return fmt.Appendf(nil, "%s\t%s\n", text, f.faults[n-1].body)
	})
	return file, nil
}

// Candidates that crash, never end, write beside their buffers or compute something else are
// reported with their traces; none ends the search, none is among what it found.
func TestFaults(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	x.Target = faulty{x.Target, faults}
	x.Limit = 2 * time.Second
	var log []Trial
	x.Log = func(r Trial) { log = append(log, r) }
	const batch = 9
	out, err := x.Search(t.Context(), Options{Trials: 2 * batch, Batch: batch, Propose: 2, Rng: rand.New(rand.NewSource(1))})
	if err != nil || out.Ended != "trials" || len(log) != out.Trials {
		t.Fatalf("%v, ended by %s, %d trials, %d in the log", err, out.Ended, out.Trials, len(log))
	}
	bad := map[string]bool{}
	for i, r := range log {
		want := ""
		if i%batch < len(faults) {
			want = faults[i%batch].reason
			bad[r.Hash] = true
		}
		if r.Error != want || want != "" && !strings.Contains(r.Fault, r.Genes[0].Trace.String()) || (r.Cost > 0) != (want == "") {
			t.Errorf("trial %d: error %q, want %q; cost %v, report %q", i, r.Error, want, r.Cost, r.Fault)
		}
	}
	if len(out.Best) == 0 {
		t.Error("nothing was found")
	}
	for _, f := range out.Best {
		if bad[f.G.Hash] {
			t.Errorf("recorded: %s", f.G.what())
		}
	}
	for reason := range map[string]bool{"crashed SIGILL": true, "timed out": true, "crashed SIGSEGV": true, "wrong": true} {
		if out.Dropped[reason] < 2 {
			t.Errorf("%d dropped because %s", out.Dropped[reason], reason)
		}
	}
}

// One that cannot be assembled is reported, and does not hide the others of its batch.
func TestUnassembled(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	x.Target = faulty{x.Target, []fault{{"NONSENSE AX", ""}}}
	for _, c := range x.Seeds(t.Context())[:1] {
		p, err := x.point(c)
		if err != nil {
			t.Fatal(err)
		}
		r := x.measure(t.Context(), []*Candidate{c})[0]
		if Reason(r.Err) != "wrong" || !strings.Contains(r.Err.Error(), "NONSENSE") || !strings.Contains(r.Err.Error(), c.Genes[0].Trace.String()) {
			t.Errorf("%s: %v", p.ID, r.Err)
		}
	}
}

// A kernel is verified until it was right once.
func TestVerified(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	c, right := x.Seeds(t.Context())[0], x.Target
	if _, err := x.point(c); err != nil {
		t.Fatal(err)
	}
	wrong := faulty{right, []fault{{"RET", ""}}}
	for i, step := range []struct {
		target lower.Target
		reason string
	}{{wrong, "wrong"}, {wrong, "wrong"}, {right, ""}, {wrong, ""}} {
		x.Target = step.target
		r := x.measure(t.Context(), []*Candidate{c})[0]
		if r.Err == nil && step.reason != "" || r.Err != nil && Reason(r.Err) != step.reason {
			t.Errorf("measurement %d: %v, want %q", i, r.Err, step.reason)
		}
	}
}

// What cannot be measured for no fault of a candidate ends the search at once, and is no result.
func TestUnmeasured(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	x.Log = func(r Trial) { t.Errorf("logged %q", r.Error) }
	t.Setenv("TMPDIR", t.TempDir()+"/gone") // where the assembler would write
	out, err := x.Search(t.Context(), Options{Trials: 100, Rng: rand.New(rand.NewSource(1))})
	if err == nil || !strings.Contains(err.Error(), "gone") || out.Trials > 0 || len(out.Tried) > 0 || out.Ended != "interrupted" {
		t.Errorf("%v, %d trials, ended by %s", err, out.Trials, out.Ended)
	}
	for reason := range out.Dropped {
		if strings.HasPrefix(reason, "other") {
			t.Errorf("dropped because %s", reason)
		}
	}
}

// sabotaged makes kernels whose names match begin with something else.
type sabotaged struct {
	lower.Target
	names *regexp.Regexp
	body  string
}

// kill ends the process as the system does when memory runs out.
var kill = map[string]string{
	"amd64": "MOVQ $39, AX\n\tSYSCALL\n\tMOVQ AX, DI\n\tMOVQ $9, SI\n\tMOVQ $62, AX\n\tSYSCALL",
	"arm64": "MOVD $172, R8\n\tSVC\n\tMOVD $9, R1\n\tMOVD $129, R8\n\tSVC",
}[goruntime.GOARCH]

func (s sabotaged) File(pkg string, fs ...lower.Named) (lower.File, error) {
	file, err := s.Target.File(pkg, fs...)
	if err != nil || !bytes.Contains(file.Data, []byte("reference_n1")) { // only to be hashed
		return file, err
	}
	file.Data = s.names.ReplaceAllFunc(file.Data, func(text []byte) []byte { return fmt.Appendf(nil, "%s\t%s\n", text, s.body) })
	return file, nil
}

// A candidate whose process is killed each time, or that does not end in time, is to blame if the default schedules do not fare the same; else nothing is, and nothing
// is logged.
func TestBlame(t *testing.T) {
	const itself, both = `TEXT ·k(\d+)_n1\(SB\).*\n`, `TEXT ·(k\d+_n1|reference_n1)\(SB\).*\n`
	for _, c := range []struct{ names, body, want string }{
		{itself, kill, "crashed"},
		{both, kill, "other: cannot measure: worker: the default schedules: the process was ended: signal: killed, 3 times: " +
			"free memory or raise its limit, or measure smaller matrices (-m, -k)"},
		{itself, "endless:\n\tJMP endless", "timed out"},
		{both, "endless:\n\tJMP endless", "other: cannot measure: worker: the default schedules: did not return in 2s: the machine is too busy"},
	} {
		x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
		x.Limit = 2 * time.Second
		x.Target = sabotaged{x.Target, regexp.MustCompile(c.names), c.body}
		var log []Trial
		x.Log = func(r Trial) { log = append(log, r) }
		seeds := x.Seeds(t.Context())[:1]
		if _, err := x.point(seeds[0]); err != nil {
			t.Fatal(err)
		}
		r := x.measure(t.Context(), seeds)[0]
		reason, broken := "", (*Unmeasured)(nil)
		blamed := !errors.As(r.Err, &broken)
		if reason = Reason(r.Err); !blamed {
			reason = "other: " + r.Err.Error()
		}
		if reason != c.want || blamed == strings.HasPrefix(c.want, "other") || (len(log) > 0) != blamed {
			t.Errorf("%s: %v, want %q; logged %d", c.names, r.Err, c.want, len(log))
		}
	}
}
