package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/session"
)

// denying, as the first argument of this program, makes it run the others where memory may not become executable, as systemd's
// MemoryDenyWriteExecute does.
const denying = "denying"

var _ = denied()

// denied does not return in a process that is to run something else.
func denied() bool {
	if len(os.Args) > 2 && os.Args[1] == denying {
		if unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != nil {
			os.Exit(cannotDeny)
		}
		panic(syscall.Exec(os.Args[2], os.Args[2:], os.Environ()))
	}
	return false
}

// cannotDeny is the status of a process that this system cannot deny anything.
const cannotDeny = 77

// tmaccDenied runs the command where memory may not become executable.
func tmaccDenied(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{denying, os.Args[0]}, args...)...)
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1")
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	cmd.Run()
	if code = cmd.ProcessState.ExitCode(); code == cannotDeny {
		t.Skip("needs Linux 6.3: PR_SET_MDWE")
	}
	return code, out.String(), err.String()
}

const why = "machine code cannot be mapped executable here: mprotect: permission denied: a policy may forbid it"

// Where memory may not become executable, compile checks kernels in a program that go build links, and tune and compare
// measure them in one. They say so. A command that measures in its own process ends at once with the reason and what helps.
func TestDenied(t *testing.T) {
	needMeasuring(t)
	dir := t.TempDir()
	code, out, stderr := tmaccDenied(t, "compile", "-q", "-json", "-format", "w2", "-target", "avx2", "-o", filepath.Join(dir, "k"))
	var r delivery.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || strings.Count(stderr, "\n") != 1 ||
		!strings.HasPrefix(stderr, "tmacc: kernels are checked in a program that go build links, and not measured: "+why) {
		t.Fatalf("compile: exit code %d, %v: %s%s", code, err, out, stderr)
	}
	for _, k := range r.Products[0].Kernels {
		if k.Exact != delivery.Checked || k.Speed != nil {
			t.Errorf("compile: %+v", k)
		}
	}
	small := []string{"-q", "-format", "w2", "-target", "avx2", "-mode", "l2", "-n", "1", "-m", "64", "-k", "256"}
	log := filepath.Join(dir, "tuning.db")
	code, out, stderr = tmaccDenied(t, append([]string{"tune", "-only", "-trials", "2", "-o", dir, "-log", log}, small...)...)
	if code != 0 || !strings.Contains(out, ": 2 candidates measured") || strings.Contains(out, "other: ") || stderr != "tmacc: kernels are linked by go build, which takes longer: "+why+", such as systemd's MemoryDenyWriteExecute, SELinux or seccomp\n" {
		t.Errorf("tune: exit code %d\n%s%s", code, out, stderr)
	}
	if n := len(logged(t, log)); n != 2 {
		t.Errorf("tune: %d candidates are logged", n)
	}
	trace := traceFile(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-stage", "trace"))
	code, out, stderr = tmaccDenied(t, append([]string{"compare", "-trace", trace}, small...)...)
	if code != 0 || !strings.Contains(out, "  "+trace+"\n") || !strings.Contains(stderr, why) {
		t.Errorf("compare: exit code %d\n%s%s", code, out, stderr)
	}
	for _, args := range [][]string{{"bench", "-format", "w2"}, {"host", "-ceilings"}} {
		code, _, stderr := tmaccDenied(t, args...)
		if code != exitUsage || !strings.Contains(stderr, "tmacc: "+args[0]+": "+why) || !strings.HasSuffix(stderr, ": it measures kernels in its own process, so allow that; compile, tune and compare do without\n") {
			t.Errorf("%s: exit code %d, %s", args[0], code, stderr)
		}
	}
}

// interruptGroup sends one interrupt to all processes of run, as a terminal does, while its linked program writes. The text has to end
// in order, with its figures.
func interruptGroup(t *testing.T) (code int, said string) {
	cmd := exec.Command(os.Args[0], "run", "-p", talePrompt, "-n", "0", "-temp", "100")
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1", "TMACC_JIT=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	text := bufio.NewReader(out)
	if _, err := text.ReadString(','); err != nil { // of the given text
		t.Error(err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	io.Copy(io.Discard, text)
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// An interrupt while a program is built ends the command, and is not said to be a fault of the build.
func TestRunLinkInterrupted(t *testing.T) {
	needMeasuring(t)
	dir := t.TempDir()
	real, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	script := "#!/bin/sh\ncase \"$*\" in *-overlay*) touch '" + dir + "/builds'; exec sleep 60;; esac\nexec '" + real + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "run", "-n", "1")
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1", "TMACC_JIT=off", "TMACC_CACHE="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for err = fs.ErrNotExist; err != nil && time.Since(began) < 5*time.Minute; time.Sleep(10 * time.Millisecond) {
		_, err = os.Stat(dir + "/builds")
	}
	if err != nil {
		t.Errorf("nothing is built: %v", err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code, said := cmd.ProcessState.ExitCode(), stderr.String(); code != exitFailed || !strings.HasSuffix(said, "tmacc: interrupted\n") || strings.Contains(said, "go build") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

// Where memory may not become executable, run builds a program with the kernels once and keeps it: the second time it needs no Go.
func TestRunDenied(t *testing.T) {
	needMeasuring(t)
	t.Setenv("TMACC_CACHE", t.TempDir())
	args := []string{"run", "-p", talePrompt, "-n", "8"}
	code, first, stderr := tmaccDenied(t, args...)
	if code != 0 || !strings.HasPrefix(first, talePrompt) || !strings.Contains(stderr, "(linked)") {
		t.Fatalf("exit code %d\n%s%s", code, first, stderr)
	}
	t.Setenv("PATH", "")
	code, again, stderr := tmaccDenied(t, args...)
	if code != 0 || again != first || strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "(linked)") {
		t.Errorf("again: exit code %d\n%s%s", code, again, stderr)
	}
	if code, _, stderr := tmaccDenied(t, "run", "-context", "5000"); code != exitUsage || !strings.Contains(stderr, "tmacc: -context is 5000") {
		t.Errorf("refused: exit code %d\n%s", code, stderr)
	}
	code = 0
	for try := 0; code == 0 && try < 10; try++ { // a text of 512 tokens may end before the interrupt
		code, stderr = interruptGroup(t)
	}
	if code != exitFailed || !strings.HasSuffix(stderr, "\ntmacc: interrupted\n") || !strings.Contains(stderr, "prefill of") {
		t.Errorf("interrupted: exit code %d\n%s", code, stderr)
	}
	t.Setenv("TMACC_CACHE", t.TempDir())
	code, slow, stderr := tmaccDenied(t, args...)
	if code != 0 || slow != first || strings.Count(stderr, "runs in pure Go") != 1 || !strings.Contains(stderr, why) || !strings.Contains(stderr, "install Go") {
		t.Errorf("without Go: exit code %d\n%s%s", code, slow, stderr)
	}
}

// compare ends at the first schedule that this machine cannot measure, instead of saying of each that it failed.
func TestCompareUnmeasured(t *testing.T) {
	needMeasuring(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
	code, out, stderr := tmacc("compare", "-q", "-format", "w2", "-target", "avx2", "-mode", "l2", "-m", "64", "-k", "256", "-near")
	if code != exitUsage || out != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tmacc: cannot measure: ") || !strings.Contains(stderr, "gone") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
}

// tune ends before it searches if this machine cannot measure, and says so once.
func TestTuneUnmeasured(t *testing.T) {
	needMeasuring(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
	code, out, stderr := tmacc("tune", "-q", "-format", "w2,w4", "-target", "avx2", "-mode", "l2", "-n", "1", "-m", "64", "-k", "256", "-log", session.NoLog, "-o", t.TempDir())
	if code != exitUsage || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "gone") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
}
