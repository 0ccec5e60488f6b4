package command

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/session"
)

// A log in a folder that is not there is refused before the search, and no folder is made.
func TestTuneRefusesLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	for _, log := range []string{filepath.Join(dir, "x"), filepath.Join(dir, "deep", "x")} {
		code, out, stderr := tmacc("tune", "-format", "w2", "-log", log)
		if code != exitUsage || out != "" || stderr != "tmacc: -log "+log+": "+filepath.Dir(log)+": no such file or directory\n" {
			t.Errorf("exit code %d: %s%s", code, out, stderr)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
}

// A search that cannot go on where another ended says so, and what became of the lock.
func TestTuneNotResumed(t *testing.T) {
	needMeasuring(t)
	code, _, stderr := tmacc("tune", "-q", "-resume", "-log", file(t, "log", "no log"), "-format", "w2", "-target", "avx2", "-mode", "l2", "-n", "1", "-m", "64", "-k", "256", "-o", t.TempDir())
	if code != exitUsage || !strings.HasPrefix(stderr, "tmacc: tune -resume: tuning log ") || !strings.HasSuffix(stderr, ": nothing was searched, and the lock is as it was\n") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// -json is one object per search, and nothing else on standard output.
func TestTuneJSON(t *testing.T) {
	needMeasuring(t)
	dir := t.TempDir()
	code, out, stderr := tmacc("tune", "-json", "-only", "-format", "w2", "-target", "avx2", "-mode", "l2", "-n", "1", "-m", "64", "-k", "256", "-trials", "8", "-o", dir, "-log", session.NoLog)
	var r session.Summary
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(stderr, "8 candidates measured") {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, stderr)
	}
	outcomes := []session.Outcome{session.Locked, session.None}
	if r.Product != "w2" || r.Target != "amd64/avx2" || r.Measured != 8 || r.Ended != "trials" || !slices.Contains(outcomes, r.Outcome) || (r.Lock != "") != (r.Outcome == session.Locked) || (r.Why == "") != (r.Outcome == session.Locked) {
		t.Errorf("%s", out)
	}
	if r.Ratio != nil && (len(r.Figures) != 1 || len(r.Traces) == 0 || r.Ratio.Low > r.Ratio.Median || r.Ratio.Median > r.Ratio.High || r.Ratio.Low <= 0) {
		t.Errorf("%s", out)
	}
}
