package command

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
)

// tmacc runs the command in this process.
func tmacc(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

// ok runs a command that must succeed.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, out, stderr := tmacc(args...)
	if code != 0 {
		t.Fatalf("tmacc %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return out
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// header is a GGUF file of one tensor of 8192 bytes of zeros.
func header(name string, typ uint32, shape ...uint64) string {
	var b bytes.Buffer
	add := func(values ...any) {
		for _, v := range values {
			binary.Write(&b, binary.LittleEndian, v)
		}
	}
	add([]byte("GGUF"), uint32(3), uint64(1), uint64(0))
	add(uint64(len(name)), []byte(name), uint32(len(shape)), shape, typ, uint64(0))
	add(make([]byte, (32-b.Len()%32)%32), make([]byte, 8192))
	return b.String()
}

// refusal is bad input: the command, its exit code, and what its one line says.
type refusal struct {
	code int
	want string
	args string
}

func refused(t *testing.T, r refusal, args ...string) {
	t.Helper()
	args = append(strings.Fields(r.args), args...)
	code, _, stderr := tmacc(args...)
	if code != r.code || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tmacc: ") || !strings.Contains(stderr, r.want) {
		t.Errorf("tmacc %s: exit code %d\n%s\twant %d and one line with %s", strings.Join(args, " "), code, stderr, r.code, r.want)
	}
}

func TestRefusals(t *testing.T) {
	for _, r := range []refusal{
		{2, `unknown command "foo": have bench, cache, compare, compile`, "foo"},
		{2, `unknown command "foo": have bench, cache, compare, compile`, "help foo"},
		{2, `unknown command "show foo": have bench, cache, compare, compile`, "help show foo"},
		{2, `no-such-folder/x: no such file`, "log -log no-such-folder/x"},
		{2, `no-such-folder/x: no such file`, "log -prune 1h -log no-such-folder/x"},
		{2, `tmacc: -time 0s: want more than nothing`, "tune -format w2 -time 0s"},
		{2, `tmacc: -trials 0: want at least 1`, "tune -format w2 -trials 0"},
		{2, `tmacc: -patience -1: want at least 1`, "tune -format w2 -patience -1"},
		{2, `tmacc: -m 0: want 1 to 16777216`, "tune -format w2 -m 0"},
		{2, `tmacc: -k -1: want 1 to 16777216`, "tune -format w2 -k -1"},
		{2, `tmacc: -m 1048576 -k 4096: at most 1073741824 weights are measured`, "tune -format w2 -m 1048576 -k 4096"},
		{2, `tmacc: -k 131073: schedules are searched that are exact for K up to 131072`, "tune -format w2 -k 131073"},
		{2, `unknown flag: -foo`, "show -foo"},
		{2, `flag needs an argument: -format`, "show -format"},
		{2, `tmacc: run: flag needs an argument: -p text; see tmacc run -h`, "run -p"},
		{2, `tmacc: run: unknown flag: -z; see tmacc run -h`, "run -z"},
		{2, `tmacc: run: -temp: "x": want a number; see tmacc run -h`, "run -temp x"},
		{2, `tmacc: run: -temp: "1e999": is too large; see tmacc run -h`, "run -temp 1e999"},
		{2, `formats: 1 argument, want none`, "formats w2"},
		{2, `nothing to compile`, "compile"},
		{2, `a.gguf: no such file`, "compile a.gguf b.gguf"},
		{2, `2 arguments, want one file`, "lower a.vir b.vir"},
		{2, `tmacc: format: unknown format "w44": there are w1 ternary`, "compile -format w44"},
		{2, `unknown format "w44"`, "show -format w44"},
		{2, `groups are written -g32; did you mean ternary?`, "show -format ternay"},
		{2, `; did you mean avx2?`, "show -format w2 -target avx3"},
		{2, `; did you mean arm64/neon?`, "compile -dry-run -format w2 -target arm64/nein"},
		{2, `; did you mean golden-cove?`, "compile -dry-run -format w2 -target avx2 -core goldencove"},
		{2, `; did you mean zen4?`, "show -format w2 -target avx512vbmi+zen-4"},
		{2, `; did you mean golden-cove?`, "cores golden_cove"},
		{2, `; did you mean h200?`, "show -format w2 -cost -target spirv -core h20"},
		{2, `unknown command "complie": have bench, `, "complie"},
		{2, `; did you mean compile?`, "help complie"},
		{2, `; did you mean run or tune?`, "rune"},
		{2, `; did you mean q4_0, q4_1 or q4_k?`, "show -format q4_9"},
		{2, `tmacc: compile: unknown flag: -formt; see tmacc compile -h; did you mean -format?`, "compile -formt w2"},
		{2, `tmacc: compile: unknown flag: -no-recods; see tmacc compile -h; did you mean -no-records?`, "compile -no-recods"},
		{2, `tmacc: show: unknown flag: -NO-records; see tmacc show -h; did you mean -no-records?`, "show -NO-records"},
		{2, `tmacc: show: unknown flag: -Format; see tmacc show -h; did you mean -format?`, "show -Format=w2"},
		{2, `tmacc: show: unknown flag: -Formats; see tmacc show -h; did you mean -format?`, "show -Formats w2"},
		{2, `tmacc: compile: unknown flag: -Target; see tmacc compile -h; did you mean -target?`, "compile -Target x"},
		{2, `groups are written -g32; did you mean w4-g32?`, "compile -format w4g32"},
		{2, `unknown format "w44"`, "bench -format w44"},
		{2, `group is 17; it must be a multiple of 16`, "compile -format w4-g17"},
		{2, `unknown piece "g0"`, "show -format w4-g0"},
		{2, `activation group 7: want 0`, "compile -format w4 -act-group 7"},
		{2, `activation group 48: neither divides the weight group 32`, "show -format w4-g32 -act-group 48"},
		{2, `-act i4: want int8 or f32`, "compile -format w4 -act i4"},
		{2, `-act-group 32: f32 activations have no scales`, "show -format w4 -act f32 -act-group 32"},
		{2, `weight "w8": has 256 levels in 8 bits; tables of f32 activations are for codes of at most 4 bits: quantize the activations`, "compile -format w8-f32act"},
		{2, `weight "w4-g32-m": minimums need sums of quantized activations`, "bench -format w4-g32-m-f32act"},
		{2, `unknown model "gpt": have bitnet-b1.58-2b-4t, llama-2-7b, llama-2-7b-2bit, llama-3-8b`, "compile -model gpt"},
		{2, `unknown target "sse": have host, amd64/avx2`, "compile -format w4 -target sse"},
		{2, `unknown target "sse"`, "show -format w4 -target sse"},
		{2, `unknown target ""`, "bench -format w4 -target avx2,"},
		{2, `-trace is for one format on one target: these are 2 formats`, "compile -format w4,w2 -trace t.json"},
		{2, `-package Bad: the name must be lower-case letters and digits`, "compile -format w4 -package Bad"},
		{2, `-package func: the name must be no keyword of Go`, "compile -format w4 -package func"},
		{2, `-module "a:b": want a path`, "compile -format w4 -module=a:b"},
		{2, `-o run.go: is not a directory`, "compile -format w4 -o run.go"},
		{2, `-o: names no directory: . is this one`, "compile -format w4 -output="},
		{2, `unknown stage "foo": have problem`, "show -format w4 -stage foo"},
		{2, `no format: give one with -format`, "show"},
		{2, `has 3 columns: have 1`, "show -format w4 -cols 3"},
		{2, `nofile.gguf: no such file`, "compile nofile.gguf"},
		{2, `nofile.json: no such file`, "show -format nofile.json"},
		{2, `nofile: no such file`, "show -format w4 -trace nofile"},
		{2, `nofile: no such file`, "lower nofile"},
		{2, `nofile: no such file`, "bench -check nofile"},
		{2, `lower: 0 arguments, want one file`, "lower"},
		{2, `.: is a directory`, "lower ."},
		{2, `is not a regular file`, "compile ."},
		{2, `unknown mode "x": have dram, l3, l2`, "bench -mode x"},
		{2, `-n 0: want 1`, "bench -n 0"},
		{2, `-m 0: want 1`, "bench -m 0"},
		{2, `-k 1099511627776: want 1`, "bench -k 1099511627776"},
		{2, `-rounds -1: want 1 to 1000`, "bench -rounds -1"},
		{2, `-rounds 0: want 1 to 1000`, "bench -rounds 0"},
		{2, `-trace is for one format`, "bench -trace t.json"},
		{2, `bench: -n: "x": want numbers, separated by commas; see tmacc bench -h`, "bench -n x"},
		{2, `bench: -rounds: "x": want a number`, "bench -rounds x"},
		{2, `bench: -rounds: "99999999999999999999": is too large`, "bench -rounds 99999999999999999999"},
		{2, `tmacc: unknown flag: -x; see tmacc -h`, "-x"},
		{2, `-k 50: w4-g32 wants a multiple of 32`, "tune -format w4-g32 -k 50"},
		{2, `-k 96: w4-g32 wants a multiple of 64`, "tune -format w4-g32 -act-group 64 -k 96"},
		{2, `-k 2048: w3-g48 wants a multiple of 48`, "bench -q -format w3-g48 -k 2048"},
		{2, `"max-k=99999999999999999999": is too large`, "compile -no-check -kernel name=A,format=w4,max-k=99999999999999999999"},
		{2, `activation group -2: want 0`, "compile -no-check -kernel name=A,format=w4,act-group=-2"},
		{2, `-2: want 1 to 16777216, or 0`, "compile -no-check -kernel name=A,format=w4,max-k=-2"},
		{2, `-resume: begins with what the log has`, "tune -format w2 -resume -log none"},
		{2, `-tune -1s: want more than nothing`, "compile -format w4 -tune -1s"},
		{2, `activation group -1: want 0`, "show -format w4 -act-group -1"},
		{2, `-max-k -1: want 1 to 16777216, or 0`, "compile -format w4 -max-k -1"},
		{2, `-n 65536 -m 16 -k 131072: at most 1073741824 activations`, "bench -format w2 -n 65536 -m 16 -k 131072"},
		{2, `no-such-folder/x.svg: no-such-folder: no such file`, "tune -format w2 -plot no-such-folder/x.svg"},
		{2, `-n 4096 -m 16777216 -k 64: at most 1073741824 activations`, "tune -format w2 -n 4096 -m 16777216 -k 64"},
		{2, `: is empty: mend it`, "bench -format w2 -lock " + os.DevNull},
	} {
		refused(t, r)
	}
}

// Text that would become something else than it says is refused.
func TestRefusedTexts(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, x := range []struct{ want, args, text string }{
		{`format: weight: levels[1] is JSON null; want an integer`, "show -format", `{"name":"mine","bits":2,"levels":[-1,null,1],"per":"row","scale":"f32"}`},
		{`format "mine-f32act": names that end in -f32act say`, "show -format", `{"name":"mine-f32act","bits":2,"levels":[-1,0,1],"per":"row","scale":"f32"}`},
		{`line 1: func is a word or a name of Go`, "lower", "func func(a ptr)\n"},
		{`line 1: init is a word or a name of Go`, "lower", "func init(a ptr)\n"},
		{`line 1: type is a word or a name of Go`, "lower", "func f(a ptr, type int)\n"},
	} {
		if err := os.WriteFile("x.json", []byte(x.text), 0o666); err != nil {
			t.Fatal(err)
		}
		refused(t, refusal{2, x.want, x.args}, "x.json")
	}
}

// Formats of one name are one product only if they are one format.
func TestSameNames(t *testing.T) {
	t.Chdir(t.TempDir())
	for file, text := range map[string]string{
		"a": `{"name":"mine-1","bits":2,"levels":[-1,0,1],"per":"row","scale":"f32"}`,
		"b": `{"name":"mine-1","bits":2,"levels":[-1,0,2],"per":"row","scale":"f32"}`,
		"c": `{"name":"mine.1","bits":2,"levels":[-1,0,1],"per":"row","scale":"f32"}`,
	} {
		if err := os.WriteFile(file+".json", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, refusal{2, "format mine-1: there are two different ones", "compile -dry-run -format a.json,b.json"})
	refused(t, refusal{2, "formats mine-1 and mine.1: both make product Mine1", "compile -dry-run -format a.json,c.json"})
	ok(t, "compile", "-dry-run", "-format", "a.json,a.json")
}

// Files that are cut short or lie about themselves.
func TestHostileFiles(t *testing.T) {
	gguf, err := os.ReadFile("../../../testdata/gguf/llama-q4_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct{ want, text string }{
		{"the file ends within it", ""},
		{`starts with "GIF8"`, "GIF89a, certainly"},
		{"claims 30 of at least 24 bytes each, but only", string(gguf[:20])},
		{"gguf: ", string(gguf[:5000])},
		{"gguf: ", string(gguf[:len(gguf)/2])},
		{"metadata values: claims", "GGUF\x03\x00\x00\x00" + strings.Repeat("\x00", 8) + strings.Repeat("\xff", 8)},
		{"number of tensors: claims", "GGUF\x03\x00\x00\x00" + strings.Repeat("\xff", 16)},
		{"has no tensors", "GGUF\x03\x00\x00\x00" + strings.Repeat("\x00", 16)},
		{`tensor "w"`, header("w", 2, 1<<40, 1)},
		{`tensor "w"`, header("w", 2, 32, 1<<40)},
	} {
		refused(t, refusal{2, f.want, "compile"}, file(t, "x.gguf", f.text))
	}
	refused(t, refusal{3, "nothing of this can be compiled", "compile -o"}, t.TempDir(), file(t, "x.gguf", header("w", 1, 32, 4)))
}

func TestBadText(t *testing.T) {
	for _, r := range []struct {
		refusal
		text string
	}{
		{refusal{2, "t.json:1: unexpected end of JSON", "show -format w2 -trace"}, `[{"split":`},
		{refusal{2, `t.json:2: invalid character ']'`, "show -format w2 -trace"}, "[\n{]"},
		{refusal{2, `t.json:3: invalid character '"'`, "show -format"}, "{\n\"name\": \"x\"\n\"bits\": 3}"},
		{refusal{2, `t.json:2: unexpected end of JSON`, "show -format"}, "{\"name\": \"x\",\n "},
		{refusal{2, `weight "x": has no group`, "show -format"}, `{"name":"x","bits":1,"levels":[-1,1],"per":"group","scale":"f16"}`},
		{refusal{2, `no transform "frob" (have`, "show -format w2 -trace"}, `[{"frob":{}}]`},
		{refusal{2, `t.json: not a trace: want a list of steps, as tmacc show -stage trace prints`, "show -format w2 -trace"}, "decompose dot\nhoist\n[]"},
		{refusal{2, `t.json:3: invalid character ']'`, "show -format w2 -trace"}, "decompose dot\n[\n{]"},
		{refusal{2, `t.json: not a trace: want a list of steps`, "show -format w2 -trace"}, "1\n[]"},
		{refusal{2, `t.json: not a trace: want a list of steps, as tmacc show -stage trace prints`, "show -format w2 -trace"}, `{"split":{}}`},
		{refusal{2, `t.json: not a trace: want a list of steps`, "show -format w2 -trace"}, `["split"]`},
		{refusal{2, `t.json: not a trace: want a list of steps`, "show -format w2 -trace"}, `null`},
		{refusal{2, `step 0: split: unknown field`, "show -format w2 -trace"}, `[{"split":{"lop":"m"}}]`},
		{refusal{2, `step 1: split`, "show -format w2 -trace"}, `[{"decompose":{"family":"dot","value":"affine"}},{"split":{"loop":"q","by":4,"into":["a","b"]}}]`},
		{refusal{2, `t.json of W2: w2 on amd64/avx2: trace: has no decompose`, "compile -format w2 -target avx2 -dry-run -trace"}, `[]`},
		{refusal{2, `trace: has no`, "compile -format w2 -trace"}, `[{"decompose":{"family":"dot","value":"affine"}}]`},
		{refusal{2, `weight`, "show -format"}, `{"name":"mine","bits":9}`},
		{refusal{2, `weight`, "show -format"}, `{"name":"mine","bits":2,"levels":[1,2,3,999],"per":"row","scale":"f32"}`},
		{refusal{2, `JSON array; want an object`, "show -format"}, `[1]`},
		{refusal{2, `limits: `, "bench -check"}, `{"avx2":{"w2":{"bpw":-1}}}`},
		{refusal{2, `limits: `, "bench -check"}, `{`},
		{refusal{2, `vir: line 1: `, "lower -target avx2"}, "hello"},
		{refusal{2, `vir: line 1: no function`, "lower -target avx2"}, ""},
		{refusal{2, `vir: line 3: `, "lower -target avx2"}, "func f(x ptr)\n\tv0:u8x32 = load x+0\n\tv1:u8x32 = frob v0\n"},
		{refusal{2, `vir: line 3: func f: store x+0 v7: v7 is used before it is defined`, "lower -target avx2"}, "func f(x ptr)\n\tv0:u8x32 = load x+0\n\tstore x+0 v7\n\tstore x+0 v0\n"},
		{refusal{2, `vir: line 5: `, "lower -target avx2"}, "func f(x ptr, n int)\n\tloop l0 n\n\tv0:u8x32 = load x+0 l0*32\n\tend\n\tstore x+0 v0\n"},
		{refusal{2, `vector registers of 16`, "lower -target avx2"}, manyRegisters(40)},
	} {
		refused(t, r.refusal, file(t, "t.json", r.text))
	}
}

// manyRegisters is vir that needs n registers at once.
func manyRegisters(n int) string {
	text := "func f(x ptr, n int)\n"
	for i := range n {
		text += fmt.Sprintf("\tv%d:i32x8 = load x+%d\n", i, 32*i)
	}
	text += "\tloop l0 n carry"
	for i := range n {
		text += fmt.Sprintf(" v%d", i)
	}
	text += "\n"
	for i := range n {
		text += fmt.Sprintf("\tv%d:i32x8 = add v%d v%d\n", i, i, (i+1)%n)
	}
	text += "\tend\n"
	for i := range n {
		text += fmt.Sprintf("\tstore x+%d v%d\n", 32*i, i)
	}
	return text
}

func TestLists(t *testing.T) {
	if out := ok(t, "formats"); !strings.Contains(out, "iq4_nl") || !strings.Contains(strings.Join(strings.Fields(out), " "), "f16 per 32 Q4_0") {
		t.Error(out)
	}
	var formats []struct{ Name string }
	if err := json.Unmarshal([]byte(ok(t, "formats", "-json")), &formats); err != nil || formats[0].Name != "w1" {
		t.Error(formats, err)
	}
	if out := ok(t, "targets"); !strings.Contains(out, "amd64/avx2") || !strings.Contains(out, "arm64/dotprod") {
		t.Error(out)
	}
	var targets []struct {
		Name string
		Bits int `json:"vector_bits"`
	}
	if err := json.Unmarshal([]byte(ok(t, "targets", "--json")), &targets); err != nil || len(targets) < 3 || targets[0].Bits != 256 {
		t.Error(targets, err)
	}
	if out := ok(t, "host"); !strings.Contains(out, "target host: ") || !strings.Contains(out, "\nCPU features that targets need: has ") || strings.Contains(out, "\ncore: ") != (len(targeting.Here()) > 0) {
		t.Error(out)
	}
	has, missing := neededOn(timing.Host{Arch: "amd64", Features: []string{"AVX2", "F16C"}})
	if got := listed(has) + "; " + listed(missing); got != "AVX2 F16C; AVXVNNI AVX512F AVX512BW AVX512DQ AVX512VL AVX512VNNI AVX512VBMI" {
		t.Error(got)
	}
	var host struct {
		CPU              string
		Has, Lacks, Runs []string
	}
	if err := json.Unmarshal([]byte(ok(t, "host", "-json")), &host); err != nil || host.CPU == "" || host.Has == nil || host.Lacks == nil {
		t.Error(host, err)
	}
	if out := ok(t, "compile", "-h"); !strings.Contains(out, "-model string") || strings.Contains(out, "--") || !strings.Contains(out, "tmacc compile model.gguf") {
		t.Error(out)
	}
	if out := ok(t, "help", "compile"); out != ok(t, "compile", "-h") || ok(t, "help") != ok(t) {
		t.Error(out)
	}
	if out := ok(t, "version"); !strings.HasPrefix(out, "tmacc "+gomod.Compiler()+", go") {
		t.Error(out)
	}
	if out := ok(t); !strings.Contains(out, "compile    write a Go package") || !strings.Contains(out, "\nUsage: tmacc COMMAND\n") {
		t.Error(out)
	}
}

// full is a device that writes less and less, as one that is full does.
type full struct{ room int }

func (f *full) Write(data []byte) (int, error) {
	n := min(len(data), f.room)
	f.room -= n
	if n < len(data) {
		return n, errors.New("no space left")
	}
	return n, nil
}

// Output that is lost is an error of every command, which is said once, beside that of the command if it has one.
func TestLostOutput(t *testing.T) {
	for _, args := range []string{"", "formats", "formats -json", "targets", "host", "version", "help", "compile -h", "completion bash",
		"show -format w2 -target avx2 -stage asm", "compile -dry-run -format w2 -target avx2", "log -log " + file(t, "log", "")} {
		for _, room := range []int{0, 10} {
			var stderr bytes.Buffer
			if code := run(strings.Fields(args), &full{room}, &stderr); code != exitFailed || stderr.String() != "tmacc: no space left\n" {
				t.Errorf("tmacc %s: exit code %d, %s", args, code, &stderr)
			}
		}
	}
	var stderr bytes.Buffer
	odd := ggufOf(t, filepath.Join(t.TempDir(), "odd.gguf"), nil, w4("a.weight"), ggufTensor{"odd.weight", 99, 32, []uint64{32, 2}})
	code := run([]string{"compile", "-dry-run", odd}, &full{}, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "1 left out") || !strings.HasSuffix(stderr.String(), "tmacc: no space left\n") {
		t.Errorf("left-out tensors: exit code %d, %s", code, &stderr)
	}
}

// Every stage is there, and the printed text can be read again.
func TestShow(t *testing.T) {
	out := ok(t, "show", "-format", "w4-g32", "-target", "avx2")
	for _, want := range []string{
		`== problem`, `"levels":[-8,`, `== expr`, "sum[n:N m:M g:K/32] i32 =", "== origin\ndefault: ", "== trace", "decompose dot", `{"prefetch":{"bytes":`,
		"== nest", "nest matmul(out, step.out, codes", "== layout", `{"name":"scales","elem":"f16"`, "== vir", "func matmul(out ptr",
		"== passes", "-- legalize", "== machine", "kernel matmul\n", "== asm", "TEXT ·matmul(SB), NOSPLIT",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("show has no %q", want)
		}
	}
	vir := ok(t, "show", "-format", "w4-g32", "-target", "avx2", "-stage", "vir")
	asm := ok(t, "lower", file(t, "x.vir", vir), "-target", "amd64/avx2")
	code := func(s string) string { return s[strings.Index(s, "TEXT"):strings.Index(s, "\tRET")] }
	if code(asm) != code(out) || !strings.Contains(asm, "// func matmul(args *matmulArgs)") {
		t.Error("lower of the vir that show prints gives other assembly")
	}
	trace := file(t, "t.json", json1(t, ok(t, "show", "-format", "w4-g32", "-target", "avx2", "-stage", "trace")))
	again := ok(t, "show", "-format", "w4-g32", "-target", "avx2", "-trace", trace)
	compiled := func(s string) string { return s[strings.Index(s, "== trace"):] }
	if compiled(again) != compiled(out) || !strings.Contains(again, "== origin\ntrace: "+trace+"\n") {
		t.Error("show of the trace that show prints is different")
	}
	format := file(t, "f.json", `{"name":"mine","bits":3,"levels":[-9,-3,0,4,11],"per":"group","scale":"f32","group":48}`)
	if out := ok(t, "show", "-format", format, "-stage", "expr,layout"); !strings.Contains(out, "[-9 -3 0 4 11]") {
		t.Error(out)
	}
	if out := ok(t, "show", "-format", "w2", "-prepare", "-target", "avx2"); !strings.Contains(out, "TEXT ·prepare(SB)") {
		t.Error("show -prepare has no assembly")
	}
}

// json1 is the JSON after the one line of a trace.
func json1(t *testing.T, text string) string {
	_, after, found := strings.Cut(text, "\n")
	if !found {
		t.Fatal(text)
	}
	return after
}

func TestLowerWrites(t *testing.T) {
	in := file(t, "x.vir", "func f(x ptr)\n\tv0:u8x32 = load x+0\n\tstore x+32 v0\n")
	out := filepath.Join(t.TempDir(), "f_amd64.s")
	ok(t, "lower", in, "-target", "avx2", "-o", out)
	data, err := os.ReadFile(out)
	if err != nil || !bytes.Contains(data, []byte("VMOVDQU")) {
		t.Errorf("%s %v", data, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) != 1 {
		t.Error("a temporary file is left")
	}
}
