package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/timing"
)

// Machine runs worker processes: this one, one that Dial has found, or one that is emulated here.
type Machine struct {
	os, arch string
	host     timing.Host
	remote   *remote         // nil: here
	emulator []string        // command that runs programs, nil: none
	own      *program        // a worker without functions, nil: this program is one
	env      []string        // of workers, besides this program's
	device   *Device         // that workers run shaders on, nil: they run machine code
	ctx      context.Context // ends starts of workers, nil: nothing does
	unmapped string          // why a worker over there cannot map functions, "": it can; here jit.Mappable knows
	mu       sync.Mutex
	idle     []*process // of a worker without functions, that wait for some
}

var here = &Machine{os: runtime.GOOS, arch: runtime.GOARCH}

// Emulated is a machine that a command emulates, which runs programs for Linux and an architecture: qemu-aarch64 -cpu max.
func Emulated(arch string, command ...string) (*Machine, error) {
	m := &Machine{os: "linux", arch: arch, emulator: command}
	var err error
	if m.own, err = build(m, nil); err != nil {
		return nil, err
	}
	return m.greeted()
}

// greeted is m when a worker there has said what m is.
func (m *Machine) greeted() (*Machine, error) {
	p, err := m.start(nil)
	if err != nil {
		m.Close()
		return nil, err
	}
	m.host, m.unmapped = p.host, p.unmapped
	m.keep(p)
	return m, nil
}

// on is m, or this machine.
func (m *Machine) on() *Machine {
	if m == nil {
		return here
	}
	return m
}

// Host is what the machine is.
func (m *Machine) Host() timing.Host {
	if m.on() == here {
		return timing.ThisHost()
	}
	return m.host
}

// Unmapped is why processes of m cannot map functions, which a program of go build then has linked; "" if they can.
func (m *Machine) Unmapped() string {
	m = m.on()
	err := jit.Builds(m.os, m.arch)
	if err == nil && m == here {
		err = jit.Mappable()
	}
	if err != nil {
		return err.Error()
	}
	return m.unmapped
}

// command starts a worker: of a program that has functions linked, or if there is none, of this one.
func (m *Machine) command(p *program) (*exec.Cmd, error) {
	if p == nil {
		p = m.own
	}
	if m.remote != nil {
		return m.remote.command(p)
	}
	path := ""
	if p != nil {
		path = p.path
	} else {
		var err error
		if path, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
	}
	words := append(slices.Clone(m.emulator), path)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(append(os.Environ(), envWorker+"=1"), m.env...)
	return cmd, nil
}

// remove removes what was made of and for p.
func (m *Machine) remove(p *program) error {
	if m.remote != nil {
		m.remote.remove(p)
	}
	return p.remove()
}

// ready is a process without functions.
func (m *Machine) ready() (*process, error) {
	m.mu.Lock()
	if n := len(m.idle); n > 0 {
		p := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.mu.Unlock()
		return p, nil
	}
	m.mu.Unlock()
	return m.start(nil)
}

// keep puts a process aside for the next Code, or ends it if there are enough.
func (m *Machine) keep(p *process) {
	m.mu.Lock()
	full := len(m.idle) >= runtime.GOMAXPROCS(0)
	if !full {
		m.idle = append(m.idle, p)
	}
	m.mu.Unlock()
	if full {
		p.end()
	}
}

// Close ends the processes that wait.
func (m *Machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.idle {
		p.end()
	}
	m.idle = nil
	if m.remote != nil {
		m.remote.end()
	}
	if m.own != nil {
		return m.own.remove()
	}
	return nil
}

// How often a request is repeated whose process was killed from outside or could not be reached, and
// for how long: a machine that starts again needs minutes. What kills its process each time is
// perhaps itself to blame, by the memory that it takes.
const mostKilled = 3

// persist repeats f as long as it loses its process, waiting longer and longer in between.
func (m *Machine) persist(what string, f func() error) error {
	began, killed, wait := time.Now(), 0, 100*time.Millisecond
	for {
		err := f()
		var lost *Lost
		if !errors.As(err, &lost) {
			return err
		}
		if !lost.unreachable {
			killed++
		} else if m.remote != nil {
			m.remote.forget()
		}
		switch {
		case killed == mostKilled:
			return &Killed{what, lost.Why}
		case m.remote == nil && lost.unreachable, m.remote != nil && time.Since(began) > m.remote.patience:
			return err
		}
		if err := m.wait(lost, wait); err != nil {
			return err
		}
		wait = min(2*wait, 15*time.Second)
	}
}

// wait waits, and says why.
func (m *Machine) wait(lost *Lost, d time.Duration) error {
	ctx := context.Background()
	if m.remote != nil {
		ctx = m.remote.ctx
		m.remote.say(fmt.Sprintf("%s: again in %v", lost.Why, d))
	}
	select {
	case <-ctx.Done():
		return &Lost{Why: lost.Why + ", then interrupted", unreachable: true}
	case <-time.After(d):
		return nil
	}
}
