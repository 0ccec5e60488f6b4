package command

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model/generation"
)

// Bad values of flags, and flags without effect, are one line with the name of the flag.
func TestSamplingRefusals(t *testing.T) {
	for _, r := range []refusal{
		{2, "-top-k -1: want 1 or more, or 0: all", "run -temp 1 -top-k -1"},
		{2, "-top-k 40: has no effect on -temp 0, which takes the likeliest token: give -temp, such as -temp 0.8", "run -top-k 40"},
		{2, "-top-p 1.5: want more than 0, up to 1: all", "run -temp 1 -top-p 1.5"},
		{2, "-top-p 0: want more than 0", "run -temp 1 -top-p 0"},
		{2, "-min-p NaN: want 0, all, to 1", "run -temp 1 -min-p NaN"},
		{2, "-typical -1: want more than 0", "run -typical -1"},
		{2, "-repeat-last-n -2: want 1 or more, or -1: all", "run -repeat-last-n -2"},
		{2, "-repeat-last-n 5: has no effect without a penalty, such as -repeat-penalty 1.1", "run -repeat-last-n 5"},
		{2, "-repeat-last-n 0: penalties have no effect then: leave them out", "run -repeat-last-n 0 -presence-penalty 1"},
		{2, "-repeat-penalty 0: want more than 0", "run -repeat-penalty 0"},
		{2, "-presence-penalty +Inf: want -1000 to 1000", "run -presence-penalty Inf"},
		{2, "-frequency-penalty 1001: want -1000 to 1000", "run -frequency-penalty 1001"},
		{2, "-logit-bias 15: want the id of a token, + or -, and a number, such as 15043+1.5 or 15043-inf", "run -logit-bias 15"},
		{2, "-logit-bias -1+2: want the id", "run -logit-bias -1+2"},
		{2, "-logit-bias 15+nan: want the id", "run -logit-bias 15+nan"},
		{2, "-mirostat 3: want 1 or 2, or 0: off", "run -temp 1 -mirostat 3"},
		{2, "-temp 0: want more than 0, as Mirostat chooses at random", "run -mirostat 2"},
		{2, "-repeat-penalty 1.5: has no effect beside -mirostat 2", "run -temp 1 -mirostat 2 -repeat-penalty 1.5"},
		{2, "-mirostat-ent 3: has no effect without -mirostat", "run -temp 1 -mirostat-ent 3"},
		{2, "-mirostat-lr 2: want more than 0, up to 1", "run -temp 1 -mirostat 1 -mirostat-lr 2"},
		{2, "-seed -1: want 0 or more", "run -seed -1"},
		{2, "-grammar: line 1, column 8: there is no rule x", "run -grammar root::=x"},
		{2, "nofile.gbnf: no such file", "run -grammar-file nofile.gbnf"},
		{2, "sampling_test.go: line 1, column 9: want ::= after the name of a rule, not 'c'", "run -grammar-file sampling_test.go"},
		{2, `-json-schema: #/type: there is no type "text": want null, boolean`, `run -json-schema {"type":"text"}`},
		{2, "sampling_test.go: line 1, column 1: JSON: invalid character 'p'", "run -json-schema-file sampling_test.go"},
		{2, "-grammar and -json-schema: only one of them can say which texts may come", "run -grammar root::=x -json-schema {}"},
	} {
		refused(t, r, "-q")
	}
	for _, flag := range []string{"-stop", "-grammar", "-json-schema-file"} {
		if code, _, err := runProcess(nil, flag, ""); code != 2 || !strings.Contains(err, flag+": the text is empty") {
			t.Errorf("exit code %d: %s", code, err)
		}
	}
	needMeasuring(t)
	refused(t, refusal{2, "-logit-bias: there is no token 99999: the model has 2048", "run -logit-bias 99999+1"}, "-q")
}

// The same seed gives the same text on every target, with every sampler.
func TestSamplingTargets(t *testing.T) {
	needMeasuring(t)
	targets := []string{"purego"}
	if runtime.GOARCH == "amd64" {
		targets = append(targets, "avx2")
	}
	likeliest := ok(t, "run", "-q", "-n", "8")
	for _, flags := range []string{
		"-temp 0.9 -top-k 100 -typical 0.95 -top-p 0.9 -min-p 0.01 -repeat-penalty 1.3 -presence-penalty 0.5 -frequency-penalty 0.2 -logit-bias 262-inf",
		"-temp 0.8 -mirostat 1 -seed 7", "-temp 0.8 -mirostat 2 -mirostat-ent 3",
		`-temp 1 -json-schema {"type":"array","items":{"type":"integer"},"minItems":3}`,
	} {
		args := append([]string{"-q", "-n", "8"}, strings.Fields(flags)...)
		want := ok(t, append([]string{"run"}, args...)...)
		if want == likeliest {
			t.Errorf("%s: no other text: %q", flags, want)
		}
		for _, cpu := range targets {
			if code, out, stderr := runProcess([]string{"TMACC_CPU=" + cpu}, args...); code != 0 || out != want {
				t.Errorf("%s, %s: exit code %d, %q, want %q\n%s", flags, cpu, code, out, want, stderr)
			}
		}
	}
}

// -stop ends a text.
func TestStopFlag(t *testing.T) {
	needMeasuring(t)
	all := strings.TrimSuffix(ok(t, "run", "-q", "-n", "16"), "\n")
	stop := all[len(all)-6:]
	var g generated
	if err := json.Unmarshal([]byte(ok(t, "run", "-q", "-json", "-n", "40", "-stop", stop, "-stop", "qqqq")), &g); err != nil {
		t.Fatal(err)
	}
	if want, _, _ := strings.Cut(all, stop); g.Prompt+g.Text != want || g.End != generation.Stopped {
		t.Errorf("%+v, want %q", g, want)
	}
}

// A schema is held to within the limit of tokens, and a grammar ends the text.
func TestGrammarFlags(t *testing.T) {
	needMeasuring(t)
	file := filepath.Join(t.TempDir(), "schema.json")
	const schema = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]}`
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-json-schema-file", file, "-temp", "1"}, {"-json-schema", schema}} {
		var g generated
		var person struct {
			Name *string
			Age  *int64
		}
		text := ok(t, append([]string{"run", "-q", "-json", "-n", "30"}, args...)...)
		if err := errors.Join(json.Unmarshal([]byte(text), &g), json.Unmarshal([]byte(g.Text), &person)); err != nil || person.Name == nil || person.Age == nil || g.End != generation.Stopped {
			t.Errorf("%+v, %v", g, err)
		}
	}
	if code, out, stderr := runProcess(nil, "-q", "-n", "3", "-json-schema", schema); code != 0 || !strings.HasPrefix(out, talePrompt+"{") || !strings.Contains(stderr, "the text is not complete by its grammar") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	if text := ok(t, "run", "-q", "-p", "Yes or no?", "-grammar", `root ::= " " ("yes" | "no") "!"`); text != "Yes or no? yes!\n" && text != "Yes or no? no!\n" {
		t.Errorf("%q", text)
	}
}
