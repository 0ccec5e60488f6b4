package chat

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"os"
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

// samples reads testdata/renderings.json.gz: templates in the formats of six families of models, and snippets of one
// construct each, with the results of jinja2 3.1.2 as transformers sets it up, and of llama.cpp's engine.
func samples(t testing.TB) (templates, snippets []sample) {
	t.Helper()
	f, err := os.Open("testdata/renderings.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all struct{ Templates, Snippets []sample }
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&all)
	}
	if err != nil {
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

// testdata/jinja2.json has snippets in more of the language, with the results of jinja2 3.1.6, which was set up in the same way.
func TestSnippets(t *testing.T) {
	text, err := os.ReadFile("testdata/jinja2.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Template        string
		Vars            map[string]json.RawMessage
		Expected, Error *string
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		switch got, err := rendered(s.Template, s.Vars); {
		case s.Expected == nil && (err == nil || !errors.As(err, new(*Error))):
			t.Errorf("%s: %q, %v, want an error such as %s", s.Template, got, err, *s.Error)
		case s.Expected != nil && (err != nil || got != *s.Expected):
			t.Errorf("%s: %v\n%q, want\n%q", s.Template, err, got, *s.Expected)
		}
	}
}
