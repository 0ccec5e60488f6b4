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

// ErrGone is the error of a terminal that nobody reads any more.
var ErrGone = errors.New("the terminal is gone")

// patience is how long a terminal may take to be restored. One that nobody reads takes nothing more, and then writing to it never ends.
const patience = 500 * time.Millisecond

// Run shows e on a terminal until the user leaves, ctx ends, or the terminal is gone: then the error is ErrGone.
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
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(patience):
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
