package llama

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/tmacc/tmacc/search/timing"
)

// envFolder names, in the environment of a process that runs models, the folder of the libraries. What the process is asked comes
// by standard input, and the answers go to the first extra file: libraries may write to standard output.
const envFolder = "TMACC_LLAMA_PROCESS"

// answers is the number of the file of answers in the process that runs models.
const answers = 3

// Main makes the program fit to run models in a process of its own. Called first in main or TestMain, it returns at once unless this
// process was started for that: then it does so and ends the process.
func Main() {
	dir := os.Getenv(envFolder)
	if dir == "" {
		return
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the parent decides
	out := os.NewFile(answers, "answers")
	if err := serve(dir, os.Stdin, out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// request is what a process is asked. All but one of the fields are zero.
type request struct {
	Load    *Options
	Threads int
	Fill    *fill
	Run     *run
}

// fill asks for a context of N tokens, made of fewer.
type fill struct {
	Tokens []int32
	N      int
}

// run asks to evaluate tokens after the first Keep of the context.
type run struct {
	Keep             int
	Tokens           []int32
	Together, Logits bool
	Embeddings       bool
}

// answer is what a process says to a request, and first of all without one.
type answer struct {
	Fault  string // that stopped the request, "": none
	Engine Engine
	Memory Memory
	Turn   Turn
}

// serve answers requests until they end.
func serve(dir string, in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	to := gob.NewEncoder(out)
	l, err := open(dir)
	if err != nil {
		return to.Encode(answer{Fault: err.Error()})
	}
	if err := to.Encode(answer{Engine: l.engine}); err != nil {
		return err
	}
	for requests := listen(in); ; {
		slept, used := time.Now(), timing.ProcessTime()
		q, ok := <-requests
		if !ok {
			return nil
		}
		a := answer{Turn: Turn{Idle: Idle{time.Since(slept), timing.ProcessTime() - used}}}
		if err := l.answer(q, &a); err != nil {
			a.Fault = err.Error()
		}
		if err := to.Encode(a); err != nil {
			return err
		}
	}
}

// listen returns the requests that come. When no more can come, the process ends, even if it is at work.
func listen(in io.Reader) <-chan request {
	requests := make(chan request)
	go func() {
		for from := gob.NewDecoder(in); ; {
			var q request
			if from.Decode(&q) != nil {
				os.Exit(0)
			}
			requests <- q
		}
	}()
	return requests
}

// answer does what q asks.
func (l *loaded) answer(q request, a *answer) (err error) {
	l.said.fault = ""
	switch {
	case q.Load != nil:
		a.Memory, err = l.load(*q.Load)
	case q.Threads > 0:
		err = l.setThreads(q.Threads)
	case q.Fill != nil:
		err = l.fill(q.Fill.Tokens, q.Fill.N)
	case q.Run != nil:
		if err = l.keep(q.Run.Keep); err != nil {
			return err
		}
		if a.Turn.Steps, err = l.decode(q.Run.Tokens, q.Run.Together); err == nil && q.Run.Logits {
			a.Turn.Logits, err = l.last()
		}
		if err == nil && q.Run.Embeddings {
			a.Turn.Embeddings, err = l.embeddings(len(q.Run.Tokens))
		}
	}
	return err
}
