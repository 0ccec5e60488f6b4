package explorer

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/tmacc/tmacc/search/explore"
)

// ErrGone is the error of a terminal that has ended.
var ErrGone = errors.New("the terminal is gone")

// ErrUnread is the error of a terminal that is there, and that nobody reads. Nothing may be written to it: that would never end.
var ErrUnread = errors.New("the terminal is not read")

// patience is how long a terminal may take to be restored.
const patience = 500 * time.Millisecond

// Run shows e on a terminal until the user leaves, ctx ends, or the terminal is gone: then the error is ErrGone. If the terminal cannot be restored because nobody
// reads it, the error is ErrUnread.
func Run(ctx context.Context, e *explore.Explorer, in, out *os.File) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m := New(ctx, e)
	defer m.stop()
	if before, err := term.GetState(int(in.Fd())); err == nil {
		defer term.Restore(int(in.Fd()), before)
	}
	lost := func() { stop(ErrGone) }
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(&terminal{in, lost}), tea.WithOutput(&terminal{out, lost}), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run()
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-m.ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(patience):
			return ErrUnread
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// terminal is a file that says when nobody is at its other end any more. Package tea takes the end of its input for a pause.
type terminal struct {
	*os.File
	lost func()
}

func (t *terminal) Read(b []byte) (int, error) {
	n, err := t.File.Read(b)
	if err == io.EOF || errors.Is(err, syscall.EIO) {
		t.lost()
	}
	return n, err
}

func (t *terminal) Write(b []byte) (int, error) {
	n, err := t.File.Write(b)
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EPIPE) {
		t.lost()
	}
	return n, err
}
