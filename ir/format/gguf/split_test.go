package gguf

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/tmacc/tmacc/tests/ggufgen"
)

// aPart is a file of the names' tensors that says which part of how many it is, with how many tensors in all.
func aPart(no, count uint16, tensors int32, names ...string) *ggufgen.File {
	b := ggufgen.Header(uint64(len(names)), 4).
		Add("split.no", uint32(2), no, "split.count", uint32(2), count, "split.tensors.count", uint32(5), tensors).
		Add("general.name", uint32(8), fmt.Sprint("part ", no))
	for i, name := range names {
		b.Tensor(name, 24, uint64(32*i), 32)
	}
	b.Pad(0)
	for i := range names {
		b.Add(make([]byte, 31), []byte{byte(no)<<4 | byte(i)})
	}
	return b
}

// model writes files into a directory of their own.
func model(t *testing.T, files map[string]*ggufgen.File) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, f := range files {
		if err := os.WriteFile(filepath.Join(dir, name), f.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// three are the parts of a model; the first has no tensors, as llama-gguf-split --no-tensor-first-split writes it.
func three() map[string]*ggufgen.File {
	return map[string]*ggufgen.File{
		"m-00001-of-00003.gguf": aPart(0, 3, 3),
		"m-00002-of-00003.gguf": aPart(1, 3, 3, "a", "b"),
		"m-00003-of-00003.gguf": aPart(2, 3, 3, "c"),
	}
}

// By the path of any part the whole model is opened: the metadata of the first part and the tensors of all.
func TestSplit(t *testing.T) {
	dir := model(t, three())
	var paths []string
	for no := range 3 {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", no+1)))
	}
	for _, path := range paths {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if name, _ := f.Text("general.name"); name != "part 0" || len(f.Tensors) != 3 || !reflect.DeepEqual(f.Paths, paths) {
			t.Errorf("%s: %s, %d tensors of %v", path, name, len(f.Tensors), f.Paths)
		}
		for i, want := range []struct {
			name string
			last byte
		}{{"a", 0x10}, {"b", 0x11}, {"c", 0x20}} {
			x := f.Tensor(want.name)
			if x != &f.Tensors[i] {
				t.Fatalf("%s is not tensor %d", want.name, i)
			}
			if b, err := x.Bytes(); err != nil || len(b) != 32 || b[31] != want.last {
				t.Errorf("%s: %v, %v", want.name, b, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := f.Tensor("c").Bytes(); err == nil {
			t.Error("a part is open after Close")
		}
	}
}

// A part is never taken for the whole.
func TestSplitRefusals(t *testing.T) {
	const first, second, third = "m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"
	for _, c := range []struct {
		want   string
		change func(files map[string]*ggufgen.File)
		open   string
	}{
		{`gguf: part "m-00001-of-00003.gguf": is missing; all parts of a model must be in one directory`, func(f map[string]*ggufgen.File) { delete(f, first) }, third},
		{`gguf: part "m-00003-of-00003.gguf": is missing`, func(f map[string]*ggufgen.File) { delete(f, third) }, first},
		{`gguf: file "other.gguf": is part 2 of 3 of a model; to find the others, its name must end in -00002-of-00003.gguf`, func(f map[string]*ggufgen.File) { f["other.gguf"] = f[second] }, "other.gguf"},
		{`gguf: file "m-00003-of-00003.gguf": is part 2 of 3 of a model`, func(f map[string]*ggufgen.File) { f[third] = f[second] }, third},
		{`gguf: part "m-00003-of-00003.gguf": metadata: is of part 2 of 3, with 3 tensors in all; want part 3 of 3, with 3`, func(f map[string]*ggufgen.File) { f[third] = f[second] }, first},
		{`gguf: part "m-00003-of-00003.gguf": metadata: is of part 3 of 4, with 3 tensors in all; want part 3 of 3, with 3`, func(f map[string]*ggufgen.File) { f[third] = aPart(2, 4, 3, "c") }, first},
		{`gguf: part "m-00003-of-00003.gguf": metadata: is of part 3 of 3, with 4 tensors in all; want part 3 of 3, with 3`, func(f map[string]*ggufgen.File) { f[third] = aPart(2, 3, 4, "c") }, first},
		{`gguf: part "m-00002-of-00003.gguf": metadata: is of part 1 of 0, with 1 tensors in all; want part 2 of 3, with 3`, func(f map[string]*ggufgen.File) { f[second] = ggufgen.Header(1, 0).Tensor("a", 24, 0, 32).Pad(32) }, first},
		{`gguf: key "split.tensors.count": is 3, but there are 2 tensors`, func(f map[string]*ggufgen.File) { f[third] = aPart(2, 3, 3) }, first},
		{`gguf: key "split.tensors.count": is 3, but there are 4 tensors`, func(f map[string]*ggufgen.File) { f[third] = aPart(2, 3, 3, "c", "d") }, third},
		{`gguf: part "m-00002-of-00003.gguf": header: starts with "no! "; a GGUF`, func(f map[string]*ggufgen.File) { f[second] = new(ggufgen.File).Add([]byte("no! such file")) }, first},
		{`gguf: key "split.no": is missing; it should hold an integer`, func(f map[string]*ggufgen.File) {
			f[first] = ggufgen.Header(0, 1).Add("split.count", uint32(2), uint16(2))
		}, first},
		{`gguf: key "split.tensors.count": is missing`, func(f map[string]*ggufgen.File) {
			f[first] = ggufgen.Header(0, 2).Add("split.count", uint32(2), uint16(3), "split.no", uint32(2), uint16(0))
		}, first},
		{`gguf: key "split.no": is 3; the 3 parts of a model count from 0`, func(f map[string]*ggufgen.File) { f[first] = aPart(3, 3, 3) }, first},
		{`gguf: key "split.no": is 2; the 2 parts of a model count from 0`, func(f map[string]*ggufgen.File) { f[first] = aPart(2, 2, 0) }, first},
		{`gguf: file "m-00001-of-00003.gguf": is part 1 of 65535 of a model; to find the others, its name must end in -00001-of-65535.gguf`, func(f map[string]*ggufgen.File) { f[first] = aPart(0, 65535, 0) }, first},
		{`gguf: key "split.count": holds a string; it should hold an integer`, func(f map[string]*ggufgen.File) { f[first] = ggufgen.Header(0, 1).Add("split.count", uint32(8), "3") }, first},
		{`gguf: key "split.count": is 65536; a model has at most 65535 parts`, func(f map[string]*ggufgen.File) {
			f[first] = ggufgen.Header(0, 3).Add("split.count", uint32(4), uint32(65536), "split.no", uint32(2), uint16(0), "split.tensors.count", uint32(5), int32(0))
		}, first},
		{`gguf: key "split.count": is -1; a model`, func(f map[string]*ggufgen.File) {
			f[first] = ggufgen.Header(0, 1).Add("split.count", uint32(5), int32(-1))
		}, first},
		{`gguf: key "split.no": is -1; the 3 parts`, func(f map[string]*ggufgen.File) {
			f[first] = ggufgen.Header(0, 3).Add("split.count", uint32(2), uint16(3), "split.no", uint32(5), int32(-1), "split.tensors.count", uint32(5), int32(0))
		}, first},
	} {
		files := three()
		c.change(files)
		f, err := Open(filepath.Join(model(t, files), c.open))
		if f != nil {
			t.Errorf("%s: opened", c.want)
		}
		wantError(t, err, c.want)
	}
}

// A reader without a path cannot find the other parts; a file may also be the only part, or say how many tensors it has.
func TestOnePart(t *testing.T) {
	for _, c := range []struct {
		f    *ggufgen.File
		want string // or ""
	}{
		{aPart(1, 2, 3, "a"), `gguf: key "split.count": is 2: this is part 2 of a model; Open finds the other parts by the path of one`},
		{aPart(0, 1, 1, "a"), ""},
		{aPart(0, 0, 1, "a"), ""}, // what llama-gguf-split --merge leaves
		{aPart(7, 1, 1, "a"), ""},
		{aPart(0, 1, 2, "a"), `gguf: key "split.tensors.count": is 2, but there are 1 tensors`},
		{aPart(0, 0, -1, "a"), `gguf: key "split.tensors.count": is -1, but there are 1 tensors`},
		{ggufgen.Header(0, 1).Add("split.count", uint32(2), uint16(1)), ""},
		{ggufgen.Header(0, 1).Add("split.no", uint32(8), "x"), `gguf: key "split.no": holds a string; it should hold an integer`},
		{ggufgen.Header(0, 1).Add("split.tensors.count", uint32(5), int32(4)), `gguf: key "split.tensors.count": is 4, but there are 0 tensors`},
	} {
		f, err := Read(c.f.Bytes())
		if c.want == "" && (err != nil || f.Paths != nil) {
			t.Error(err)
		}
		path := filepath.Join(model(t, map[string]*ggufgen.File{"f.gguf": c.f}), "f.gguf")
		opened, openErr := Open(path)
		if c.want == "" {
			if openErr != nil || !reflect.DeepEqual(opened.Paths, []string{path}) {
				t.Error(openErr)
			}
			continue
		}
		wantError(t, err, c.want)
		if f != nil || opened != nil || openErr == nil {
			t.Errorf("%s: read", c.want)
		}
	}
}

// The limit on tensors is one for all parts.
func TestSplitTensors(t *testing.T) {
	head := func(no uint16, tensors, all int) *ggufgen.File {
		return ggufgen.Header(uint64(tensors), 3).Add("split.no", uint32(2), no, "split.count", uint32(2), uint16(2), "split.tensors.count", uint32(5), int32(all))
	}
	for first, want := range map[int]string{71_999: "", 72_000: "gguf: number of tensors: is 72001 in all parts; the limit of this reader is 72000"} {
		one, two := head(0, first, first+1), head(1, 1, first+1)
		for i := range first {
			one.Tensor(fmt.Sprint(i), 0, 0, 0)
		}
		dir := model(t, map[string]*ggufgen.File{"m-00001-of-00002.gguf": one, "m-00002-of-00002.gguf": two.Tensor("last", 0, 0, 0)})
		f, err := Open(filepath.Join(dir, "m-00002-of-00002.gguf"))
		if want != "" {
			wantError(t, err, want)
			continue
		}
		if err != nil || len(f.Tensors) != 72_000 {
			t.Fatal(err)
		}
		f.Close()
	}
}

// A tensor that is in two parts is doubtful in both, as one that is twice in one part; the rest of the model is read.
func TestSplitTwice(t *testing.T) {
	dir := t.TempDir()
	part := func(no uint16, names ...string) {
		path := filepath.Join(dir, fmt.Sprintf("m-%05d-of-00002.gguf", no+1))
		if err := os.WriteFile(path, aPart(no, 2, 5, names...).Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	part(0, "a", "both")
	part(1, "twice", "both", "twice")
	f, err := Open(filepath.Join(dir, "m-00002-of-00002.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, want := range []string{"", `gguf: tensor "both": is in another part, too`, `gguf: tensor "twice": is there twice`, `gguf: tensor "both": is in another part, too`, `gguf: tensor "twice": is there twice`} {
		if got := f.Tensors[i].Err; (got == nil) != (want == "") || got != nil && got.Error() != want {
			t.Errorf("tensor %d: %v, want %q", i, got, want)
		}
	}
}
