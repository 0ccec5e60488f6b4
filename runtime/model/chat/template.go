// Package chat writes conversations the way a model was trained on them, by the chat template of its file.
//
// A template is a program in the language of jinja2, with the settings and functions of transformers'
// apply_chat_template. Package github.com/ardanlabs/jinja runs it. This package translates each template to the part of the
// language that the library does as jinja2 does, and has the operators, filters, tests and methods as jinja2 has them.
// A template in a file may be wrong or hostile: rendering ends with an error after too much work or text.
package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// ChatML is the template of the models that use <|im_start|> and <|im_end|>. It is no default: a model that was trained on
// another form answers badly.
const ChatML = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// Error is a fault of a template, or an end that it asks for by raise_exception.
type Error struct {
	Line      int    // from 1; 0: the template as a whole
	Construct string // the beginning of its source
	Message   string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "chat template: " + e.Message
	}
	return fmt.Sprintf("chat template: line %d: %s: %s", e.Line, e.Construct, e.Message)
}

// Options belong to a template. The zero value is jinja2 as transformers sets it up.
type Options struct {
	BOS, EOS string           // the texts of the variables bos_token and eos_token
	Now      func() time.Time // for strftime_now; nil: time.Now
	// Generation takes the tag generation, which transformers adds to the language. It marks text of the model.
	Generation bool
}

// Template is a chat template that was read. It does not change, and any number of goroutines may use it.
type Template struct {
	options   Options
	src       string
	library   *jinja.Template
	nodes     []node
	constants map[string]jinja.Value
	variables map[string]string
	macros    map[string]macro
	tables
}

// untranslated and unrendered begin the messages of faults of this package or of the library.
const (
	untranslated = "cannot be translated: "
	unrendered   = "cannot be rendered: "
)

// mostSource is how many bytes a template may have.
const mostSource = 1 << 20

// New reads a template. An error is an *Error that names the line and the construct.
func New(source string, o Options) (t *Template, err error) {
	if len(source) > mostSource {
		return nil, &Error{Message: fmt.Sprintf("has %d bytes, at most %d are taken", len(source), mostSource)}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	src := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	src = strings.TrimSuffix(src, "\n")
	symbols, failed := lex(src)
	if failed != nil {
		return nil, failed
	}
	x := &translator{src: src, symbols: symbols, generation: o.Generation, tables: newTables(),
		constants: map[string]jinja.Value{}, variables: map[string]string{}, macros: map[string]macro{}}
	x.body()
	if x.err != nil {
		return nil, x.err
	}
	library, err := jinja.Compile(x.out.String())
	if err != nil {
		return nil, &Error{Message: untranslated + err.Error()}
	}
	return &Template{o, src, library, x.nodes, x.constants, x.variables, x.macros, x.tables}, nil
}

// The key of a file's template.
const keyTemplate = "tokenizer.chat_template"

// NoTemplate is the error for a file without a chat template.
type NoTemplate struct{}

func (*NoTemplate) Error() string {
	return "key " + keyTemplate + ": the file has no chat template"
}

// Of reads the template of a model's file, with the texts of its tokens. A file without one gives a *NoTemplate.
func Of(f *gguf.File) (*Template, error) {
	v, err := f.Value(keyTemplate)
	if err != nil {
		return nil, err
	}
	source, ok := v.(string)
	if !ok || source == "" {
		return nil, &NoTemplate{}
	}
	o, err := OptionsOf(f)
	if err != nil {
		return nil, err
	}
	return New(source, o)
}

// OptionsOf are the options for templates of a model's file, with the tag generation.
func OptionsOf(f *gguf.File) (o Options, err error) {
	o.Generation = true
	if o.BOS, err = tokenText(f, "tokenizer.ggml.bos_token_id"); err == nil {
		o.EOS, err = tokenText(f, "tokenizer.ggml.eos_token_id")
	}
	return o, err
}

// tokenText is the text of the token that a key names, "" if the file names none.
func tokenText(f *gguf.File, key string) (string, error) {
	if v, err := f.Value(key); v == nil || err != nil {
		return "", err
	}
	id, err := f.Int(key)
	if err != nil {
		return "", err
	}
	texts, err := f.Value("tokenizer.ggml.tokens")
	if list, ok := texts.([]string); ok && id >= 0 && id < len(list) {
		return list[id], err
	}
	return "", err
}

// Message is a message of a conversation.
type Message struct {
	Role    string // system, user, assistant or tool
	Content string
	// Raw, unless it is nil, is the message as a JSON object, which the template then gets. It is for messages that have
	// more than a role and a text, such as tool_calls.
	Raw json.RawMessage
}

// MarshalJSON writes the message as the object that templates get.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.Raw != nil {
		return m.Raw, nil
	}
	return json.Marshal(struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}{m.Role, m.Content})
}

// UnmarshalJSON reads an object. Raw stays nil if it has nothing but a role and a text.
func (m *Message) UnmarshalJSON(b []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		return err
	}
	*m = Message{}
	if err := json.Unmarshal(object["role"], &m.Role); err != nil {
		return fmt.Errorf("a message without a role: %w", err)
	}
	if json.Unmarshal(object["content"], &m.Content) != nil || string(object["content"]) == "null" || len(object) != 2 {
		m.Raw = append(json.RawMessage(nil), b...)
	}
	return nil
}

// Input is a conversation.
type Input struct {
	Messages []Message
	Tools    []json.RawMessage // functions that the model may call, as JSON
	// AddGenerationPrompt begins a message of the model behind the last one.
	AddGenerationPrompt bool
	Thinking            *bool          // the variable enable_thinking; nil: it is not defined
	Vars                map[string]any // more variables, which json.Marshal takes; they win over all others
}

// Uses reports whether the template has a variable of this name, such as enable_thinking.
func (t *Template) Uses(variable string) bool {
	_, ok := t.variables[variable]
	return ok
}

// Render writes a conversation. It ends when ctx does. An error of the template is an *Error.
func (t *Template) Render(ctx context.Context, in Input) (string, error) {
	values, size, err := t.values(in)
	if err != nil {
		return "", err
	}
	return t.render(ctx, values, size)
}

// render writes variables, which have size bytes of JSON.
func (t *Template) render(ctx context.Context, values map[string]jinja.Value, size int) (text string, err error) {
	r := &render{Template: t, ctx: ctx, work: mostWork + workPerByte*min(size, mostOutput), tuples: map[*jinja.List]bool{}, objects: map[*jinja.Dict]object{}}
	defer func() {
		if fault := recover(); fault != nil {
			text, err = "", &Error{Message: unrendered + fmt.Sprint(fault)}
		}
	}()
	return t.library.RenderValues(r.data(values))
}

// values are the variables of a conversation, and their size as JSON.
func (t *Template) values(in Input) (values map[string]jinja.Value, size int, err error) {
	vars := map[string]any{
		"messages": append([]Message{}, in.Messages...), "add_generation_prompt": in.AddGenerationPrompt, "tools": nil, "documents": nil,
		"bos_token": t.options.BOS, "eos_token": t.options.EOS,
	}
	if len(in.Tools) > 0 {
		vars["tools"] = in.Tools
	}
	if in.Thinking != nil {
		vars["enable_thinking"] = *in.Thinking
	}
	for name, v := range in.Vars {
		vars[name] = v
	}
	values = map[string]jinja.Value{}
	for name, v := range vars {
		if !t.Uses(name) {
			continue
		}
		text, err := json.Marshal(v)
		if err == nil {
			values[name], err = fromJSON(text)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("chat template: variable %s: %w", name, err)
		}
		size += len(text)
	}
	return values, size, nil
}
