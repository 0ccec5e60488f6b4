package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/tests/expected"
)

// runProcess is tmacc run in a process of its own, with more in its environment.
func runProcess(env []string, args ...string) (code int, stdout, stderr string) {
	cmd := exec.Command(os.Args[0], append([]string{"run"}, args...)...)
	cmd.Env = append(append(os.Environ(), "TMACC_TEST_MAIN=1"), env...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// The first run compiles kernels, the second maps them without Go, and pure Go writes the same.
func TestRunModel(t *testing.T) {
	needMeasuring(t)
	t.Setenv("TMACC_CACHE", t.TempDir())
	args := []string{"-p", "It was a cold morning, and", "-n", "16"}
	code, first, stderr := runProcess(nil, args...)
	if code != 0 || !strings.HasPrefix(first, "It was a cold morning, and the ") || !strings.HasSuffix(first, "\n") ||
		!strings.Contains(stderr, "tokens/s") || !strings.Contains(stderr, "(compiled); head q6_k; ") {
		t.Fatalf("exit code %d\n%s%s", code, first, stderr)
	}
	for how, env := range map[string][]string{"(kept)": {"PATH="}, "on purego;": {"PATH=", "TMACC_CPU=purego"}} {
		if code, out, stderr := runProcess(env, args...); code != 0 || out != first || !strings.Contains(stderr, how) {
			t.Errorf("%v: exit code %d\n%s%s", env, code, out, stderr)
		}
	}
	other := t.TempDir()
	code, out, stderr := runProcess([]string{"PATH=", "TMACC_CACHE=" + other}, args...)
	if code != 0 || out != first || strings.Count(stderr, "runs in pure Go, about ") != 1 || !strings.Contains(stderr, "install Go") {
		t.Errorf("without Go: exit code %d\n%s%s", code, out, stderr)
	}
	if code, out, stderr := runProcess(nil, append(args, "-q")...); code != 0 || out != first || stderr != "" {
		t.Errorf("-q: exit code %d\n%s%s", code, out, stderr)
	}
}

// -json has the text and all figures. Threads and the length of the context do not change the text, a seed does.
func TestRunJSON(t *testing.T) {
	needMeasuring(t)
	write := func(args ...string) (g generated) {
		t.Helper()
		if err := json.Unmarshal([]byte(ok(t, append([]string{"run", "-q", "-json", "-temp", "0.8"}, args...)...)), &g); err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := write("-n", "12")
	if g.Prompt != talePrompt || g.Text == "" || g.End != generation.Enough || g.Decode.Tokens != 12 || g.Prefill.Speed <= 0 || g.Decode.Speed <= 0 ||
		g.Architecture != "bitnet" || g.Threads < 1 || len(g.Kernels) != 2 || g.Kernels[0].Origin != kernels.Compiled && g.Kernels[0].Origin != kernels.Kept {
		t.Errorf("%+v", g)
	}
	for _, args := range [][]string{{"-threads", "1"}, {"-context", "32"}, {"-seed", "1"}} {
		if same := write(append(args, "-n", "12")...); same.Text != g.Text || same.Kernels[0].Origin != kernels.Kept {
			t.Errorf("%v: %q, want %q; %v", args, same.Text, g.Text, same.Kernels)
		}
	}
	if other := write("-seed", "2", "-n", "12"); other.Text == g.Text {
		t.Errorf("another seed: %q", other.Text)
	}
	if as := write("-n", "1", "-head", "q8_0"); g.Head != "q6_k" || as.Head != g.Head { // which takes less
		t.Errorf("heads %s and %s", g.Head, as.Head)
	}
	if full := write("-n", "0", "-context", "10", "-cache", "f32"); full.End != generation.Full || full.Prefill.Tokens+full.Decode.Tokens != 10 {
		t.Errorf("%+v", full)
	}
	if code, _, stderr := tmacc("run", "-q", "-p", ""); code != exitUsage || !strings.Contains(stderr, "tmacc: -p: the text is empty") {
		t.Errorf("no text: exit code %d\n%s", code, stderr)
	}
}

// A text that is too long is refused before it is printed, and a full context is said.
func TestRunContext(t *testing.T) {
	needMeasuring(t)
	if code, out, stderr := tmacc("run", "-q", "-context", "3"); code != exitUsage || out != "" {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	if code, _, stderr := tmacc("run", "-n", "0", "-context", "9"); code != 0 || !strings.HasSuffix(stderr, "\ntmacc: the context is full: -context 9, of at most 512\n") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// Standard input that holds a text and is not read is said, as a text of its own was meant.
func TestRunInput(t *testing.T) {
	needMeasuring(t)
	for _, args := range [][]string{{"run", "-n", "1"}, {"run", "-n", "1", "-p", "-"}} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1")
		cmd.Stdin = strings.NewReader("Dear Sir,")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		said := strings.Contains(stderr.String(), "standard input is not read without -p -")
		if read := strings.HasPrefix(string(out), "Dear Sir,"); err != nil || read == said || read != (len(args) > 3) {
			t.Errorf("%v: %v, %q\n%s", args, err, out, &stderr)
		}
	}
}

// A model's file writes, too, and takes its text from standard input.
func TestRunFile(t *testing.T) {
	needMeasuring(t)
	path, err := filepath.Abs("../tale/tale-bitnet-4m-tq2_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "run", path, "-q", "-p", "-", "-n", "4")
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1")
	cmd.Stdin = strings.NewReader(talePrompt + "\n")
	out, err := cmd.CombinedOutput()
	if want := ok(t, "run", "-q", "-n", "4"); err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// A head of floats is quantized when that is asked for, and the figures name its type.
func TestRunHead(t *testing.T) {
	needMeasuring(t)
	path := expected.File(t, "tale-bitnet-4m-f16.gguf")
	for head, formats := range map[string]int{"": 0, "q8_0": 1, "q6_k": 1} {
		var g generated
		args := []string{"run", path, "-q", "-json", "-n", "2", "-p", talePrompt}
		if head != "" {
			args = append(args, "-head", head)
		}
		if err := json.Unmarshal([]byte(ok(t, args...)), &g); err != nil {
			t.Fatal(err)
		}
		if len(g.Kernels) != formats || formats == 0 && g.Head != "f16" || formats == 1 && (g.Head != head || g.Kernels[0].Format != head) {
			t.Errorf("-head %q: a head of %s, %+v", head, g.Head, g.Kernels)
		}
	}
}

// Bad usage and bad files are one line that says what helps.
func TestRunRefusals(t *testing.T) {
	for _, r := range []refusal{
		{2, "run: 2 arguments, want one file", "run a.gguf b.gguf"},
		{2, "-n -1: want 1 or more, or 0", "run -n -1"},
		{2, "-temp 1000: want 0, the likeliest token, or 0.01 to 100", "run -temp 1000"},
		{2, "-temp NaN: want", "run -temp NaN"},
		{2, "-seed -1: want 0 or more", "run -seed -1"},
		{2, "-seed 5: has no effect on -temp 0, which takes the likeliest token: give -temp", "run -seed 5"},
		{2, "-threads 5000: want 1 to 1024, or 0: all", "run -threads 5000"},
		{2, "-cache q4: want f16, f32, q8", "run -cache q4"},
		{2, "-head q4_0: want q8_0 or q6_k", "run -head q4_0"},
		{2, "-context -1: want 1 or more", "run -context -1"},
		{2, "nofile.gguf: no such file", "run nofile.gguf -p a"},
		{2, "nofile.lock", "run -lock nofile.lock"},
		{2, `generate.go: gguf: header: starts with "pack"`, "run generate.go -p a"},
		{2, `blocks.gguf: token: key "tokenizer.ggml.model": is missing or empty: the file has no tokenizer`, "run ../../../testdata/gguf/blocks.gguf -p a"},
		{2, "tmacc: the text has 7 tokens, and -context 7 has room for 6 and a new one: give a shorter text or a longer -context", "run -context 7"},
		{2, "tmacc: -context is 5000; the model was made for 1 to 512 positions", "run -context 5000"},
		{2, "tmacc: nofile/dir.gguf: no such file", "run nofile/dir.gguf -p a"},
	} {
		if strings.Contains(r.want, "shorter text") {
			needMeasuring(t)
		}
		refused(t, r, "-q")
	}
}

// Words of TMACC_CPU that mean nothing are refused, all products alike.
func TestRunUnknownCPU(t *testing.T) {
	for env, want := range map[string]string{"foo": `TMACC_CPU=foo: unknown "foo": have purego, `, "-foo": `TMACC_CPU=-foo: unknown "-foo": no feature of a CPU`} {
		t.Setenv("TMACC_CPU", env)
		refused(t, refusal{2, want, "run -p a"})
	}
}

// A cache folder that others can write is refused.
func TestRunUnsafe(t *testing.T) {
	needMeasuring(t)
	shared := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(shared, "kernels"), 0o700), os.Chmod(filepath.Join(shared, "kernels"), 0o777)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMACC_CACHE", shared)
	refused(t, refusal{2, "cache folder " + shared + "/kernels: others can write it (mode 0777): remove it, as they may have done so", "run"})
}

// Packed weights are kept of large files, unless -repack is given.
func TestRunStore(t *testing.T) {
	f, err := gguf.Open("../tale/tale-bitnet-4m-tq2_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := &cli{err: io.Discard}
	small, err := c.store(opening{}, f)
	if small != nil || err != nil {
		t.Errorf("small: %v, %v", small, err)
	}
	f.Tensors[0].Size += largeFile // it is not read so far
	for repack, want := range map[bool]bool{false: true, true: false} {
		s, err := c.store(opening{repack: repack}, f)
		if (s != nil) != want || err != nil {
			t.Errorf("-repack=%t: %v, %v", repack, s, err)
		}
	}
}

// A text that is interrupted ends with what there is, and with figures.
func TestRunInterrupted(t *testing.T) {
	needMeasuring(t)
	ok(t, "run", "-q", "-n", "1")
	cmd := exec.Command(os.Args[0], "run", "-n", "0", "-temp", "100")
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1", "TMACC_CPU=purego") // slow enough
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := bufio.NewReader(out)
	if _, err := text.ReadString(','); err != nil { // of the given text
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Skip(err) // of Windows
	}
	for {
		if _, err := text.ReadByte(); err != nil {
			break
		}
	}
	cmd.Wait()
	if code, said := cmd.ProcessState.ExitCode(), stderr.String(); code != exitFailed || !strings.HasSuffix(said, "tmacc: interrupted\n") || !strings.Contains(said, "prefill of") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

// The line of figures says what was added, also where that gives no speed.
func TestSpeed(t *testing.T) {
	w := &writing{}
	w.flags.threads = 2
	for want, r := range map[string]generation.Report{
		"prefill of 4 tokens at 8.0 tokens/s, 2 threads":                                             {Prompt: 4, Prefill: time.Second / 2},
		"prefill of 1 token at 2.0 tokens/s (3 more were kept), 1 added, 2 threads":                  {Kept: 3, Prompt: 1, Prefill: time.Second / 2, Tokens: 1},
		"prefill of 4 tokens at 8.0 tokens/s, 9 added at 4.0 tokens/s (5 were forgotten), 2 threads": {Prompt: 4, Prefill: time.Second / 2, Tokens: 9, Decode: 2 * time.Second, Forgotten: 5},
	} {
		if got := w.speed(&r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
