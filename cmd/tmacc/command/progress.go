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
	pending  string      // a step that is shown when patience is over
	over     *time.Timer // runs until then; nil before the first such step
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
func (p *progress) step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch text := fmt.Sprintf(format, args...); {
	case p.w == nil:
	case time.Since(p.last) > p.patience():
		p.show(text)
	default:
		p.wait(text)
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
func (p *progress) show(text string) {
	p.last, p.pending = time.Now(), ""
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", shorten(text, widthOf(p.w)-1))
	p.shown = true
}

// wait shows a step when patience is over, unless another has begun or all is done. Only files can be written to at any time.
func (p *progress) wait(text string) {
	if _, ok := p.w.(*os.File); !ok {
		return
	}
	p.pending = text
	rest := p.patience() - time.Since(p.last)
	if p.over != nil {
		p.over.Reset(rest)
		return
	}
	p.over = time.AfterFunc(rest, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pending != "" {
			p.show(p.pending)
		}
	})
}

// done clears the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = ""
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
