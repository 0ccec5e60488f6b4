package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/runtime/model/generation"
)

// generates is what tmacc run writes.
func generates(t *testing.T, args ...string) (g generated) {
	t.Helper()
	if err := json.Unmarshal([]byte(ok(t, append([]string{"run", "-q", "-json"}, args...)...)), &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestRunSession: a session that was saved saves the work for what it has, and does not change the text. Another model's is refused.
func TestRunSession(t *testing.T) {
	needMeasuring(t)
	path := filepath.Join(t.TempDir(), "session")
	all := generates(t, "-p", talePrompt, "-n", "12")
	half := generates(t, "-p", talePrompt, "-n", "6", "-session", path)
	rest := generates(t, "-p", talePrompt+half.Text, "-n", "6", "-session", path, "-threads", "1")
	if half.Kept != 0 || half.Text+rest.Text != all.Text || rest.Kept < half.Prefill.Tokens || rest.Prefill.Tokens+rest.Kept < 6+half.Prefill.Tokens {
		t.Errorf("%+v\n%+v, want %q", half, rest, all.Text)
	}
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again := generates(t, "-p", talePrompt, "-n", "12", "-session", path)
	if again.Text != all.Text || again.Prefill.Tokens != 1 {
		t.Errorf("%+v, want %q", again, all.Text)
	}
	damaged := file(t, "damaged", string(saved[:len(saved)-1]))
	refused(t, refusal{2, damaged + ": model: saved session: ends too early", "run"}, "-q", "-session", damaged)
	refused(t, refusal{2, "generate.go: model: saved session: begins as no session does", "run"}, "-q", "-session", "generate.go")
	refused(t, refusal{2, path + ": model: saved session: has another type of cache", "run"}, "-q", "-session", path, "-cache", "f32")
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, saved) {
		t.Errorf("the session of the same text is another one: %v", err)
	}
	t.Run("shift", runShift)
}

// runShift: a full context ends a text, or forgets half of it.
func runShift(t *testing.T) {
	args := []string{"-p", talePrompt, "-n", "40", "-context", "24"}
	if full := generates(t, args...); full.End != generation.Full || full.Forgotten != 0 {
		t.Errorf("%+v", full)
	}
	shifted := generates(t, append(args, "-context-shift")...)
	if shifted.End != generation.Enough || shifted.Decode.Tokens != 40 || shifted.Forgotten < 12 {
		t.Errorf("%+v", shifted)
	}
	if kept := generates(t, append(args, "-context-shift", "-keep", "-1")...); kept.End != generation.Enough || kept.Text == shifted.Text {
		t.Errorf("%+v", kept)
	}
}

// TestRememberingRefusals: bad usage is one line that says what helps.
func TestRememberingRefusals(t *testing.T) {
	for _, r := range []refusal{
		{2, "-keep: is for -context-shift", "run -keep 3"},
		{2, "-keep -2: want 0 or more, or -1", "run -context-shift -keep -2"},
		{2, "no-such-folder/x: no-such-folder: no such file", "run -session no-such-folder/x"},
		{2, ": is a folder: want a file", "run -session ."},
		{2, "-session: is for a text to continue (-p); a chat has /save", "run model.gguf -session x"},
		{2, "-context-shift: is for a text to continue", "run model.gguf -context-shift"},
	} {
		refused(t, r, "-q")
	}
}
