package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/chat"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/runtime/model/sample"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// conversation is a chat with a model.
type conversation struct {
	*opened
	colours
	flags    generateFlags
	template *chat.Template
	session  *model.Session
	sampler  *sample.Sampler
	stop     []string
	messages []chat.Message
	person   bool // types, sees errors and goes on
}

func newConversation(o *opened, x generateFlags, t *chat.Template) (*conversation, error) {
	v := &conversation{opened: o, colours: o.colours(), flags: x, template: t, stop: x.stop}
	var err error
	if v.sampler, err = x.sampler(o.tokenizer); err != nil {
		return nil, err
	}
	if x.system != "" {
		v.setSystem(x.system)
	}
	if x.template == templateChatML && o.tokenizer.Special(endOfMessage) == token.None {
		v.stop = append(slices.Clone(v.stop), endOfMessage) // which is a text for this model
	}
	v.session, err = o.model.NewSession()
	return v, err
}

// endOfMessage is what ChatML ends a message with.
const endOfMessage = "<|im_end|>"

// The roles of messages.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
)

// heard obeys a command or answers a message. A message that begins with / has a second one in front.
func (v *conversation) heard(ctx context.Context, text string) (leave bool, err error) {
	switch {
	case strings.TrimSpace(text) == "":
		return false, nil
	case strings.HasPrefix(text, "//"):
		text = text[1:]
	case strings.HasPrefix(text, "/"):
		return v.obey(text)
	}
	return false, v.turn(ctx, text)
}

// turn answers a message. Both are kept, also if the answer was stopped after its beginning.
func (v *conversation) turn(ctx context.Context, text string) error {
	w := &writing{opened: v.opened, flags: v.flags, prompt: text}
	r, err := v.answer(ctx, w, text)
	if err != nil {
		return err
	}
	if err := v.ended(w, r); err != nil {
		return err
	}
	if r.End == generation.Interrupted && !v.person {
		return failed("%w", errInterrupted)
	}
	return nil
}

// answer writes an answer as it comes.
func (v *conversation) answer(ctx context.Context, w *writing, text string) (*generation.Report, error) {
	if v.person && v.interrupts != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer v.catch(cancel)()
	}
	messages := append(slices.Clone(v.messages), chat.Message{Role: roleUser, Content: text})
	in := chat.Input{Messages: messages, AddGenerationPrompt: true, Thinking: v.flags.thinking()}
	ids, err := v.template.Tokens(ctx, v.tokenizer, in)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &generation.Report{End: generation.Interrupted}, nil
	}
	if err != nil {
		return nil, err
	}
	if most := v.model.Context(); len(ids) >= most {
		return nil, fmt.Errorf("the conversation has %d tokens now, and a context of %d has no room for an answer: %s", len(ids), most, v.remedy())
	}
	var said strings.Builder
	r, err := generation.Tokens(ctx, v.model, v.session, v.tokenizer, ids, generation.Options{
		Tokens: v.flags.tokens, Sampler: v.sampler, Stop: v.stop,
		Text: func(text []byte) error {
			said.Write(text)
			return w.add(text)
		},
	})
	if err == nil && (r.End != generation.Interrupted || said.Len() > 0) {
		v.messages = append(messages, chat.Message{Role: roleAssistant, Content: said.String()})
	}
	return r, err
}

// remedy says what helps when the context is full.
func (v *conversation) remedy() string {
	if most := v.model.Config().Context; v.model.Context() < most {
		return fmt.Sprintf("/clear begins a new conversation, and -context makes room for a longer one, of up to %d", most)
	}
	return "/clear begins a new conversation; the model was made for no longer one"
}

// ended prints what comes behind an answer.
func (v *conversation) ended(w *writing, r *generation.Report) error {
	if v.flags.json {
		return json.NewEncoder(v.out).Encode(w.report(r))
	}
	if _, err := fmt.Fprintln(v.out); err != nil {
		return err
	}
	switch r.End {
	case generation.Full:
		fmt.Fprintln(v.err, v.red(fmt.Sprintf("tmacc: the answer ends here, because the context of %d tokens is full: %s", v.model.Context(), v.remedy())))
	case generation.Interrupted:
		fmt.Fprintln(v.err, v.dim("tmacc: stopped"))
	}
	if !v.flags.quiet && r.Prompt > 0 {
		fmt.Fprintln(v.err, v.dim("tmacc: "+w.speed(r)))
	}
	return nil
}

