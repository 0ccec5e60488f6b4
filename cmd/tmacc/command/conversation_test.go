package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model/chat"
	"github.com/tmacc/tmacc/runtime/model/generation"
)

// pureGo needs no kernels, which take longer to compile than a short text.
const pureGo = "TMACC_CPU=purego"

// continued is a text with the tokens that the model in this program adds to it.
func continued(t *testing.T, tokens, text string) string {
	t.Helper()
	code, out, stderr := runProcess([]string{pureGo}, "-q", "-n", tokens, "-p", text)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	return out
}

// chatProcess is tmacc run in a process of its own with messages on standard input.
func chatProcess(input string, args ...string) (code int, stdout, stderr string) {
	cmd := exec.Command(os.Args[0], append([]string{"run"}, args...)...)
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1", pureGo)
	cmd.Stdin = strings.NewReader(input)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// shouting is a template whose conversations a model for novels goes on with.
const shouting = "{% for m in messages %}{{ m.role | upper }} said: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}He answered: {% endif %}"

// Each line is answered by the whole conversation so far. A saved one goes on as if it had never ended.
func TestConversation(t *testing.T) {
	template, saved := file(t, "shouting.jinja", shouting), filepath.Join(t.TempDir(), "saved.json")
	args := []string{"-q", "-template", template, "-n", "6", "-system", "Be kind."}
	code, first, stderr := chatProcess("How are you?\n\n/save "+saved+"\n//slashes\\\nand lines\n", args...)
	answers := strings.Split(first, "\n")
	if code != 0 || len(answers) != 3 || answers[0] == "" || answers[1] == "" {
		t.Fatalf("exit code %d, %q\n%s", code, first, stderr)
	}
	// The answers are what the model adds to the conversation as the template writes it.
	text := "SYSTEM said: Be kind.\nUSER said: How are you?\n"
	for i, question := range []string{"", "USER said: /slashes\nand lines\n"} {
		text += question
		if want := continued(t, "6", text+"He answered: "); text+"He answered: "+answers[i]+"\n" != want {
			t.Errorf("answer %d is %q, want the end of %q", i, answers[i], want)
		}
		text += "ASSISTANT said: " + answers[i] + "\n"
	}
	var messages []chat.Message
	data, err := os.ReadFile(saved)
	if err == nil {
		err = json.Unmarshal(data, &messages)
	}
	if want := []chat.Message{{Role: "system", Content: "Be kind."}, {Role: "user", Content: "How are you?"}, {Role: "assistant", Content: answers[0]}}; err != nil ||
		!reflect.DeepEqual(messages, want) {
		t.Errorf("%v, %v, want %v", messages, err, want)
	}
	code, again, stderr := chatProcess("/load "+saved+"\n\"\"\"\n/slashes\nand lines\"\"\"", args[:5]...)
	if code != 0 || again != answers[1]+"\n" {
		t.Errorf("loaded: exit code %d, %q, want %q\n%s", code, again, answers[1], stderr)
	}
	code, cleared, stderr := chatProcess("Whatever\n/clear\nHow are you?\n/system\n/exit\nnever", args...)
	if code != 0 || !strings.HasSuffix(cleared, "\n"+answers[0]+"\n") || strings.Count(cleared, "\n") != 2 {
		t.Errorf("cleared: exit code %d, %q\n%s", code, cleared, stderr)
	}
}

// A full context ends an answer with a line that says what helps, and then the conversation.
func TestConversationFull(t *testing.T) {
	template := file(t, "shouting.jinja", shouting)
	code, out, stderr := chatProcess("How are you?\nAnd how is she?\n", "-template", template, "-context", "30")
	if code != 2 || strings.Count(out, "\n") != 1 || !strings.Contains(stderr, "the answer ends here, because the context of 30 tokens is full: /clear begins a new conversation") ||
		!strings.Contains(stderr, "tokens now, and a context of 30 has no room for an answer: /clear begins a new conversation, and -context makes room for a longer one, of up to 512") {
		t.Errorf("exit code %d, %q\n%s", code, out, stderr)
	}
	_, _, stderr = chatProcess("How are you?\n", "-template", template, "-context", "1")
	var n int
	if _, err := fmt.Sscanf(stderr[max(0, strings.Index(stderr, "the conversation has")):], "the conversation has %d", &n); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	for room, want := range map[int]string{n: "has no room for an answer: /clear", n + 1: "the answer ends here"} {
		if _, _, stderr = chatProcess("How are you?\n", "-template", template, "-context", strconv.Itoa(room)); !strings.Contains(stderr, want) {
			t.Errorf("-context %d: %s, want %s", room, stderr, want)
		}
	}
	code, out, stderr = chatProcess("How are you?\n", "-json", "-template", template, "-context", "30")
	var g generated
	if err := json.Unmarshal([]byte(out), &g); code != 0 || err != nil || g.Prompt != "How are you?" || g.Text == "" || g.End != generation.Full {
		t.Errorf("exit code %d, %v, %s\n%s", code, err, out, stderr)
	}
	exact := strconv.Itoa(g.Prefill.Tokens)
	code, _, stderr = chatProcess("How are you?\n", "-template", template, "-context", exact)
	if want := "the conversation has " + exact + " tokens now, and a context of " + exact + " has no room for an answer: /clear"; code != 2 || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %s, want %s", code, stderr, want)
	}
}

// Each answer is one of the grammar.
func TestConversationGrammar(t *testing.T) {
	code, out, stderr := chatProcess("Yes?\nNo?\n", "-q", "-template", file(t, "shouting.jinja", shouting), "-grammar", `root ::= "yes" | "no, " "never"`)
	for i, answer := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if answer != "yes" && answer != "no, never" || i > 1 {
			t.Errorf("answer %d: %q", i, answer)
		}
	}
	if code != 0 || strings.Count(out, "\n") != 2 {
		t.Errorf("exit code %d, %q\n%s", code, out, stderr)
	}
}

