package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/runtime/model"
)

// remembering says what a session remembers: between runs, and when its context is full.
type remembering struct {
	session string // a file, "": none
	shift   bool
	keep    int
}

func (x *remembering) add(f *pflag.FlagSet) {
	f.StringVar(&x.session, "session", "", "`file` that keeps the state after the text: tokens that the next text begins with are not computed again")
	f.BoolVar(&x.shift, "context-shift", false, "when the context is full, forget half of the text and go on")
	f.IntVar(&x.keep, "keep", 0, "with -context-shift: tokens at the beginning that stay, -1: all of the given text (default: the one that texts begin with)")
}

// validate checks the flags of a text, or of a chat, which has none of them.
func (x *remembering) validate(f *pflag.FlagSet, chat bool) error {
	for _, name := range []string{"session", "context-shift", "keep"} {
		if chat && f.Changed(name) {
			return fmt.Errorf("-%s: is for a text to continue (-p); a chat has /save and /load", name)
		}
	}
	switch {
	case f.Changed("keep") && !x.shift:
		return errors.New("-keep: is for -context-shift")
	case x.keep < -1:
		return fmt.Errorf("-keep %d: want 0 or more, or -1: all of the given text", x.keep)
	case x.session == "":
		return nil
	}
	return noFolder(x.session)
}

// openSession is the session in a file, or a new one if there is no file.
func (o *opened) openSession(path string) (*model.Session, error) {
	if path == "" {
		return o.model.NewSession()
	}
	f, err := o.open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return o.model.NewSession()
	}
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	s, err := o.model.LoadSession(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; -session with another name begins a new one", path, err)
	}
	return s, nil
}

// saveSession keeps a session for the next run.
func (o *opened) saveSession(s *model.Session, path string) error {
	if path == "" {
		return nil
	}
	return gen.WriteFileBy(path, func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<20)
		return errors.Join(s.Save(buffered), buffered.Flush())
	})
}