// setSystem puts a system message in front, or takes it away.
func (v *conversation) setSystem(text string) {
	if len(v.messages) > 0 && v.messages[0].Role == roleSystem {
		v.messages = v.messages[1:]
	}
	if text != "" {
		v.messages = append([]chat.Message{{Role: roleSystem, Content: text}}, v.messages...)
	}
}

// command is something that a user can ask for within a conversation.
type command struct {
	name, argument, help string
	do                   func(v *conversation, argument string) (leave bool, err error)
}

// chatCommands are the commands. /help is added where they are looked up.
var chatCommands = []command{
	{"system", "TEXT", "the system message from now on; without TEXT there is none", func(v *conversation, text string) (bool, error) {
		v.setSystem(text)
		return false, nil
	}},
	{"clear", "", "a new conversation with the same system message", func(v *conversation, _ string) (bool, error) {
		keep := 0
		if len(v.messages) > 0 && v.messages[0].Role == roleSystem {
			keep = 1
		}
		v.messages = v.messages[:keep]
		return false, nil
	}},
	{"save", "FILE", "write the messages to a file, as JSON", func(v *conversation, path string) (bool, error) { return false, v.save(path) }},
	{"load", "FILE", "go on with the messages of such a file", func(v *conversation, path string) (bool, error) { return false, v.load(path) }},
	{"exit", "", "leave; Ctrl-D does so, too", func(*conversation, string) (bool, error) { return true, nil }},
}

// obey does a command.
func (v *conversation) obey(text string) (leave bool, err error) {
	name, argument := strings.TrimSpace(text[1:]), ""
	if end := strings.IndexFunc(name, unicode.IsSpace); end >= 0 {
		name, argument = name[:end], strings.TrimSpace(name[end:])
	}
	if name == "help" {
		v.help()
		return false, nil
	}
	i := slices.IndexFunc(chatCommands, func(c command) bool { return c.name == name })
	if i < 0 {
		return false, fmt.Errorf("unknown command %s: /help lists the commands, and a message that begins with / needs a second one in front", message.Quoted("/"+name))
	}
	c := chatCommands[i]
	switch {
	case c.argument == "FILE" && argument == "":
		return false, fmt.Errorf("/%s: name a file", name)
	case c.argument == "" && argument != "":
		return false, fmt.Errorf("/%s takes no argument", name)
	}
	return c.do(v, argument)
}

// help lists the commands.
func (v *conversation) help() {
	for _, c := range chatCommands {
		fmt.Fprintf(v.err, "  %-14s %s\n", strings.TrimSpace("/"+c.name+" "+c.argument), c.help)
	}
	fmt.Fprintf(v.err, "Ctrl-C stops an answer. A line that ends in \\ goes on in the next line, and %s stands before and behind a text of several lines.\n", longText)
}

// save writes the messages to a file.
func (v *conversation) save(path string) error {
	if v.messages == nil {
		v.messages = []chat.Message{}
	}
	text, err := json.MarshalIndent(v.messages, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(path, append(text, '\n')); err != nil {
		return err
	}
	if v.person {
		fmt.Fprintln(v.err, v.dim("tmacc: "+message.Count(len(v.messages), "message")+" in "+path))
	}
	return nil
}

// mostSaved is how large a file of messages may be.
const mostSaved = 64 << 20

// load reads messages that save has written.
func (v *conversation) load(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() > mostSaved:
		return fmt.Errorf("%s: is no file of at most %d MiB", path, mostSaved>>20)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) {
		return fmt.Errorf("%s: is no JSON: it has bytes that are not UTF-8", path)
	}
	var messages []chat.Message
	if err := json.Unmarshal(text, &messages); err != nil {
		return fmt.Errorf("%s: want a JSON array of messages, as /save writes it: %w", path, err)
	}
	for i, m := range messages {
		if m.Role == "" {
			return fmt.Errorf("%s: message %d has no role", path, i)
		}
	}
	v.messages = messages
	if v.person {
		fmt.Fprintln(v.err, v.dim("tmacc: "+message.Count(len(messages), "message")))
	}
	return nil
}
