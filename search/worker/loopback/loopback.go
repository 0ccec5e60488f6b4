// Package loopback is another machine for tests: an sshd of this one, with keys of its own.
package loopback

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is an sshd, reached by a way that can be cut.
type Server struct {
	URL   string
	Cache string // the cache directory of users over there
	mu    sync.Mutex
	conns []net.Conn
	gone  bool
}

// Start starts a server with keys of its own, until the test ends, and makes the command ssh of this process reach it.
func Start(t *testing.T) *Server {
	t.Helper()
	daemon := "/usr/sbin/sshd"
	if _, err := os.Stat(daemon); err != nil {
		t.Skip("needs " + daemon + " (openssh-server)")
	}
	for _, tool := range []string{"ssh", "ssh-keygen", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // where it locks itself in
			t.Skip(err)
		}
	}
	dir, s := t.TempDir(), &Server{Cache: t.TempDir()}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	port := FreePort(t)
	write(t, dir, "sshd_config", fmt.Sprintf(`Port %d
ListenAddress 127.0.0.1
HostKey %s/host
AuthorizedKeysFile %[2]s/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
SetEnv XDG_CACHE_HOME=%s
`, port, dir, s.Cache), 0o600)
	server := exec.Command(daemon, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	var stderr bytes.Buffer
	server.Stderr = &stderr
	server.WaitDelay = time.Second // whom it let in, but not further, has its standard error for two minutes
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", stderr.String())
		}
	})
	for range 100 {
		if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			c.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.listen(t, port)
	write(t, dir, "ssh_config", fmt.Sprintf("Host *\nIdentityFile %s/user\nUserKnownHostsFile %[1]s/known\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n", dir), 0o600)
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s/ssh_config \"$@\"\n", ssh, dir), 0o700)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return s
}

func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// FreePort is one that nobody listens on.
func FreePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// listen passes connections on to a port.
func (s *Server) listen(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.URL = fmt.Sprint("ssh://", l.Addr())
	t.Cleanup(func() { l.Close(); s.Cut(true) })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			s.connect(in, port)
		}
	}()
}

func (s *Server) connect(in net.Conn, port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		in.Close()
		return
	}
	out, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		in.Close()
		return
	}
	s.conns = append(s.conns, in, out)
	go func() { io.Copy(in, out); in.Close() }()
	go func() { io.Copy(out, in); out.Close() }()
}

// Cut cuts all connections, and says whether the server is gone: then it takes no new ones.
func (s *Server) Cut(gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns, s.gone = nil, gone
}

// Workers are the processes over there whose program was sent.
func (s *Server) Workers(t *testing.T) (found []*os.Process) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, exe := range all {
		path, err := os.Readlink(exe)
		if err != nil || !strings.HasPrefix(path, s.Cache) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(exe, "/")[2])
		if p, err := os.FindProcess(pid); err == nil {
			found = append(found, p)
		}
	}
	return found
}

// Kill kills the workers.
func (s *Server) Kill(t *testing.T) {
	t.Helper()
	for _, p := range s.Workers(t) {
		p.Kill()
	}
}
