package explorer

import (
	"bytes"
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
	shown := newDisplay(out, lost)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(&keyboard{in, lost}), tea.WithOutput(shown), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run()
		shown.end()
		<-shown.ended
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

// keyboard is a file that says when nobody is at its other end any more. Package tea takes the end of its input for a pause.
type keyboard struct {
	*os.File
	lost func()
}

func (k *keyboard) Read(b []byte) (int, error) {
	n, err := k.File.Read(b)
	if err == io.EOF || errors.Is(err, syscall.EIO) {
		k.lost()
	}
	return n, err
}

// display writes to a file beside what draws, so that keys work while nobody reads the terminal. It says when nobody is there any more.
type display struct {
	*os.File
	lost  func()
	queue chan []byte
	ended chan struct{} // closed when all until end is written
}

// mostQueued is how many writes wait for the terminal before one more blocks.
const mostQueued = 1000

func newDisplay(f *os.File, lost func()) *display {
	d := &display{f, lost, make(chan []byte, mostQueued), make(chan struct{})}
	go d.work()
	return d
}

func (d *display) work() {
	defer close(d.ended)
	for b := <-d.queue; b != nil; b = <-d.queue {
		if _, err := d.File.Write(b); errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EPIPE) {
			d.lost()
		}
	}
}

func (d *display) Write(b []byte) (int, error) {
	if len(b) > 0 {
		d.queue <- bytes.Clone(b)
	}
	return len(b), nil
}

// end says that later writes need not be shown.
func (d *display) end() { d.queue <- nil }
