package command

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/order"
)

// readers are commands that read a file of text: %s is its name.
var readers = []string{
	"lower -target avx2 %s", "show -format %s", "show -format w2 -trace %s", "compile -config %s", "compile -format %s",
	"bench -check %s", "bench -peer ggml=. -check %s", "bench -format w2 -trace %s", "bench -lock %s", "report -log none -bench %s",
	"compile -kernel name=A,format=%s", "compile -target avx2 -kernel name=A,format=w2,trace=%s",
}

// A file that is no text is refused as such by every command, and no part of it is printed.
func TestBinaryFiles(t *testing.T) {
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for want, text := range map[string]string{
		"x.json: is no text in UTF-8":                 string(program[:5000]),
		"x.json: is text in UTF-16: save it as UTF-8": "\xff\xfef\x00u\x00n\x00c\x00",
		"x.json: is a GGUF file, which tmacc compile takes as its argument or by -gguf; want a text": "GGUF" + strings.Repeat("\x00", order.MaxText),
	} {
		if err := os.WriteFile("x.json", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, reader := range readers {
			code, _, stderr := tmacc(strings.Fields(fmt.Sprintf(reader, "x.json"))...)
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if last := lines[len(lines)-1]; code != exitUsage || !strings.HasPrefix(last, "tmacc: ") || !strings.HasSuffix(last, want) {
				t.Errorf("%s: exit code %d, %.300q; want %s", reader, code, stderr, want)
			}
		}
	}
}

// An empty file is said to be empty, with what it should have.
func TestEmptyFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, text := range []string{"", "\ufeff \r\n\n"} {
		if err := os.WriteFile("x.json", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		for args, want := range map[string]string{
			"show -format x.json":                                    "x.json: is empty: want a format, as tmacc formats -json prints them",
			"show -format w2 -trace x.json":                          "x.json: is empty: want a list of steps, as tmacc show -stage trace prints",
			"compile -target avx2 -format w2 -dry-run -trace x.json": "x.json: is empty: want a list of steps",
			"bench -check x.json":                                    "x.json: is empty: want limits, such as docs/lab/limits.json",
			"bench -peer ggml=. -check x.json":                       "x.json: is empty: want ratios, such as docs/lab/ratios.json",
			"report -log none -bench x.json":                         "x.json: is empty: want what tmacc bench -json printed",
			"compile -config x.json":                                 "x.json:1: is empty: it needs one of format",
			"lower -target avx2 x.json":                              "vir: line ",
		} {
			refused(t, refusal{exitUsage, want, args})
		}
	}
}

// Errors repeat little of a long line, and nothing that a terminal acts on.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for args, text := range map[string]string{
		"lower -target avx2":                  long,
		"show -format":                        `{"name":"` + long + `"}`,
		"show -format ":                       `{"` + long + `":1}`,
		"show -format w2 -trace":              `[{"` + long + `":{}}]`,
		"show -format w2 -target avx2 -trace": `[{"split":{"` + long + `":1}}]`,
		"bench -check":                        `{"` + long + `":1}`,
		"bench -lock":                         `{"` + long + `":1}`,
	} {
		code, _, stderr := tmacc(append(strings.Fields(args), file(t, "x.json", text))...)
		if code != exitUsage || len(stderr) > 1000 || !strings.Contains(stderr, "x.json") {
			t.Errorf("%s: exit code %d, %d bytes: %.300s", args, code, len(stderr), stderr)
		}
	}
	refused(t, refusal{exitUsage, `unknown command "\x1b[31mred": have bench`, "\x1b[31mred"})
	refused(t, refusal{exitUsage, `/\x1b[31mred.gguf: no such file`, "compile /\x1b[31mred.gguf"})
	for text, want := range map[string]string{"a\tb\n\n c": "a b; c", "\x1b[31m\xff é": `\x1b[31m\xff é`} {
		if got := oneLine(errors.New(text)); got != want {
			t.Errorf("%.80q: %.80q, want %.80q", text, got, want)
		}
	}
}
