package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/tmacc/tmacc/search/child"
)

// remote is a machine that ssh reaches: its name, user, keys and route come from the user's
// ssh settings. It needs a POSIX shell and a directory to put programs in.
type remote struct {
	ctx      context.Context // once it ends nothing is waited for
	later    context.Context // that of commands
	end      func()          // of later
	say      func(string)    // why it waits
	args     []string        // of ssh
	prefix   string          // of commands that start a worker
	patience time.Duration
	mu       sync.Mutex
	sent     map[string]bool // programs that are there, by name
}

// Runner says where and how to measure.
type Runner struct {
	URL      string        // ssh://USER@HOST:PORT, or what ssh calls a host: ssh://HOST
	Exec     string        // a command that starts a worker, such as "taskset -c 3", "": none
	Patience time.Duration // how long it may be out of reach, 0: 5 minutes
	Say      func(string)  // gets why it waits, nil: nobody
	Grace    time.Duration // how long it is still used after ctx has ended, to measure the best again
}

// usualPatience is enough to start a machine again.
const usualPatience = 5 * time.Minute

// Dial makes a machine of a runner: it finds out the platform, builds a worker for it and sends it. Until
// ctx ends, processes that are killed there and connections that are cut are replaced; existing ones are used for
// x.Grace longer.
func Dial(ctx context.Context, x Runner) (*Machine, error) {
	args, err := sshArgs(x.URL)
	if err != nil {
		return nil, err
	}
	if strings.Contains(x.Exec, "'") {
		return nil, fmt.Errorf("runner: %s: want a command without '", x.Exec)
	}
	r := &remote{ctx: ctx, later: ctx, end: func() {}, say: x.Say, args: args, prefix: x.Exec, patience: x.Patience, sent: map[string]bool{}}
	if r.say == nil {
		r.say = func(string) {}
	}
	if r.patience == 0 {
		r.patience = usualPatience
	}
	m := &Machine{remote: r}
	if m.os, m.arch, err = r.platform(); err != nil {
		return nil, fmt.Errorf("%s: %w", x.URL, err)
	}
	if m.own, err = build(m, nil); err != nil {
		return nil, err
	}
	r.later, r.end = outliving(ctx, x.Grace)
	if m, err = m.greeted(); err != nil {
		return nil, fmt.Errorf("%s: %w", x.URL, err)
	}
	return m, nil
}

// outliving ends so long after ctx, or with end.
func outliving(ctx context.Context, d time.Duration) (later context.Context, end func()) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return later, func() { stop(); cancel() }
}

// sshArgs are the arguments of ssh for a URL: it may ask nobody, and notices within seconds that the
// other end is gone.
func sshArgs(text string) ([]string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "ssh" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("runner %q: want ssh://USER@HOST:PORT", text)
	}
	args := []string{"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"}
	if u.Port() != "" {
		args = append(args, "-p", u.Port())
	}
	if u.User != nil {
		args = append(args, "-l", u.User.Username())
	}
	return append(args, "--", u.Hostname()), nil
}

// shell is a command for sh over there, whatever shell the user has.
func (r *remote) shell(script string) *exec.Cmd {
	cmd := exec.CommandContext(r.later, "ssh", append(r.args[:len(r.args):len(r.args)], "sh -c '"+folder+script+"'")...)
	cmd.SysProcAttr = child.Apart() // ssh would end at once, and the best could not be measured again
	return cmd
}

// folder is the beginning of all scripts: programs are kept for the next search.
const folder = `d="${XDG_CACHE_HOME:-$HOME/.cache}/tmacc"; `

// run runs a script and returns what it prints.
func (r *remote) run(script string, in io.Reader) (string, error) {
	cmd := r.shell(script)
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), nil
	case errors.As(err, &exit) && exit.ExitCode() != cutBySSH:
		return "", &Unable{Why: "over there: " + lastLine(exit.String()+"\n"+stderr.String())}
	case errors.As(err, &exit):
		return "", &Lost{"the connection is lost: " + lastLine(stderr.String()), true}
	}
	return "", &Lost{err.Error(), true}
}

// Names that uname prints and what Go calls them.
var (
	systems = map[string]string{"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd"}
	arches  = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
)

func (r *remote) platform() (system, arch string, err error) {
	out, err := r.run("uname -s; uname -m", nil)
	if err != nil {
		return "", "", err
	}
	f := strings.Fields(out)
	if len(f) != 2 || systems[f[0]] == "" || arches[f[1]] == "" {
		return "", "", fmt.Errorf("uname says %q: want a system and a processor that tmacc knows", strings.TrimSpace(out))
	}
	return systems[f[0]], arches[f[1]], nil
}

// command starts a program over there, after it has been sent. The
// shell stays, to say how the program ended.
func (r *remote) command(p *program) (*exec.Cmd, error) {
	name, err := r.send(p)
	if err != nil {
		return nil, err
	}
	return r.shell(fmt.Sprintf(`[ -x "$d/%[1]s" ] || exit %[2]d; %[3]s=1 %[4]s "$d/%[1]s"; exit $?`, name, noProgram, envWorker, r.prefix)), nil
}

// noProgram is the status of a command whose program is not there any more.
const noProgram = 91

// forget makes sure that programs are sent again.
func (r *remote) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.sent)
}

// send makes a program be there, and returns its name: that of its bytes.
func (r *remote) send(p *program) (name string, err error) {
	data, err := os.ReadFile(p.path)
	if err != nil {
		return "", fmt.Errorf("worker: %w", err)
	}
	name = programName(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent[name] {
		return name, nil
	}
	// A connection that is cut looks like the end of the file: so its size is compared.
	script := fmt.Sprintf(`[ -x "$d/%[1]s" ] && exit 0; f="$d/%[1]s.$$"; mkdir -p "$d" && cat >"$f" && [ $(wc -c <"$f") -eq %[2]d ] && chmod 700 "$f" && mv -f "$f" "$d/%[1]s" || { rm -f "$f"; exit 1; }; `+
		`[ -x "$d/%[1]s" ] || { rm -f "$d/%[1]s"; echo "no program may run in $d: set XDG_CACHE_HOME there to a folder where programs may" >&2; exit 1; }`, name, len(data))
	if _, err := r.run(script, bytes.NewReader(data)); err != nil {
		return "", err
	}
	r.sent[name] = true
	return name, nil
}

// remove removes a program over there; one that cannot be reached keeps it.
func (r *remote) remove(p *program) {
	if data, err := os.ReadFile(p.path); err == nil {
		r.run(fmt.Sprintf(`rm -f "$d/%s"`, programName(data)), nil)
	}
}

func programName(data []byte) string { return fmt.Sprintf("worker-%.12x", sha256.Sum256(data)) }
