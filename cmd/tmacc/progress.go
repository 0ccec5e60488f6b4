package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress tells a person what takes so long: on a terminal in one line that is
// rewritten, elsewhere in a line for every step that begins later than patience
// after the last one shown.
type progress struct {
	w        io.Writer // nil: silent
	terminal bool
	mu       sync.Mutex
	last     time.Time
	shown    bool
}

const patience = 2 * time.Second

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
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[K%s", shorten(text, widthOf(p.w)-1))
		p.shown = true
	case time.Since(p.last) > patience:
		fmt.Fprintln(p.w, text)
		p.last = time.Now()
	}
}

// done clears the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
