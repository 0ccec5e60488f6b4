package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// Where lines cannot be rewritten, a step is shown once it takes long, also if it began right after another was shown. A step that is over by then is not shown.
func TestProgressLines(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := newProgress(w, false)
	const nearly = 500 * time.Millisecond // a busy machine may take part of it for the next call
	almost := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = time.Now().Add(nearly - patience)
	}
	almost()
	p.step("short")
	p.step("long")
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != "long" {
		t.Errorf("shown is %q, want the step that takes long", lines.Text())
	}
	p.part(true, "soon read: 100 %%")
	almost()
	p.part(false, "read: 38 %%")
	if !lines.Scan() || lines.Text() != "read: 38 %" {
		t.Errorf("shown is %q, want a part that takes long", lines.Text())
	}
	p.part(false, "read: 39 %%")
	p.part(true, "read: 100 %%")
	if !lines.Scan() || lines.Text() != "read: 100 %" {
		t.Errorf("shown is %q, want the end of what was shown in part", lines.Text())
	}
	almost()
	p.step("done")
	p.done()
	time.Sleep(2 * nearly)
	fmt.Fprintln(w, "end")
	w.Close()
	if !lines.Scan() || lines.Text() != "end" {
		t.Errorf("shown is %q after all was done", lines.Text())
	}
}

// On a terminal, steps that follow each other soon are not drawn, and one that lasts is.
func TestProgressTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := newProgress(w, false)
	p.terminal = true
	for i := range 1000 {
		p.step("step %d", i)
	}
	time.Sleep(3 * soon)
	p.done()
	w.Close()
	drawn, err := io.ReadAll(r)
	if n := strings.Count(string(drawn), "step"); err != nil || n == 0 || n > 20 || !strings.HasSuffix(string(drawn), "step 999\r\x1b[K") {
		t.Errorf("%d steps are drawn: %.300q, %v", n, drawn, err)
	}
}
