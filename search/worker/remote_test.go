package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/worker/loopback"
)

func dial(t *testing.T, url string) *Machine {
	t.Helper()
	m, err := Dial(t.Context(), Runner{URL: url, Patience: time.Minute, Say: func(why string) { t.Log(why) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// Functions run over there, and their faults are told from other mishaps: a process that is
// killed is replaced, a connection that is cut is made again, also after a while, and programs that are gone are sent again.
func TestRemote(t *testing.T) {
	s := loopback.Start(t)
	for _, how := range []How{Mapped, Linked} {
		t.Run(string(how), func(t *testing.T) {
			m := dial(t, s.URL)
			if h := m.Host(); h.Cores < 1 || h.Arch != m.arch {
				t.Errorf("host %+v", h)
			}
			if how == Mapped && !jit.Supported() {
				t.Skip(jit.ErrPlatform)
			}
			c := load(t, Options{On: m, Limit: 3 * time.Second, Build: how == Linked}, how, broken)
			runs(t, c)
			wants(t, c, "UD2", func(err error) bool { x := (*Crash)(nil); return errors.As(err, &x) && x.Signal == "SIGILL" })
			wants(t, c, "WriteAfter", func(err error) bool { x := (*Crash)(nil); return errors.As(err, &x) && x.Signal == "SIGSEGV" })
			wants(t, c, "Endless", func(err error) bool { x := (*Timeout)(nil); return errors.As(err, &x) })
			runs(t, c)
			for _, disturb := range []func(){
				func() { s.Kill(t) },
				func() { s.Cut(false) },
				func() { remove(t, s.Cache); s.Cut(false) },
				func() { s.Cut(true); time.AfterFunc(time.Second, func() { s.Cut(false) }) },
			} {
				slow(t, c, disturb)
			}
			s.Kill(t) // between calls
			runs(t, c)
		})
	}
	for range 1000 {
		if len(s.Workers(t)) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%d workers are left", len(s.Workers(t)))
}

// slow disturbs in the middle of a call.
func slow(t *testing.T, c *Code, disturb func()) {
	t.Helper()
	f, err := c.Func("Slow", "")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, disturb)
	a := args()
	if err := f.Run(params, a); err != nil || a[1].Buf[0] != 42 {
		t.Errorf("%v, result %v", err, a[1].Buf)
	}
}

func remove(t *testing.T, cache string) {
	files, err := filepath.Glob(filepath.Join(cache, "tmacc", "*"))
	if err != nil || len(files) == 0 {
		t.Errorf("nothing was sent to %s: %v", cache, err)
	}
	for _, f := range files {
		os.Remove(f)
	}
}

func wants(t *testing.T, c *Code, name string, want func(error) bool) {
	t.Helper()
	f, err := c.Func(name, "trace of "+name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(params, args()); !want(err) || !strings.Contains(err.Error(), "trace of "+name) {
		t.Errorf("%s: %v", name, err)
	}
}

// A machine of another kind, here an emulated one behind a script that is called ssh, maps functions that it is sent, and runs programs that are
// linked for it.
func TestRemoteArm(t *testing.T) {
	for _, tool := range []string{"qemu-aarch64", "go", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"uname": "#!/bin/sh\n[ $1 = -m ] && echo aarch64 || echo Linux\n",
		"ssh":   "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	m, err := Dial(t.Context(), Runner{URL: "ssh://board", Exec: "qemu-aarch64"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if h := m.Host(); h.Arch != "arm64" || h.Lacks([]string{"ASIMDDP"}) != nil {
		t.Errorf("host %v", h)
	}
	for _, how := range []How{Mapped, Linked} {
		c := load(t, Options{On: m, Build: how == Linked}, how, brokenOn("arm64"))
		runs(t, c)
		wants(t, c, "UD2", func(err error) bool { x := (*Crash)(nil); return errors.As(err, &x) && x.Signal == "SIGILL" })
		runs(t, c)
	}
}

// A request whose process is killed each time is reported so, for callers to find out whether it is to blame. A machine that stays away is not.
func TestPersist(t *testing.T) {
	n := 0
	killed := func() error { n++; return &Lost{Why: "killed"} }
	var each *Killed
	if err := here.persist("a trace", killed); !errors.As(err, &each) || n != mostKilled || each.What != "a trace" || !strings.Contains(err.Error(), "killed, 3 times: free memory") {
		t.Errorf("after %d: %v", n, err)
	}
	m := &Machine{remote: &remote{ctx: t.Context(), later: t.Context(), say: func(string) {}, patience: 300 * time.Millisecond}}
	var lost *Lost
	if err := m.persist("a trace", func() error { return &Lost{Why: "cut", unreachable: true} }); !errors.As(err, &lost) {
		t.Error(err)
	}
}

func TestRunnerRefused(t *testing.T) {
	for _, url := range []string{"", "host", "http://host", "ssh://", "ssh://host/path", "ssh://host?x=1", "ssh://%zz"} {
		if _, err := Dial(t.Context(), Runner{URL: url}); err == nil || !strings.Contains(err.Error(), "want ssh://USER@HOST:PORT") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := Dial(t.Context(), Runner{URL: "ssh://host", Exec: "a'b"}); err == nil || !strings.Contains(err.Error(), "a'b") {
		t.Error(err)
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("needs ssh")
	}
	began := time.Now()
	_, err := Dial(t.Context(), Runner{URL: fmt.Sprintf("ssh://127.0.0.1:%d", loopback.FreePort(t))})
	if err == nil || !strings.Contains(err.Error(), "refused") || time.Since(began) > 2*time.Minute {
		t.Errorf("nobody listens: %v", err)
	}
}
