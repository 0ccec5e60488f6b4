package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model/chat"
)

// talking says how tmacc run holds a conversation.
type talking struct {
	chat                    bool // there is no text to continue
	system, template, think string
}

// The words of -template and -think.
const (
	templateChatML = "chatml"
	thinkOn        = "on"
	thinkOff       = "off"
)

// talkingFlags are the names of the flags that only a chat has.
var talkingFlags = []string{"system", "template", "think"}

func (x *talking) add(f *pflag.FlagSet) {
	f.StringVar(&x.system, "system", "", "`text` of the system message of a chat")
	f.StringVar(&x.template, "template", "", "chat template in place of the model's: a `file`, or "+templateChatML)
	f.StringVar(&x.think, "think", "", "`on` or off: whether a model with a switch for it thinks before it answers")
}

// validate finds out whether the command is a chat: without -p, of a model's file or by a template that was given.
func (x *talking) validate(f *pflag.FlagSet, path string) error {
	x.chat = !f.Changed("p") && (path != "" || x.template != "")
	for _, name := range talkingFlags {
		if f.Changed(name) && f.Changed("p") {
			return fmt.Errorf("-%s: is for a chat, and -p continues a text: leave one of them out", name)
		}
		if f.Changed(name) && !x.chat {
			return fmt.Errorf("-%s: is for a chat: name a model's file, or give -template as well", name)
		}
	}
	for _, name := range []string{"template", "grammar-file", "json-schema-file"} {
		if x.chat && f.Lookup(name).Value.String() == "-" {
			return fmt.Errorf("-%s -: standard input has the messages of the chat: name a file", name)
		}
	}
	if x.think != "" && x.think != thinkOn && x.think != thinkOff {
		return fmt.Errorf("-think %s: want %s or %s", x.think, thinkOn, thinkOff)
	}
	return nil
}

// thinking is the variable of -think, nil if the model does as it is used to.
func (x *talking) thinking() *bool {
	if x.think == "" {
		return nil
	}
	on := x.think == thinkOn
	return &on
}

// templateOf is the template of a chat.
func (c *cli) templateOf(x generateFlags, f *gguf.File) (*chat.Template, error) {
	t, err := c.givenTemplate(x, f)
	if errors.As(err, new(*chat.NoTemplate)) {
		return nil, fmt.Errorf("%s: the file has no chat template: continue a text with -p, or give a template with -template FILE or -template %s", x.name(), templateChatML)
	}
	if err == nil && x.think != "" && !t.Uses("enable_thinking") {
		err = errors.New("-think: the chat template has no switch for thinking (no variable enable_thinking)")
	}
	return t, err
}

// givenTemplate is the template of -template, or of the model.
func (c *cli) givenTemplate(x generateFlags, f *gguf.File) (*chat.Template, error) {
	if x.template == "" {
		t, err := chat.Of(f)
		if err != nil {
			err = fmt.Errorf("%s: %w", x.name(), err)
		}
		return t, err
	}
	o, err := chat.OptionsOf(f)
	if err != nil {
		return nil, x.blamed(err)
	}
	if x.template == templateChatML {
		return chat.New(chat.ChatML, o)
	}
	source, err := c.inputs().Text(x.template)
	if err != nil {
		return nil, err
	}
	t, err := chat.New(string(source), o)
	if err != nil {
		err = fmt.Errorf("%s: %w", x.template, err)
	}
	return t, err
}

// talk holds a conversation.
func (c *cli) talk(ctx context.Context, x generateFlags) error {
	var template *chat.Template
	x.check = func(f *gguf.File) (err error) {
		template, err = c.templateOf(x, f)
		return err
	}
	return c.with(ctx, x.opening, func() error { return x.sampling.read(c) }, func(o *opened) error {
		v, err := newConversation(o, x, template)
		if err != nil {
			return err
		}
		defer v.session.Close()
		if keyboard := c.keyboard(); keyboard != nil {
			return v.converse(ctx, keyboard)
		}
		return v.converse(ctx, &pipe{cli: c})
	})
}

// messages is where the messages of a user come from.
type messages interface {
	// line reads a line. The error is io.EOF at the end, and errCtrlC if that was pressed.
	line(more bool) (string, error)
	// terminal reports whether a person types, who sees errors and goes on.
	terminal() bool
}

var errCtrlC = errors.New("Ctrl-C")

// converse answers messages until they end.
func (v *conversation) converse(ctx context.Context, from messages) error {
	v.person = from.terminal()
	if v.person {
		fmt.Fprintln(v.err, v.dim("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves."))
	}
	for again := false; ; {
		text, err := nextMessage(from)
		switch {
		case err == io.EOF:
			return nil
		case err == errCtrlC && again:
			return nil
		case err == errCtrlC:
			fmt.Fprintln(v.err, v.dim("Ctrl-D, /exit or a second Ctrl-C leaves."))
			again = true
			continue
		case err != nil:
			return err
		}
		again = false
		leave, err := v.heard(ctx, text)
		if err != nil && (!v.person || ctx.Err() != nil || errors.Is(err, os.ErrClosed)) {
			return err
		}
		if err != nil {
			fmt.Fprintln(v.err, v.red("tmacc: "+oneLine(err)))
		}
		if leave {
			return nil
		}
	}
}
