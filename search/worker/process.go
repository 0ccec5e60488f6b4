package worker

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// process is a worker process.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	w      *bufio.Writer
	enc    *gob.Encoder
	dec    *gob.Decoder
	stderr head
	how    How
	killed atomic.Bool
}

// head keeps the first bytes written to it.
type head struct {
	mu  sync.Mutex
	buf []byte
}

const headBytes = 16 << 10

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = append(h.buf, p[:min(len(p), headBytes-len(h.buf))]...)
	return len(p), nil
}

// startLimit is how long a process may take to greet.
const startLimit = time.Minute

// start starts the worker at path and reads its greeting.
func start(path string) (*process, error) {
	p := &process{cmd: exec.Command(path)}
	p.cmd.Env = append(os.Environ(), envWorker+"=1")
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	p.w = bufio.NewWriterSize(p.in, 1<<16)
	p.enc, p.dec = gob.NewEncoder(p.w), gob.NewDecoder(bufio.NewReaderSize(out, 1<<16))
	var g greeting
	if err := p.limited(startLimit, func() error { return p.dec.Decode(&g) }); err != nil {
		return nil, p.cause("starting "+path, startLimit, err)
	}
	p.how = g.How
	return p, nil
}

// limited kills the process if f takes longer than limit.
func (p *process) limited(limit time.Duration, f func() error) error {
	timer := time.AfterFunc(limit, func() {
		p.killed.Store(true)
		p.cmd.Process.Kill()
	})
	defer timer.Stop()
	return f()
}

// ask sends a request and waits for the reply. After an error only cause may be
// called.
func (p *process) ask(q request, limit time.Duration) (*reply, error) {
	r := new(reply)
	err := p.limited(limit, func() error {
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

var signalName = regexp.MustCompile(`SIG[A-Z]+`)

// cause says why a process did not answer, and makes sure that it has ended.
func (p *process) cause(what string, limit time.Duration, err error) error {
	p.in.Close()
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrClosed) {
		p.cmd.Process.Kill() // its messages cannot be read
	}
	p.cmd.Wait()
	if p.killed.Load() {
		return &Timeout{what, limit}
	}
	text := string(p.stderr.buf)
	signal := signalName.FindString(text)
	if signal == "" && text == "" {
		text = p.cmd.ProcessState.String()
	}
	return &Crash{what, signal, text}
}

// end ends a process that answers.
func (p *process) end() {
	p.in.Close()
	p.limited(startLimit, p.cmd.Wait)
}

// idle are processes of this program that wait for functions.
var idle struct {
	sync.Mutex
	list []*process
}

// own is a process of this program.
func own() (*process, error) {
	idle.Lock()
	if n := len(idle.list); n > 0 {
		p := idle.list[n-1]
		idle.list = idle.list[:n-1]
		idle.Unlock()
		return p, nil
	}
	idle.Unlock()
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return start(path)
}

// keep puts a process aside for the next Code, or ends it if there are enough.
func keep(p *process) {
	idle.Lock()
	full := len(idle.list) >= runtime.GOMAXPROCS(0)
	if !full {
		idle.list = append(idle.list, p)
	}
	idle.Unlock()
	if full {
		p.end()
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
