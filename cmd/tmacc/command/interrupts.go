package command

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interrupts ends a run when Ctrl-C is pressed, unless somebody wants to know of it instead.
type interrupts struct {
	signals chan os.Signal
	cancel  context.CancelFunc
	caught  atomic.Pointer[func()]
}

// interrupted is a context that Ctrl-C or SIGTERM ends. A second Ctrl-C ends the process at once.
func interrupted() (context.Context, *interrupts) {
	ctx, cancel := context.WithCancel(context.Background())
	x := &interrupts{signals: make(chan os.Signal, 1), cancel: cancel}
	signal.Notify(x.signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for {
			select {
			case s := <-x.signals:
				if f := x.caught.Load(); f != nil && s == os.Interrupt {
					(*f)()
					continue
				}
			case <-ctx.Done():
			}
			x.stop()
			return
		}
	}()
	return ctx, x
}

// stop gives the signals back.
func (x *interrupts) stop() {
	signal.Stop(x.signals)
	x.cancel()
}

// catch calls f for each Ctrl-C until release is called.
func (x *interrupts) catch(f func()) (release func()) {
	x.caught.Store(&f)
	return func() { x.caught.Store(nil) }
}
