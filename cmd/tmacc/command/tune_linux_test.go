package command

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tmacc/tmacc/search/worker/loopback"
)

// Ctrl-C, which the terminal sends to all processes of the group, ends a search on another machine with the best so far
// measured again there.
func TestTuneRunnerInterrupted(t *testing.T) {
	needMeasuring(t)
	server := loopback.Start(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "tuning.db")
	cmd, out, stderr := tuneCommand(nil, "-format", "w2", "-o", dir, "-log", log, "-runner", server.URL)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); len(logged(t, log)) < 10; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			cmd.Process.Kill()
			cmd.Wait()
			t.Fatalf("nothing is measured: %s%s", out, stderr)
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if text := out.String(); err != nil || !strings.Contains(text, "ended by interrupted") || strings.Count(text, "best: ") != 1 || stderr.Len() > 0 {
		t.Errorf("%v\n%s%s", err, text, stderr)
	}
}
