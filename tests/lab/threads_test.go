package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The ways to share a product are measured alone and beside a busy process, which
// ends with the command.
func TestThreads(t *testing.T) {
	needMeasuring(t)
	t.Setenv("LAB_TEST_MAIN", "1")
	out := ok(t, "threads", "-format", "w2", "-m", "256", "-k", "256", "-threads", "2", "-rounds", "1", "-busy", "1", "-q")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 8 || !strings.HasPrefix(lines[0], "| busy processes | sharing") || !strings.HasPrefix(lines[2], "| 0 | none | 1 |") || !strings.HasPrefix(lines[6], "| 1 | runtime | 2 |") {
		t.Error(out)
	}
}

// Formats with several codebooks are measured too.
func TestThreadsBooks(t *testing.T) {
	needMeasuring(t)
	ok(t, "threads", "-format", "cb2x4", "-m", "256", "-k", "256", "-threads", "1", "-rounds", "1", "-busy", "0", "-q")
}

// A busy process is busy until its input ends.
func TestBusyProcess(t *testing.T) {
	t.Setenv("LAB_TEST_MAIN", "1")
	stop, err := startBusy(2)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() { stop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("a process of " + filepath.Base(self) + " does not end")
	}
}
