package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// longText begins and ends a message of several lines.
const longText = `"""`

// nextMessage reads a message: a line, lines that end in a backslash with the one behind them, or lines between two """.
func nextMessage(from messages) (string, error) {
	text, err := from.line(false)
	if err != nil {
		return "", err
	}
	if rest, long := strings.CutPrefix(text, longText); long {
		if text, err = until(from, rest); strings.HasPrefix(text, "/") {
			text = "/" + text // it is no command
		}
		return text, err
	}
	all := []byte(text)
	for bytes.HasSuffix(all, []byte(`\`)) {
		more, err := from.line(true)
		if err != nil && err != io.EOF {
			return "", err
		}
		if all = append(append(all[:len(all)-1], '\n'), more...); len(all) > mostMessage {
			return "", errLong
		}
		if err == io.EOF {
			break
		}
	}
	return string(all), nil
}

// until reads the rest of a message that ends with """. The end of the input ends it, too.
func until(from messages, text string) (string, error) {
	for all := []byte(text); ; {
		if whole, closed := bytes.CutSuffix(all, []byte(longText)); closed {
			return strings.Trim(string(whole), "\n"), nil
		}
		more, err := from.line(true)
		if err == io.EOF {
			return strings.Trim(string(all), "\n"), nil
		}
		if err != nil {
			return "", err
		}
		if all = append(append(all, '\n'), more...); len(all) > mostMessage {
			return "", errLong
		}
	}
}

// mostMessage is how many bytes a message may have.
const mostMessage = 16 << 20

var errLong = errors.New("standard input: a message has more than 16 MiB")

// pipe reads messages from standard input that is no terminal.
type pipe struct {
	*cli
	lines *bufio.Reader
}

func (p *pipe) terminal() bool { return false }

func (p *pipe) line(bool) (string, error) {
	if p.lines == nil {
		p.lines = bufio.NewReader(p.in)
	}
	defer p.blocking()()
	var all []byte
	for {
		piece, err := p.lines.ReadSlice('\n')
		if all = append(all, piece...); len(all) > mostMessage {
			return "", errLong
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(all) > 0, err == nil:
			return strings.TrimRight(string(all), "\r\n"), nil
		}
		return "", err
	}
}

// keyboard reads messages from a terminal, where lines can be edited and the last ones come back.
type keyboard struct {
	watched
	screen io.Writer
	raw    func() (restore func(), err error) // lets each key through
	size   func() (width, height int)
	prompt string

	editor  *term.Terminal
	history term.History
}

// keyboard is nil unless a person types.
func (c *cli) keyboard() *keyboard {
	in, ok := c.in.(*os.File)
	screen, shown := c.err.(*os.File)
	if !ok || !shown || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(screen.Fd())) {
		return nil
	}
	return &keyboard{
		watched: watched{Reader: in}, screen: screen, prompt: c.colours().green("> "),
		raw: func() (func(), error) {
			state, err := term.MakeRaw(int(in.Fd()))
			if err != nil {
				return nil, err
			}
			restore := func() { term.Restore(int(in.Fd()), state) }
			end := context.AfterFunc(c.ctx, func() { // SIGTERM, say
				restore()
				os.Exit(say(c.err, failed("%w", errInterrupted)))
			})
			return func() { end(); restore() }, nil
		},
		size: func() (width, height int) {
			_, height, _ = term.GetSize(int(screen.Fd())) // widthOf knows of errors
			return widthOf(screen), max(height, 1)
		},
	}
}

func (k *keyboard) terminal() bool { return true }

// line reads a line, or lines that were pasted at once. The terminal is as before when it returns.
func (k *keyboard) line(more bool) (string, error) {
	restore, err := k.raw()
	if err != nil {
		return "", err
	}
	defer restore()
	t := k.begun()
	if t.SetPrompt(k.prompt); more {
		t.SetPrompt(". ")
	}
	t.SetBracketedPasteMode(true)
	defer t.SetBracketedPasteMode(false)
	text := ""
	for {
		line, err := t.ReadLine()
		switch {
		case err == term.ErrPasteIndicator:
			text += line + "\n"
			continue
		case err == io.EOF && k.interrupted:
			k.interrupted = false
			err = errCtrlC
		}
		if err != nil {
			io.WriteString(k.screen, "\r\n")
			k.editor = nil // it has the line that was begun
		}
		return text + line, err
	}
}

// begun is the editor. After Ctrl-C it is a new one, with the same history.
func (k *keyboard) begun() *term.Terminal {
	if k.editor == nil {
		k.editor = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{&k.watched, k.screen}, "")
		if k.history != nil {
			k.editor.History = k.history
		}
		k.history = k.editor.History
	}
	k.editor.SetSize(k.size()) // an error is one of the size before
	return k.editor
}

// watched tells Ctrl-C from the end of the input.
type watched struct {
	io.Reader
	interrupted bool
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	const ctrlC = 3
	w.interrupted = w.interrupted || bytes.IndexByte(b[:n], ctrlC) >= 0
	return n, err
}
