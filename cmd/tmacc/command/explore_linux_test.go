package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/session"
)

// A process that is killed while it measures leaves no worker behind.
func TestExploreKilled(t *testing.T) {
	needMeasuring(t)
	if lacks(targets.ByName("amd64/avx2")) != "" {
		t.Skip("needs AVX2")
	}
	cmd := exec.Command(os.Args[0], "explore", "-plain", "-json", "-q", "-format", "w2", "-target", "avx2", "-trace", "../../../search/explore/testdata/w2.json",
		"-mode", "l2", "-m", "64", "-k", "256", "-only", "-log", session.NoLog, "-o", t.TempDir())
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1")
	in, begin := io.Pipe()
	defer begin.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go fmt.Fprintln(begin, "search 600")
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, `"event"`) {
		t.Fatalf("%q, %v", line, err)
	}
	workers := workersOf(cmd.Process.Pid)
	cmd.Process.Kill()
	begin.Close()
	cmd.Wait()
	gone(t, workers)
}

// A terminal that hangs up, is closed without a signal, or is not read any more ends the program, and so do signals. No worker is left.
func TestExploreGone(t *testing.T) {
	needMeasuring(t)
	if lacks(targets.ByName("amd64/avx2")) != "" {
		t.Skip("needs AVX2")
	}
	for _, c := range []struct {
		name     string
		controls bool
		end      func(s *screen)
	}{
		{"hangs up", true, func(s *screen) { s.keys.Close() }},
		{"is closed", false, func(s *screen) { s.keys.Close() }},
		{"SIGHUP", false, func(s *screen) { s.cmd.Process.Signal(syscall.SIGHUP) }},
		{"SIGTERM", false, func(s *screen) { s.cmd.Process.Signal(syscall.SIGTERM) }},
		{"q", true, func(s *screen) { s.press("q") }},
		{"not read, q", false, func(s *screen) { s.fill(); s.press("q"); s.endsUnread() }},
		{"not read, hangs up", true, func(s *screen) { s.fill(); s.keys.Close() }},
		{"not read, SIGTERM", false, func(s *screen) { s.fill(); s.cmd.Process.Signal(syscall.SIGTERM); s.endsUnread() }},
	} {
		s := newTerminal(t, c.controls, nil, "explore", "-format", "w2", "-target", "avx2", "-trace", "../../../search/explore/testdata/w2.json",
			"-mode", "l2", "-m", "64", "-k", "256", "-only", "-log", session.NoLog, "-o", t.TempDir())
		s.await("nest matmul")
		s.press(":search 600\r")
		workers := workersOf(s.cmd.Process.Pid)
		c.end(s)
		code := s.ended()
		if (code == 0) != (c.name == "q") || code > exitFailed {
			t.Errorf("%s: exit code %d, %q", c.name, code, s.text.String())
		}
		gone(t, workers)
	}
}

// fill presses keys, and reads nothing, until the program cannot write any more.
func (s *screen) fill() {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !s.writing(); {
		if time.Now().After(end) {
			s.t.Fatal("the program goes on writing")
		}
		for range 10 {
			s.press("z") // all panes, or one: a picture that has little in common with the one before
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// endsUnread waits for the end of the program, and reads nothing.
func (s *screen) endsUnread() {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.cmd.Wait()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		s.t.Fatal("the program waits for a terminal that is not read")
	}
}

// writing says that a write to the terminal does not end.
func (s *screen) writing() bool {
	time.Sleep(100 * time.Millisecond)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", s.cmd.Process.Pid))
	for _, path := range tasks {
		if data, _ := os.ReadFile(path); strings.HasPrefix(string(data), fmt.Sprintf("%d 0x1 ", syscall.SYS_WRITE)) {
			return true
		}
	}
	return false
}

// workersOf are the processes that one has started, at least one.
func workersOf(pid int) (workers []string) {
	for workers = children(pid); len(workers) == 0; workers = children(pid) { // it starts a worker for each batch
		time.Sleep(time.Millisecond)
	}
	return workers
}

// gone waits for the end of processes.
func gone(t *testing.T, workers []string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(workers) > 0; workers = living(workers) {
		if time.Now().After(end) {
			t.Fatalf("workers %v are left", workers)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// children are the processes that one has started.
func children(pid int) (out []string) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		data, _ := os.ReadFile(path) // it may have ended
		out = append(out, strings.Fields(string(data))...)
	}
	return out
}

// living are the processes that have not ended.
func living(pids []string) (out []string) {
	for _, pid := range pids {
		data, err := os.ReadFile("/proc/" + pid + "/stat")
		if _, state, ok := strings.Cut(string(data), ") "); err == nil && ok && !strings.HasPrefix(state, "Z") {
			out = append(out, pid)
		}
	}
	return out
}
