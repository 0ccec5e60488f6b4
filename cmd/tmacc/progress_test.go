package main

import (
	"bufio"
	"fmt"
	"os"
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
	almost := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = time.Now().Add(50*time.Millisecond - patience)
	}
	almost()
	p.step("short")
	p.step("long")
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != "long" {
		t.Errorf("shown is %q, want the step that takes long", lines.Text())
	}
	almost()
	p.step("done")
	p.done()
	time.Sleep(100 * time.Millisecond)
	fmt.Fprintln(w, "end")
	w.Close()
	if !lines.Scan() || lines.Text() != "end" {
		t.Errorf("shown is %q after all was done", lines.Text())
	}
}
