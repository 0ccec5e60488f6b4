package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/tests/ggufgen"
)

// ggufTensor is a tensor of a file that is made.
type ggufTensor struct {
	name  string
	typ   uint32
	bytes int
	shape []uint64
}

// w4 is a Q4_0 matrix of 2 rows of 32.
func w4(name string) ggufTensor { return ggufTensor{name, 2, 36, []uint64{32, 2}} }

// ggufOf is a file of the tensors, one after the other; values are metadata.
func ggufOf(t *testing.T, path string, values []any, tensors ...ggufTensor) string {
	t.Helper()
	b, offset := ggufgen.Header(uint64(len(tensors)), uint64(len(values)/3)).Add(values...), 0
	for _, x := range tensors {
		b.Tensor(x.name, x.typ, uint64(offset), x.shape...)
		offset += (x.bytes + 31) / 32 * 32
	}
	b.Pad(0)
	for range offset / 4 {
		b.Add(float32(1)) // which is a scale, and weights are what they are
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func planOf(t *testing.T, code int, args ...string) order.Plan {
	t.Helper()
	got, out, stderr := tmacc(append([]string{"compile", "-dry-run", "-json", "-target", "avx2"}, args...)...)
	var p order.Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil || got != code {
		t.Fatalf("exit code %d, want %d; %v\n%s", got, code, err, stderr)
	}
	return p
}

// matrices are the tensors of a plan's products, with the number of matrices.
func matrices(p order.Plan) string {
	var b strings.Builder
	for _, x := range p.Products {
		for _, s := range x.Shapes {
			fmt.Fprintf(&b, "%s %d x %d: %d %v; ", x.Format, s.M, s.K, s.Count, s.Tensors)
		}
	}
	return b.String()
}

// Tensors that no product is for are listed, and the others are compiled. Those that are no fault change no exit code.
func TestIrrelevantTensors(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("long", 50)
	p := planOf(t, 0, ggufOf(t, filepath.Join(dir, "fine.gguf"), nil, w4("a.weight"), ggufTensor{"empty", 0, 0, []uint64{0}}, ggufTensor{"scalar", 0, 4, nil}, ggufTensor{"norm", 0, 8, []uint64{2}}))
	if got := fmt.Sprint(p.Others); got != "[empty scalar norm]" || len(p.LeftOut) != 0 || matrices(p) != "q4_0 2 x 32: 1 [a.weight]; " {
		t.Errorf("%s, %v, %s", got, p.LeftOut, matrices(p))
	}
	for _, c := range []struct {
		ggufTensor
		want, shown string
	}{
		{ggufTensor{long, 0, 4, []uint64{1}}, "has a name of 200 bytes; the limit of this reader is 128", long[:79] + "…"},
		{ggufTensor{"\x1b[2J\n", 0, 4, []uint64{1}}, "has a name that cannot be printed on one line", `"\x1b[2J\n"`},
		{ggufTensor{"", 2, 36, []uint64{32, 2}}, "tensor 1 has no name", `""`},
		{ggufTensor{"a.weight", 2, 36, []uint64{32, 2}}, "is there twice", "a.weight"},
		{ggufTensor{"x", 2, 36, []uint64{33, 2}}, "rows of 33 values are not whole Q4_0 blocks of 32", "x"},
		{ggufTensor{"x", 2, 0, []uint64{0, 64}}, "Q4_0 matrix of 64 rows and 0 columns: both must be at least 1", "x"},
		{ggufTensor{"x", 2, 36, []uint64{1 << 40, 1 << 40}}, "shape [1099511627776 1099511627776] is too large", "x"},
	} {
		path := ggufOf(t, filepath.Join(dir, "x.gguf"), nil, w4("a.weight"), c.ggufTensor, w4("b.weight"))
		left := c.want == "is there twice"
		p := planOf(t, 3, path)
		if want := "[a.weight b.weight]"; !left && matrices(p) != "q4_0 2 x 32: 2 "+want+"; " {
			t.Errorf("%s: compiles %s", c.want, matrices(p))
		}
		if n := len(p.LeftOut); (n != 1 || left) && n != 2 || !strings.Contains(p.LeftOut[0].Reason, c.want) {
			t.Errorf("%s: left out: %v", c.want, p.LeftOut)
		}
		code, out, _ := tmacc("compile", "-dry-run", "-target", "avx2", path)
		if code != 3 || !strings.Contains(out, "\n"+c.shown+"  ") || !strings.Contains(out, c.want) || !format.OneLine(strings.ReplaceAll(out, "\n", "")) {
			t.Errorf("%s: exit code %d\n%q", c.want, code, out)
		}
	}
}

// Matrices of floats need no kernels: they are listed, and change no exit code, even where a file has no others.
func TestFloatTensors(t *testing.T) {
	dir := t.TempDir()
	half := ggufTensor{"half.weight", 1, 128, []uint64{32, 2}}
	for _, c := range []struct {
		tensors []ggufTensor
		want    string
	}{
		{[]ggufTensor{w4("a.weight"), half}, "\nfloats, multiplied by package runtime/ops: half.weight\n"},
		{[]ggufTensor{half}, "nothing to compile: all matrices are of floats"},
	} {
		path := ggufOf(t, filepath.Join(dir, "x.gguf"), nil, c.tensors...)
		for _, args := range [][]string{{"-dry-run"}, {"-no-check", "-no-measure", "-o", filepath.Join(dir, "kernels")}} {
			code, out, stderr := tmacc(append([]string{"compile", "-target", "avx2", path}, args...)...)
			if code != 0 || args[0] == "-dry-run" && !strings.Contains(out+stderr, c.want) {
				t.Errorf("%v: exit code %d\n%s%s", args, code, out, stderr)
			}
		}
	}
}

// Left-out tensors are grouped by type and reason; the JSON has each tensor.
func TestLeftOutGroups(t *testing.T) {
	var tensors []ggufTensor
	for layer := range 107 {
		tensors = append(tensors, ggufTensor{fmt.Sprintf("blk.%d.ffn_gate_inp.weight", layer), 25, 128, []uint64{32, 2}}, ggufTensor{fmt.Sprintf("blk.%d.ssm_a.weight", layer), 25, 128, []uint64{32, 2}})
	}
	tensors = append(tensors, w4("a.weight"), ggufTensor{"token_embd.weight", 30, 128, []uint64{32, 2}}, ggufTensor{"odd.weight", 99, 32, []uint64{32, 2}})
	path := ggufOf(t, filepath.Join(t.TempDir(), "x.gguf"), nil, tensors...)
	if p := planOf(t, 3, path); len(p.LeftOut) != 215 || p.LeftOut[213].Name != "blk.106.ssm_a.weight" || p.LeftOut[213].Type != "I16" || fmt.Sprint(p.Floats) != "[token_embd.weight]" {
		t.Errorf("%d left out, floats %v", len(p.LeftOut), p.Floats)
	}
	code, out, _ := tmacc("compile", "-dry-run", "-target", "avx2", path)
	const reason = "not a type of low-bit weights that tmacc reads; tmacc formats lists those\n"
	_, out, _ = strings.Cut(out, "\n\nleft out ")
	want := "                                             number  type    reason\n" +
		"blk.LAYER.ffn_gate_inp.weight blk.LAYER.ssm_a.weight     214  I16     " + reason +
		"odd.weight                                                 1  type99  " + reason
	if code != 3 || out != want {
		t.Errorf("exit code %d\n%s\nwant\n%s", code, out, want)
	}
	// Lines have an end, too.
	tensors = nil
	for i := range 150 {
		tensors = append(tensors, ggufTensor{"t." + string(rune('a'+i%26)) + strings.Repeat("x", i/26), uint32(100 + i), 32, []uint64{32, 2}})
	}
	_, out, _ = tmacc("compile", "-dry-run", "-target", "avx2", ggufOf(t, path, nil, tensors...))
	if strings.Count(out, reason) != 100 || !strings.HasSuffix(out, "and what has 50 other reasons: -json lists all\n") {
		t.Errorf("%d lines\n%s", strings.Count(out, reason), out)
	}
}

// An id that means another format is not believed, and the reason is one line for all tensors of the id.
func TestForeignTypeID(t *testing.T) {
	seq := func(name string) ggufTensor { return ggufTensor{name, 41, 130 * 8, []uint64{512, 8}} }
	path := ggufOf(t, filepath.Join(t.TempDir(), "x.gguf"), nil, seq("blk.0.ffn_up.weight"), seq("blk.1.ffn_up.weight"), w4("output.weight"))
	p := planOf(t, 3, path)
	const want = `type id 41 is not Q1_0 in this file: tensor "blk.0.ffn_up.weight" takes 576 bytes as Q1_0 of shape [512 8], but 1056 lie before tensor "blk.1.ffn_up.weight": 0.2578 bytes per value, as in Q2_0C, for which other programs use this id`
	if matrices(p) != "q4_0 2 x 32: 1 [output.weight]; " || len(p.LeftOut) != 2 || p.LeftOut[0].Reason != want || p.LeftOut[1].Reason != want {
		t.Errorf("%s\n%v", matrices(p), p.LeftOut)
	}
	if _, out, _ := tmacc("compile", "-dry-run", "-target", "avx2", path); !strings.Contains(out, "blk.LAYER.ffn_up.weight       2  Q1_0  "+want+"\n") {
		t.Error(out)
	}
}

// A part of a split model stands for the whole, however often it is named, and is refused without the others.
func TestSplitModel(t *testing.T) {
	dir := t.TempDir()
	part := func(no uint16, tensors ...ggufTensor) string {
		return ggufOf(t, filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", no+1)),
			[]any{"split.no", uint32(2), no, "split.count", uint32(2), uint16(3), "split.tensors.count", uint32(5), int32(3)}, tensors...)
	}
	one, two, three := part(0, w4("blk.0.a.weight")), part(1, w4("blk.1.a.weight")), part(2, ggufTensor{"norm", 0, 8, []uint64{2}})
	const want = "q4_0 2 x 32: 2 [blk.0.a.weight blk.1.a.weight]; "
	link := filepath.Join(t.TempDir(), "link.gguf")
	for _, args := range [][]string{{one}, {two}, {three}, {one, two, three}, {three, "-gguf", one}, {"-gguf", one + "," + one}, {one, filepath.Join(dir, ".", "sub", "..", "m-00002-of-00003.gguf")}} {
		if p := planOf(t, 0, args...); matrices(p) != want || fmt.Sprint(p.Others) != "[norm]" {
			t.Errorf("%v: %s, %v", args, matrices(p), p.Others)
		}
	}
	if err := os.Symlink(one, link); err == nil {
		if p := planOf(t, 0, one, link); matrices(p) != want {
			t.Errorf("by a link: %s", matrices(p))
		}
		refused(t, refusal{2, `is part 1 of 3 of a model; to find the others, its name must end in -00001-of-00003.gguf`, "compile"}, link)
	}
	if err := os.Remove(two); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{one, three} {
		refused(t, refusal{2, `gguf: part "m-00002-of-00003.gguf": is missing; all parts of a model must be in one directory`, "compile"}, path)
	}
	part(1, w4("blk.0.a.weight"))
	if p := planOf(t, 3, one); len(p.LeftOut) != 2 || p.LeftOut[0].Reason != "is in another part, too" || p.LeftOut[0] != p.LeftOut[1] {
		t.Errorf("a tensor in two parts: %+v", p.LeftOut)
	}
	part(1)
	refused(t, refusal{2, `key "split.tensors.count": is 3, but there are 2 tensors`, "compile"}, one)
}

// Several files are several arguments. A tensor that two have alike is compiled once; one that differs is refused.
func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	a := ggufOf(t, filepath.Join(dir, "a.gguf"), nil, w4("both.weight"), w4("a.weight"))
	b := ggufOf(t, filepath.Join(dir, "b.gguf"), nil, w4("both.weight"), ggufTensor{"b.weight", 8, 68, []uint64{32, 2}})
	other := ggufOf(t, filepath.Join(dir, "c.gguf"), nil, w4("c.weight"), ggufTensor{"both.weight", 8, 68, []uint64{32, 2}})
	const want = "q4_0 2 x 32: 2 [both.weight a.weight]; q8_0 2 x 32: 1 [b.weight]; "
	for _, args := range [][]string{{a, b}, {a, "-gguf", b}, {a, b, a}} {
		if p := planOf(t, 0, args...); matrices(p) != want {
			t.Errorf("%v: %s", args, matrices(p))
		}
	}
	refused(t, refusal{2, `c.gguf: tensor both.weight is 1 of 2 x 32 in Q8_0, but 1 of 2 x 32 in Q4_0 in ` + a + `: make a package for each file`, "compile"}, a, other)
	ok(t, "compile", a, b, "-no-check", "-q", "-target", "avx2", "-o", filepath.Join(dir, "out"), "-package", "both")
}

// A scale tensor belongs to its matrix; one without a matrix is no matrix. One that its matrix cannot have leaves the matrix out.
func TestScaleTensors(t *testing.T) {
	stack := func(name string) ggufTensor { return ggufTensor{name, 40, 36 * 3, []uint64{64, 1, 3}} }
	scales := func(name string, n uint64) ggufTensor { return ggufTensor{name, 0, int(4 * n), []uint64{n}} }
	path := ggufOf(t, filepath.Join(t.TempDir(), "x.gguf"), nil, scales("up_exps.scale", 3), stack("up_exps.weight"), stack("one.weight"), scales("one.scale", 1), scales("orphan.scale", 1),
		stack("bad.weight"), scales("bad.scale", 2))
	p := planOf(t, 3, path)
	if fmt.Sprint(p.Others) != "[orphan.scale]" || len(p.LeftOut) != 1 || matrices(p) != "nvfp4 1 x 64: 6 [up_exps.weight one.weight]; " {
		t.Errorf("%v, %v, %s", p.Others, p.LeftOut, matrices(p))
	}
	if l := p.LeftOut[0]; l.Name != "bad.weight" || l.Reason != `gguf: tensor "bad.scale": has 2 values of F32; tensor "bad.weight" of 3 matrices takes 1 or 3 of F32` {
		t.Errorf("%+v", l)
	}
}
