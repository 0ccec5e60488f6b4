package command

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress shows a person which step takes long: one that begins, or still goes on, some time after what was shown last. On a
// terminal it rewrites one line, soon; elsewhere it prints a line each time, after patience.
type progress struct {
	w        io.Writer // nil: silent
	terminal bool
	mu       sync.Mutex
	last     time.Time
	shown    bool
	begun    bool        // the last line is a part of a step that has not ended
	pending  stage       // shown when patience is over, if it has a text
	over     *time.Timer // runs until then; nil before the first such step
}

// stage is a step, or a part of one.
type stage struct {
	text string
	part bool
}

const (
	soon     = 100 * time.Millisecond
	patience = 2 * time.Second
)

func newProgress(w io.Writer, quiet bool) *progress {
	if quiet {
		return &progress{}
	}
	f, ok := w.(*os.File)
	return &progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), last: time.Now()}
}

// step says what begins now.
func (p *progress) step(format string, args ...any) { p.say(stage{text: fmt.Sprintf(format, args...)}) }

// steady says what begins now and may take long, on a terminal also for how many seconds it has, until stop is called.
func (p *progress) steady(text string) (stop func()) {
	if p.step("%s", text); !p.terminal {
		return func() {}
	}
	began, every, ended, silent := time.Now(), time.NewTicker(time.Second), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(silent)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				p.step("%s: %d s", text, int(time.Since(began).Seconds()))
			case <-ended:
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-silent
	}
}

// part says how far a step is, and that it has ended. Where lines stay, the end is shown if a part is the last line.
func (p *progress) part(ended bool, format string, args ...any) {
	p.say(stage{fmt.Sprintf(format, args...), !ended})
}

func (p *progress) say(s stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ends := p.begun && !s.part && !p.terminal; {
	case p.w == nil:
	case ends, time.Since(p.last) > p.patience():
		p.show(s)
	default:
		p.wait(s)
	}
}

// patience is the time from one text to the next.
func (p *progress) patience() time.Duration {
	if p.terminal {
		return soon
	}
	return patience
}

// show shows a step now.
func (p *progress) show(s stage) {
	p.last, p.pending, p.begun = time.Now(), stage{}, s.part
	if !p.terminal {
		fmt.Fprintln(p.w, s.text)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", shorten(s.text, widthOf(p.w)-1))
	p.shown = true
}

// wait shows a step when patience is over, unless another has begun or all is done. Only files can be written to at any time.
func (p *progress) wait(s stage) {
	if _, ok := p.w.(*os.File); !ok {
		return
	}
	p.pending = s
	rest := p.patience() - time.Since(p.last)
	if p.over != nil {
		p.over.Reset(rest)
		return
	}
	p.over = time.AfterFunc(rest, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pending.text != "" {
			p.show(p.pending)
		}
	})
}

// done clears the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = stage{}
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