// ChatML is taken if asked for; its end of a message ends the answer of a model that has no token for it.
func TestConversationChatML(t *testing.T) {
	code, out, stderr := chatProcess("Good morning\n", "-q", "-template", "chatml", "-n", "5")
	want := continued(t, "5", "<|im_start|>user\nGood morning<|im_end|>\n<|im_start|>assistant\n")
	if code != 0 || !strings.HasSuffix(want, "assistant\n"+out) || strings.TrimSpace(out) == "" {
		t.Errorf("exit code %d, %q, want the end of %q\n%s", code, out, want, stderr)
	}
}

// Bad usage, templates and files are one line that says what helps. It comes before kernels are made.
func TestConversationRefusals(t *testing.T) {
	none := "../../../testdata/gguf/llama-q4_0.gguf"
	for _, r := range []refusal{
		{2, none + ": the file has no chat template: continue a text with -p, or give a template with -template FILE or -template chatml", "run " + none},
		{2, "-system: is for a chat, and -p continues a text: leave one of them out", "run " + none + " -p a -system b"},
		{2, "-think: is for a chat: name a model's file, or give -template as well", "run -think on"},
		{2, "-template -: standard input has the messages of the chat: name a file", "run -template -"},
		{2, "-json-schema-file -: standard input has the messages of the chat: name a file", "run -template chatml -json-schema-file -"},
		{2, "-think maybe: want on or off", "run -template chatml -think maybe"},
		{2, "-think: the chat template has no switch for thinking (no variable enable_thinking)", "run -template chatml -think off"},
		{2, "nofile.jinja: no such file", "run -template nofile.jinja"},
		{2, "bad.jinja: chat template: line 2: {% endfor: the tag endfor is not supported", "run -template " + file(t, "bad.jinja", "x\n{% endfor %}")},
	} {
		refused(t, r, "-q")
	}
	raising := file(t, "raising.jinja", "{{ raise_exception('roles must alternate') }}")
	text, roles := file(t, "text.json", "text"), file(t, "roles.json", `[{"content": "a"}]`)
	for input, want := range map[string]string{
		"Hello":            "roles must alternate",
		"/nope":            "unknown command /nope: /help lists the commands",
		"/save":            "/save: name a file",
		"/clear all":       "/clear takes no argument",
		"/load nofile":     "nofile: no such file",
		"/load " + text:    "want a JSON array of messages, as /save writes it",
		"/load " + roles:   "a message without a role",
		"/load .":          "is no file of at most 64 MiB",
		"/save nofolder/x": "nofolder",
	} {
		if code, out, stderr := chatProcess(input+"\n", "-q", "-template", raising); code != 2 || out != "" || !strings.Contains(stderr, "\ntmacc: ") || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q\n%s\twant one line with %s", input, code, out, stderr, want)
		}
	}
}

// typed is a keyboard whose keys were pressed before.
func typed(keys string) (*keyboard, *bytes.Buffer) {
	screen := &bytes.Buffer{}
	return &keyboard{
		watched: watched{Reader: strings.NewReader(keys)}, screen: screen, prompt: "> ",
		raw:  func() (func(), error) { return func() {}, nil },
		size: func() (int, int) { return 80, 24 },
	}, screen
}

// Lines can be edited, and come back by the arrow keys. Pasted text is one message. Ctrl-C takes a line away.
func TestKeyboard(t *testing.T) {
	const left, up, ctrlC, ctrlD, paste, pasted = "\x1b[D", "\x1b[A", "\x03", "\x04", "\x1b[200~", "\x1b[201~"
	k, screen := typed("helo" + left + "l\r" + up + " there\r" + paste + "one\ntwo" + pasted + " three\r" +
		"a\\\rb\r" + `"""` + "\rx\r\ry" + `"""` + "\r")
	for _, want := range []string{"hello", "hello there", "one\ntwo three", "a\nb", "x\n\ny"} {
		if text, err := nextMessage(k); text != want || err != nil {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
	}
	if _, err := nextMessage(k); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if !strings.Contains(screen.String(), "> ") || !strings.Contains(screen.String(), ". ") {
		t.Errorf("%q has no prompts", screen)
	}
	k, _ = typed("gone" + ctrlC)
	if text, err := nextMessage(k); err != errCtrlC {
		t.Errorf("%q, %v", text, err)
	}
	k.Reader = strings.NewReader("kept\r" + ctrlD)
	if text, err := nextMessage(k); text != "kept" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := nextMessage(k); err != io.EOF {
		t.Errorf("Ctrl-D: %v", err)
	}
}

// Colours are for terminals whose users want them.
func TestColours(t *testing.T) {
	if c := (&cli{err: &bytes.Buffer{}}); c.colours() || c.colours().red("x") != "x" || colours(true).red("x") != "\x1b[31mx\x1b[0m" {
		t.Error("colours go elsewhere than to terminals")
	}
}

// repeating is a line without end of the input.
type repeating string

func (r repeating) line(bool) (string, error) { return string(r), nil }
func (repeating) terminal() bool              { return false }

// A message that never ends is refused when it has 16 MiB, within a moment.
func TestEndlessMessage(t *testing.T) {
	for _, line := range []string{`\`, `""" and`, strings.Repeat("and ", 1<<18) + `\`} {
		if text, err := nextMessage(repeating(line)); err != errLong {
			t.Errorf("%.10q: %d bytes, %v", line, len(text), err)
		}
	}
	if text, err := nextMessage(&pipe{cli: &cli{in: io.LimitReader(zeros{}, 1<<30)}}); err != errLong {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// zeros is a file of zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
