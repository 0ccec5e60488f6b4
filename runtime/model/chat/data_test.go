package chat

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rendering is a case of the data: variables, and the results of jinja2 and of llama.cpp's engine.
type rendering struct {
	Name     string
	Vars     map[string]json.RawMessage
	Expected *string // both engines' result
	Error    *string // both engines fail; the message of raise_exception
	HF       *string `json:"expected_hf"` // jinja2's, where the engines differ
	ErrorHF  *string `json:"error_hf"`
}

type sample struct {
	Name     string
	Template string
	BOS      string `json:"bos_token"`
	EOS      string `json:"eos_token"`
	Cases    []rendering
}

// samples reads the renderings of TMACC_DATA.
func samples(t testing.TB) (templates, snippets []sample) {
	t.Helper()
	folder := os.Getenv("TMACC_DATA")
	if folder == "" {
		t.Skip("TMACC_DATA is not set: it names the folder with 2026/chat-templates.json, renderings by two other engines")
	}
	text, err := os.ReadFile(filepath.Join(folder, "2026", "chat-templates.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Templates, Snippets []sample }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all.Templates, all.Snippets
}

// theirNow is the clock of the data.
func theirNow() time.Time { return time.Unix(1755000000, 0).UTC() }

// rendered is what a template makes of variables.
func rendered(source string, vars map[string]json.RawMessage) (string, error) {
	x, err := New(source, Options{Now: theirNow})
	if err != nil {
		return "", err
	}
	in := Input{Vars: map[string]any{}}
	for name, v := range vars {
		in.Vars[name] = v
	}
	return x.Render(context.Background(), in)
}

// Every rendering is jinja2's.
func TestRenderings(t *testing.T) {
	templates, snippets := samples(t)
	counts := map[string]int{}
	for kind, list := range map[string][]sample{"templates": templates, "snippets": snippets} {
		for _, s := range list {
			for _, c := range s.Cases {
				got, err := rendered(s.Template, c.Vars)
				want, failure, agreed := c.Expected, c.Error, true
				if want == nil && failure == nil {
					want, failure, agreed = c.HF, c.ErrorHF, false
				}
				name := kind
				if !agreed {
					name += " where engines differ"
				}
				counts[name]++
				switch {
				case want != nil && err != nil:
					t.Errorf("%s %s: %v", s.Name, c.Name, err)
				case want != nil && got != *want:
					t.Errorf("%s %s:\n%q, want\n%q", s.Name, c.Name, got, *want)
				case want == nil && err == nil:
					t.Errorf("%s %s: %q, want the error %s", s.Name, c.Name, got, *failure)
				case want == nil && !errors.As(err, new(*Error)):
					t.Errorf("%s %s: %v has no place", s.Name, c.Name, err)
				case want == nil && agreed && !strings.HasSuffix(err.Error(), *failure):
					t.Errorf("%s %s: %v, want %s", s.Name, c.Name, err, *failure)
				}
			}
		}
	}
	for name, n := range map[string]int{"templates": 68, "snippets": 60, "snippets where engines differ": 39} {
		if counts[name] != n {
			t.Errorf("%d %s, want %d", counts[name], name, n)
		}
	}
}
