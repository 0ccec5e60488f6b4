package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// screen is a terminal of its own that a process of tmacc has, and what it shows.
type screen struct {
	t     *testing.T
	keys  *os.File
	shown chan []byte
	text  bytes.Buffer
	cmd   *exec.Cmd
}

// newScreen runs tmacc run on a terminal, which controls it.
func newScreen(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	return newTerminal(t, true, env, append([]string{"run"}, args...)...)
}

// newTerminal runs tmacc on a terminal. Only one that controls a process sends it a signal when it closes.
func newTerminal(t *testing.T, controls bool, env []string, args ...string) *screen {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("needs pseudo terminals: ", err)
	}
	t.Cleanup(func() { keys.Close() })
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	s := &screen{t: t, keys: keys, shown: make(chan []byte, 1), cmd: exec.Command(os.Args[0], args...)}
	s.cmd.Env = append(append(os.Environ(), "TMACC_TEST_MAIN=1", "TERM=xterm"), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: controls}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	go s.watch()
	return s
}

func (s *screen) watch() {
	defer close(s.shown)
	for b := make([]byte, 4096); ; {
		n, err := s.keys.Read(b)
		if err != nil {
			return
		}
		s.shown <- bytes.Clone(b[:n])
	}
}

// await waits until a text is shown, and forgets what was shown so far.
func (s *screen) await(text string) {
	s.t.Helper()
	late := time.After(time.Minute)
	for !strings.Contains(s.text.String(), text) {
		select {
		case b, ok := <-s.shown:
			if s.text.Write(b); !ok && !strings.Contains(s.text.String(), text) {
				s.t.Fatalf("the program has ended after %q, want %q", s.text.String(), text)
			}
		case <-late:
			s.t.Fatalf("%q, want %q", s.text.String(), text)
		}
	}
	_, rest, _ := strings.Cut(s.text.String(), text)
	s.text.Reset()
	s.text.WriteString(rest)
}

func (s *screen) press(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ended waits for the end of the program.
func (s *screen) ended() int {
	for b := range s.shown {
		s.text.Write(b)
	}
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// Ctrl-C stops an answer and not the program; at the prompt it says how to leave, and twice it leaves.
func TestTerminal(t *testing.T) {
	template := file(t, "long.jinja", "It was a cold morning, and {{ messages[-1].content }}")
	args := []string{"-template", template, "-temp", "100", "-logit-bias", "0-inf"}
	s := newScreen(t, []string{pureGo, "NO_COLOR="}, args...) // slow enough to be stopped
	s.await("/help lists the commands")
	s.await("> ")
	s.press("he was not\r")
	s.await("\n") // of the line
	s.await(" ")  // of the answer
	s.press("\x03")
	s.await("tmacc: stopped")
	s.await("> ")
	s.press("/nope\r")
	s.await("unknown command /nope")
	s.await("> ")
	s.press("begun\x03")
	s.await("Ctrl-D, /exit or a second Ctrl-C leaves.")
	s.await("> ")
	if strings.Contains(s.text.String(), "\x1b[3") {
		t.Errorf("%q has colours, and NO_COLOR is set", s.text.String())
	}
	s.press("\x03")
	if code := s.ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	endless := file(t, "endless.jinja", "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99) %}{% endfor %}{% endfor %}{% endfor %}")
	s = newScreen(t, []string{pureGo, "NO_COLOR="}, "-template", endless)
	s.await("> ")
	s.press("x\r")
	s.await("\n")
	s.await("too much work: the template may never end")
	s.await("> ")
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.ended(); code != exitFailed || !strings.Contains(s.text.String(), "interrupted") {
		t.Errorf("SIGTERM: exit code %d, %q", code, s.text.String())
	}
	s = newScreen(t, []string{pureGo}, args...)
	s.await("\x1b[32m> ")
	s.press("\x04")
	if code := s.ended(); code != 0 {
		t.Errorf("Ctrl-D: exit code %d", code)
	}
}

// The line of the progress is gone when results are printed.
func TestProgressEnds(t *testing.T) {
	for first, args := range map[string]string{
		"package ":  "compile -no-check -module none -format w2 -target avx2 -o " + t.TempDir(),
		"1 in l2":   "show -format w2 -target avx2 -why -most 1",
		"a call of": "show -format w2 -target avx2 -cost",
	} {
		s := newTerminal(t, false, []string{"TMACC_CACHE=" + t.TempDir()}, strings.Fields(args)...)
		code, shown := s.ended(), s.text.String()
		before, _, found := strings.Cut(shown, first)
		if before = strings.TrimRight(before, " "); code != 0 || !found || before != "" && !strings.HasSuffix(before, "\x1b[K") {
			t.Errorf("%s: exit code %d, %q is before %q", args, code, before, first)
		}
	}
}
