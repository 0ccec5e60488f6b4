package worker

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tmacc/tmacc/search/child"
	"github.com/tmacc/tmacc/search/timing"
)

// process is a worker process.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	w      *bufio.Writer
	enc    *gob.Encoder
	dec    *gob.Decoder
	stderr child.Head
	how    How
	host   timing.Host
	far    bool // cmd is a connection to the process
	// unmapped is why the process cannot map functions, "" if it can, or has them linked.
	unmapped string
	device   *deviceGreeting // nil of a process that runs machine code
	killed   atomic.Bool
}

// A process may take startLimit to greet, or to end, and killLimit to end when it is killed. It ends itself at the limit of a request (endAt); if it has not answered
// after grace, which messages of some megabytes need on a slow connection, it is killed.
const (
	startLimit = time.Minute
	killLimit  = 10 * time.Second
	grace      = 2 * time.Second
	farGrace   = time.Minute
)

// start starts a worker on m, with the functions of a program or, of none, without, and reads its
// greeting.
func (m *Machine) start(of *program) (*process, error) {
	cmd, err := m.command(of)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, far: m.remote != nil}
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, &Lost{"starting " + cmd.Path + ": " + withRemedy(err).Error(), true}
	}
	p.w = bufio.NewWriterSize(p.in, 1<<16)
	p.enc, p.dec = gob.NewEncoder(p.w), gob.NewDecoder(bufio.NewReaderSize(out, 1<<16))
	var g greeting
	if err := p.limited(m.context(), startLimit, func() error { return p.dec.Decode(&g) }); err != nil {
		err = p.notStarted(err)
		if stopped := m.context().Err(); stopped != nil {
			err = fmt.Errorf("worker: starting a worker: %w", stopped)
		}
		return nil, err
	}
	p.how, p.host, p.unmapped, p.device = g.How, g.Host, g.Unmapped, g.Device
	return p, nil
}

// notStarted is why a process did not greet.
func (p *process) notStarted(err error) error {
	err = p.cause("starting a worker", startLimit, err)
	if state := p.cmd.ProcessState; state != nil && state.ExitCode() == noProgram {
		return &Lost{"the worker is not there any more", true}
	}
	return blameless("starting a worker", err)
}

// blameless makes a *Lost of the fault of a process that ran no code of others yet.
func blameless(what string, err error) error {
	var crash *Crash
	if errors.As(err, &crash) {
		return &Lost{what + ": " + cmp.Or(crash.Signal, firstLine(crash.Output)), true}
	}
	if timeout := (*Timeout)(nil); errors.As(err, &timeout) {
		return &Lost{fmt.Sprintf("%s: no answer in %v", what, timeout.Limit), true}
	}
	return err
}

// limited kills the process if f takes longer than limit, or when ctx ends.
func (p *process) limited(ctx context.Context, limit time.Duration, f func() error) error {
	kill := func() {
		p.killed.Store(true)
		p.cmd.Process.Kill()
	}
	defer time.AfterFunc(limit, kill).Stop()
	defer context.AfterFunc(ctx, kill)()
	return f()
}

// wait waits for the end of a process that was told to end, or killed. It is false for one that hangs in a driver then.
func (p *process) wait() (ended bool) {
	done := make(chan struct{})
	go func() {
		p.cmd.Wait()
		close(done)
	}()
	if !p.killed.Load() && within(done, startLimit) {
		return true
	}
	p.cmd.Process.Kill()
	return within(done, killLimit)
}

func within(done <-chan struct{}, limit time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// context ends starts of workers.
func (m *Machine) context() context.Context {
	if m.ctx == nil {
		return context.Background()
	}
	return m.ctx
}

// ask sends a request and waits for the reply. After an error only cause may be
// called.
func (p *process) ask(ctx context.Context, q request, limit time.Duration) (*reply, error) {
	r := new(reply)
	q.Limit = limit
	if p.device == nil {
		limit *= busy // see endAt
	}
	limit += grace
	if p.far {
		limit += farGrace
	}
	err := p.limited(ctx, limit, func() error {
		if err := p.enc.Encode(q); err != nil {
			return err
		}
		if err := p.w.Flush(); err != nil {
			return err
		}
		return p.dec.Decode(r)
	})
	return r, err
}

// cause says why a process did not answer, and makes sure that it has ended.
func (p *process) cause(what string, limit time.Duration, err error) error {
	p.in.Close()
	late := p.killed.Load()
	ended := slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, os.ErrClosed, syscall.EPIPE}, func(e error) bool { return errors.Is(err, e) })
	if !ended {
		p.cmd.Process.Kill() // its messages cannot be read
	}
	if !p.wait() {
		return &Crash{what, "", "it does not end when it is killed: a driver may hang"}
	}
	text := p.stderr.String()
	if late || p.cmd.ProcessState.ExitCode() == exitLate {
		return &Timeout{what, limit}
	}
	if m := exhausted.FindStringSubmatch(text); m != nil {
		return &Lost{"the process got no more from the system: " + m[1] + ": free memory, or raise the limits of memory and processes", true}
	}
	if signal := child.Signal(text); signal != "" {
		return &Crash{what, signal, text}
	}
	if lost := p.lost(text); lost != nil {
		return lost
	}
	if text == "" {
		text = p.cmd.ProcessState.String()
	}
	return &Crash{what, "", text}
}

// What a shell adds to the number of a signal for the status of what that has killed, and the
// status of ssh that lost its connection or got none.
const (
	byShell  = 128
	cutBySSH = 255
)

// lost says that a process ended that was not to blame: Go programs print which fault ended them, and
// others end them without a word.
func (p *process) lost(text string) *Lost {
	state := p.cmd.ProcessState
	switch code := state.ExitCode(); {
	case p.far && code == cutBySSH:
		return &Lost{"the connection is lost: " + lastLine(text), true}
	case p.far && code > byShell:
		return &Lost{fmt.Sprintf("the process was killed by signal %d", code-byShell), false}
	case p.far && code < 0:
		return &Lost{"ssh was ended: " + state.String(), true}
	case code < 0:
		return &Lost{"the process was ended: " + state.String(), false}
	}
	return nil
}

// end ends a process that answers.
func (p *process) end() {
	p.in.Close()
	p.wait()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}
