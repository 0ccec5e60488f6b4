package llama

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
	"regexp"
	"strings"
	"time"

	"github.com/tmacc/tmacc/search/child"
)

// Limit is how long a request may take before the process is ended. Prompts of a slow format take minutes.
var Limit = 10 * time.Minute

// Process is a process that runs models. One call at a time may use it. After a *Crash or a *Timeout it has ended.
type Process struct {
	Engine Engine
	cmd    *exec.Cmd
	in     io.WriteCloser
	to     *gob.Encoder
	from   *gob.Decoder
	out    *os.File
	stderr child.Head
	ended  bool
}

// Crash reports that the process ended at a request.
type Crash struct {
	What  string // the request
	Cause string
}

func (e *Crash) Error() string {
	return fmt.Sprintf("llama.cpp ended the process while %s: %s", e.What, e.Cause)
}

// Timeout reports that a request took too long.
type Timeout struct {
	What  string
	Limit time.Duration
}

func (e *Timeout) Error() string {
	return fmt.Sprintf("llama.cpp did not end %s within %v", e.What, e.Limit)
}

// Start starts a process that runs models by the libraries of a folder. The caller closes it.
func Start(ctx context.Context, dir string) (*Process, error) {
	if err := Check(dir); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("llama.cpp: %w", err)
	}
	return start(ctx, self, dir)
}

// start starts a program whose main calls Main.
func start(ctx context.Context, program, dir string) (*Process, error) {
	p := &Process{cmd: exec.Command(program)}
	p.cmd.Env = append(os.Environ(), envFolder+"="+dir,
		"GGML_BACKEND_PATH=",  // would load another backend
		"GGML_NO_BACKTRACE=1") // of a fault, which takes a debugger
	p.cmd.Stdout, p.cmd.Stderr = &p.stderr, &p.stderr
	p.cmd.SysProcAttr = child.Apart()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("llama.cpp: %w", err)
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("llama.cpp: %w", err)
	}
	p.in, p.out, p.to, p.from = in, out, gob.NewEncoder(in), gob.NewDecoder(bufio.NewReaderSize(out, 1<<16))
	p.cmd.ExtraFiles = []*os.File{theirs}
	err = p.cmd.Start()
	theirs.Close() // the end of the process is then the end of its answers
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("llama.cpp: %w", err)
	}
	a, err := p.ask(ctx, "loading its libraries", nil)
	if err != nil {
		p.Close()
		return nil, err
	}
	p.Engine = a.Engine
	return p, nil
}

// Load loads the model of a file, with an empty context and one thread. A process loads one model.
func (p *Process) Load(ctx context.Context, opt Options) (Memory, error) {
	a, err := p.ask(ctx, "loading "+opt.Path, &request{Load: &opt})
	return a.Memory, err
}

// SetThreads says how many threads evaluate.
func (p *Process) SetThreads(ctx context.Context, n int) error {
	_, err := p.ask(ctx, fmt.Sprintf("making %d threads", n), &request{Threads: n})
	return err
}

// Fill makes the context hold n tokens, after evaluating `tokens` of them. If n is larger, their keys and values are repeated up
// to n in a saved sequence, which is then restored. A model whose state is not plain evaluates the tokens again and again.
func (p *Process) Fill(ctx context.Context, tokens []int32, n int) error {
	_, err := p.ask(ctx, fmt.Sprintf("filling the context with %d tokens", n), &request{Fill: &fill{tokens, n}})
	return err
}

// Prompt evaluates tokens in one piece, after the first `keep` of the context.
func (p *Process) Prompt(ctx context.Context, keep int, tokens []int32) (Turn, error) {
	a, err := p.ask(ctx, fmt.Sprintf("evaluating a prompt of %d tokens", len(tokens)), &request{Run: &run{Keep: keep, Tokens: tokens, Together: true}})
	return a.Turn, err
}

// Generate evaluates tokens one by one, after the first `keep` of the context.
func (p *Process) Generate(ctx context.Context, keep int, tokens []int32) (Turn, error) {
	a, err := p.ask(ctx, fmt.Sprintf("evaluating %d tokens one by one", len(tokens)), &request{Run: &run{Keep: keep, Tokens: tokens}})
	return a.Turn, err
}

// Logits evaluates tokens in one piece in an empty context. It returns the logits after the last one.
func (p *Process) Logits(ctx context.Context, tokens []int32) ([]float32, error) {
	a, err := p.ask(ctx, fmt.Sprintf("evaluating a prompt of %d tokens", len(tokens)), &request{Run: &run{Tokens: tokens, Together: true, Logits: true}})
	return a.Turn.Logits, err
}

// Embed evaluates tokens in one piece in an empty context. It returns their embedding, or with the pooling 0 one for each of them. The
// model was loaded for embeddings.
func (p *Process) Embed(ctx context.Context, tokens []int32) ([]float32, error) {
	a, err := p.ask(ctx, fmt.Sprintf("embedding %d tokens", len(tokens)), &request{Run: &run{Tokens: tokens, Together: true, Embeddings: true}})
	return a.Turn.Embeddings, err
}

// ask sends a request, if it is not nil, and waits for the answer. When ctx ends, or the limit is over, it ends the process.
func (p *Process) ask(ctx context.Context, what string, q *request) (answer, error) {
	var a answer
	if p.ended {
		return a, &Crash{what, "it had ended before"}
	}
	done := make(chan error, 1)
	go func() {
		if q != nil {
			if err := p.to.Encode(q); err != nil {
				done <- err
				return
			}
		}
		done <- p.from.Decode(&a)
	}()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			return answer{}, &Crash{what, p.cause()}
		}
	case <-ctx.Done():
		p.kill()
		<-done
		return answer{}, ctx.Err()
	case <-timer.C:
		p.kill()
		<-done
		return answer{}, &Timeout{what, Limit}
	}
	if a.Fault != "" {
		return answer{}, errors.New(a.Fault)
	}
	return a, nil
}

// kill ends the process at once.
func (p *Process) kill() {
	p.cmd.Process.Kill()
	p.wait()
}

// wait waits for the end of the process.
func (p *Process) wait() {
	if p.ended {
		return
	}
	p.ended = true
	p.in.Close()
	p.cmd.Wait()
	p.out.Close()
}

// grace is how long an idle process may take to end itself.
const grace = 10 * time.Second

// Close ends the process. Closing again does nothing.
func (p *Process) Close() {
	if !p.ended {
		p.in.Close() // it ends itself
		timer := time.AfterFunc(grace, func() { p.cmd.Process.Kill() })
		defer timer.Stop()
	}
	p.wait()
}

// assertion is what ggml says before it ends a process.
var assertion = regexp.MustCompile(`(?m)^\S+:\d+: .+$`)

// cause says why the process ended.
func (p *Process) cause() string {
	p.kill()
	text := p.stderr.String()
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return cmp.Or(assertion.FindString(text), child.Signal(text), line, p.cmd.ProcessState.String())
}

// Ended says that the process has ended, after a *Crash or a *Timeout.
func (p *Process) Ended() bool { return p.ended }
