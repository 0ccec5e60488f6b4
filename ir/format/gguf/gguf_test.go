package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/tests/ggufgen"
)

const testdata = "../../../testdata/gguf"

func load(t testing.TB, name string) []byte {
	data, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Each value that testdata/gguf/README.md lists.
func TestMetadata(t *testing.T) {
	f, err := Read(load(t, "blocks.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"u8": uint8(255), "i8": int8(-128), "u16": uint16(65535), "i16": int16(-32768),
		"u32": uint32(4294967295), "i32": int32(-2147483648),
		"u64": uint64(math.MaxUint64), "i64": int64(math.MinInt64),
		"f32": float32(0.15625), "f64": 3.141592653589793,
		"bool_true": true, "bool_false": false, "str": "café 中文 🚀", "str_empty": "",
		"arr_u8": []uint8{1, 2, 255}, "arr_i8": []int8{-1, 0, 1},
		"arr_u16": []uint16{1, 65535}, "arr_i16": []int16{-5, 7},
		"arr_u32": []uint32{1, 2, 3, 4}, "arr_i32": []int32{-1, -2, -3},
		"arr_f32": []float32{0.5, -0.25}, "arr_f64": []float64{1e300, -1e-300},
		"arr_u64": []uint64{1 << 63}, "arr_i64": []int64{-1 << 62},
		"arr_bool": []bool{true, false, true}, "arr_str": []string{"a", "", "bc ✓"}, "arr_empty": []int32{},
	}
	found := 0
	for _, kv := range f.Meta {
		name, ok := strings.CutPrefix(kv.Key, "test.")
		if !ok {
			continue
		}
		found++
		if w, ok := want[name]; !ok || !reflect.DeepEqual(kv.Value, w) {
			t.Errorf("%s is %#v, want %#v", kv.Key, kv.Value, w)
		}
	}
	if found != len(want) {
		t.Errorf("%d test.* keys, want %d", found, len(want))
	}
	if arch, err := f.Text("general.architecture"); arch != "blocks" || err != nil {
		t.Error(arch, err)
	}
}

func TestTyped(t *testing.T) {
	f, err := Read(load(t, "blocks.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"test.u8": 255, "test.i8": -128, "test.u16": 65535, "test.i16": -32768, "test.u32": 1<<32 - 1, "test.i32": math.MinInt32, "test.i64": math.MinInt64} {
		got, err := f.Int(key)
		if want != int64(int(want)) { // an int of 32 bits
			wantError(t, err, fmt.Sprintf("key %q: %d is too large", key, want))
		} else if int64(got) != want || err != nil {
			t.Errorf("%s: %d, %v", key, got, err)
		}
	}
	for key, want := range map[string]float64{"test.f32": 0.15625, "test.f64": math.Pi} {
		if got, err := f.Float(key); got != want || err != nil {
			t.Errorf("%s: %v, %v", key, got, err)
		}
	}
	if n, err := mustRead(t, ggufgen.Header(0, 1).Add("n", uint32(10), uint64(math.MaxInt))).Int("n"); n != math.MaxInt || err != nil {
		t.Error(n, err)
	}
	_, err = f.Int("test.u64")
	wantError(t, err, `key "test.u64": 18446744073709551615 is too large`)
	_, err = f.Int("test.str")
	wantError(t, err, `key "test.str": holds a string; it should hold an integer`)
	_, err = f.Float("absent")
	wantError(t, err, `key "absent": is missing; it should hold a float`)
	_, err = f.Text("test.u8")
	wantError(t, err, `holds a uint8; it should hold a string`)
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v; want %s", err, want)
	}
}

// The files pack their tensors without gaps but padding, so that every size in
// the table of types is checked by the next tensor's offset.
func TestFiles(t *testing.T) {
	for name, want := range map[string]struct {
		tensors int
		arch    string
	}{"blocks.gguf": {158, "blocks"}, "blocks-i2s.gguf": {4, "bitnet-b1.58"}, "llama-q4_0.gguf": {30, "llama"}, "bitnet-tq2_0.gguf": {35, "bitnet"}} {
		data := load(t, name)
		f, err := Open(filepath.Join(testdata, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer f.Close()
		if arch, _ := f.Text("general.architecture"); len(f.Tensors) != want.tensors || arch != want.arch || f.Version != 3 {
			t.Errorf("%s: %d tensors, architecture %s, version %d", name, len(f.Tensors), arch, f.Version)
		}
		end := f.Tensors[0].Offset
		for i := range f.Tensors {
			x := &f.Tensors[i]
			if x.Offset != end || x.Offset%int64(f.Alignment) != 0 {
				t.Errorf("%s: %s %s %v at %d, want %d", name, x.Name, x.Type, x.Shape, x.Offset, end)
			}
			end = x.Offset + (x.Size+31)/32*32
			b, err := x.Bytes()
			if err != nil || !bytes.Equal(b, data[x.Offset:x.Offset+x.Size]) || f.Tensor(x.Name) != x {
				t.Errorf("%s: %s: bytes differ, %v", name, x.Name, err)
			}
		}
		if end != int64(len(data)) {
			t.Errorf("%s: tensors end at %d of %d", name, end, len(data))
		}
		inMemory, err := Read(data)
		if err != nil || !reflect.DeepEqual(inMemory.Meta, f.Meta) {
			t.Errorf("%s: Read and Open differ, %v", name, err)
		}
	}
}

func TestTypeName(t *testing.T) {
	f, err := Read(load(t, "blocks.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range f.Tensors {
		if base, _, _ := strings.Cut(x.Name, "."); x.Name == base || strings.HasSuffix(x.Name, ".raw") {
			n++
			if TypeName(x.Type) != base {
				t.Errorf("%s has type %s", x.Name, x.Type)
			}
		}
	}
	if n != 27+25 || TypeName(36) != "type36" || TypeName(1000) != "type1000" {
		t.Error(n, TypeName(36), TypeName(1000))
	}
}

// The id of I2_S counts as such only with the bytes of one.
func TestI2S(t *testing.T) {
	f, err := Read(load(t, "blocks-i2s.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if x := f.Tensor("I2_S"); x.TypeName() != "I2_S" || x.Size != 512*64/4+32 || f.Tensor("I2_S.x").TypeName() != "F32" {
		t.Errorf("%s of %d bytes", x.TypeName(), x.Size)
	}
	for size, want := range map[int]string{63: "type36", 64: "I2_S", 95: "I2_S", 96: "type36"} {
		f, err := Read(ggufgen.Header(1, 0).Tensor("t", 36, 0, 128).Pad(size).Bytes())
		if err != nil || f.Tensors[0].TypeName() != want {
			t.Errorf("%d bytes: %v, %v; want %s", size, f, err, want)
		}
	}
}

func TestSmall(t *testing.T) {
	b := ggufgen.Header(4, 2).
		Add("general.alignment", uint32(4), uint32(64)).
		Add("nest", uint32(9), uint32(9), uint64(2), uint32(4), uint64(1), uint32(7), uint32(8), uint64(1), "x").
		Tensor("b", 0, 128, 2).Tensor("a", 2, 0, 32, 3).Tensor("own", 36, 64, 100, 100).Tensor("empty", 0, 0, 0)
	b.Add(make([]byte, (64-b.Len()%64)%64+136))
	data := b.Bytes()
	binary.LittleEndian.PutUint32(data[4:], 2) // version 2 differs in nothing
	f, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.Get("nest"), []any{[]uint32{7}, []string{"x"}}) || f.Version != 2 || f.Alignment != 64 {
		t.Errorf("%+v", f)
	}
	a, own := f.Tensor("a"), f.Tensor("own")
	if a.Elements() != 96 || a.Size != 54 || a.Offset%64 != 0 || own.Size != 64 || own.Type.String() != "type36" || f.Tensor("c") != nil {
		t.Errorf("%+v %+v", a, own)
	}
	if x, err := f.Tensor("b").Bytes(); err != nil || len(x) != 8 || cap(x) != 8 {
		t.Error(len(x), cap(x), err)
	}
	_, err = f.Tensor("c").Bytes()
	wantError(t, err, "gguf: tensor: no such tensor")
}

// What makes the rest of a file doubtful, or says that there is none.
func TestRefusals(t *testing.T) {
	const huge = math.MaxUint64
	kv := func(values ...any) *ggufgen.File { return ggufgen.Header(0, 1).Add(values...) }
	for _, c := range []struct {
		want string
		f    *ggufgen.File
	}{
		{"header: the file ends within it", new(ggufgen.File)},
		{"header: the file ends within it", new(ggufgen.File).Add([]byte("GGUF"), []byte{3, 0, 0})},
		{`starts with "GGML"`, new(ggufgen.File).Add([]byte("GGMLxxxx"))},
		{"version is 0; versions 2 and 3 are read", new(ggufgen.File).Add([]byte("GGUF"), uint32(0), make([]byte, 16))},
		{"version is 1; versions 2 and 3 are read", new(ggufgen.File).Add([]byte("GGUF"), uint32(1), make([]byte, 16))},
		{"version is 4;", new(ggufgen.File).Add([]byte("GGUF"), uint32(4), make([]byte, 16))},
		{"version is 65539;", new(ggufgen.File).Add([]byte("GGUF"), uint32(1<<16+3), make([]byte, 16))},
		{"is big-endian", new(ggufgen.File).Add([]byte("GGUF"), uint32(3<<24), make([]byte, 16))},
		{"number of tensors: claims 18446744073709551615 of at least 24 bytes each, but only 8 bytes follow", ggufgen.Header(huge, 0)},
		{"number of tensors: the file ends within it", new(ggufgen.File).Add([]byte("GGUF"), uint32(3), make([]byte, 7))},
		{"number of metadata values: the file ends within it", new(ggufgen.File).Add([]byte("GGUF"), uint32(3), make([]byte, 15))},
		{"number of tensors: claims 2 of at least 24 bytes each, but only 47 bytes follow", ggufgen.Header(2, 0).Add(make([]byte, 39))},
		{`tensor "": the file ends within it`, ggufgen.Header(2, 0).Add(make([]byte, 40))}, // of the second one
		{"number of metadata values: claims 2 of at least 13 bytes each, but only 25 bytes follow", ggufgen.Header(0, 2).Add(make([]byte, 25))},
		{"metadata key: claims 18446744073709551615 of at least 1 bytes each, but only 20", kv(uint64(huge), make([]byte, 20))},
		{`key "a": has unknown value type 13`, kv("a", uint32(13), uint64(0))},
		{`key "a": the file ends within it`, kv("a", uint32(10), uint32(0))},
		{`key "a": claims 1099511627776 of at least 8 bytes each`, kv("a", uint32(9), uint32(10), uint64(1<<40))},
		{`key "a": claims 3 of at least 8 bytes each`, kv("a", uint32(9), uint32(8), uint64(3), uint64(0))},
		{`key "a": claims 2 of at least 1 bytes each, but only 1 bytes follow`, kv("a", uint32(9), uint32(8), uint64(2), "", uint64(2), []byte{'x'})},
		{`key "a": is an array of unknown value type 13`, kv("a", uint32(9), uint32(13), uint64(0))},
		{`"general.alignment": is 24576001; it must be a multiple of 8`, kv("general.alignment", uint32(4), uint32(24576001))},
		{`"general.alignment": is 0`, kv("general.alignment", uint32(4), uint32(0))},
		{`"general.alignment": is -8; it must be a multiple of 8`, kv("general.alignment", uint32(5), int32(-8))},
		{`"general.alignment": holds a string`, kv("general.alignment", uint32(8), "32")},
		{`"general.alignment": is there twice`, ggufgen.Header(0, 2).Add("general.alignment", uint32(4), uint32(32), "general.alignment", uint32(4), uint32(32))},
		{`tensor name: claims 17 of at least 1 bytes each, but only 16 bytes follow`, ggufgen.Header(1, 0).Add(uint64(17), make([]byte, 16))},
		{`tensor "t": 40 bytes at offset 32 of the data lie outside the file, which has 64 bytes of data: it was cut off or is damaged`, ggufgen.Header(1, 0).Tensor("t", 0, 32, 10).Pad(64)},
		{`tensor "t": bytes at offset 9223372036854775776 of the data lie outside the file`, ggufgen.Header(1, 0).Tensor("t", 0, math.MaxInt64&^31, 1).Pad(64)},
		{`tensor "t": bytes at offset 9223372036854775807 of the data lie outside the file`, ggufgen.Header(1, 0).Tensor("t", 0, huge, 1).Pad(64)},
		{`tensor "t": bytes at offset 0 of the data lie outside the file, which has 0 bytes of data`, ggufgen.Header(1, 0).Tensor("t", 0, 0, 1)},
		{fmt.Sprintf(`tensor "t": %d bytes at offset 0 of the data lie outside the file`, math.MaxInt), ggufgen.Header(1, 0).Tensor("t", 24, 0, math.MaxInt).Pad(64)},
		{`tensor "t": bytes at offset 64 of the data lie outside`, ggufgen.Header(1, 0).Tensor("t", 99, 64, 1).Pad(64)},
		{`key "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...": has unknown`, kv(strings.Repeat("a", 1000), uint32(13))},
		{`key "` + strings.Repeat("a", 80) + `": has unknown`, kv(strings.Repeat("a", 80), uint32(13))},
		{`key "a\nb": has unknown`, kv("a\nb", uint32(13))},
	} {
		f, err := Read(c.f.Bytes())
		if f != nil {
			t.Errorf("%s: read", c.want)
		}
		wantError(t, err, c.want)
	}
	_, err := Open(t.TempDir())
	wantError(t, err, "is not a regular file")
	if _, err := Open("absent.gguf"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A prefix of a file is refused unless it ends in the last padding; none panics.
func TestTruncated(t *testing.T) {
	data := load(t, "blocks-i2s.gguf")
	f, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	last := f.Tensors[len(f.Tensors)-1]
	for n := 0; n < len(data); n += 1 + n/4096*97 {
		if _, err := Read(data[:n]); err == nil && int64(n) < last.Offset+last.Size {
			t.Errorf("%d of %d bytes were read", n, len(data))
		}
	}
}

func FuzzGGUF(f *testing.F) {
	f.Add(ggufgen.Header(0, 0).Bytes())
	f.Add(ggufgen.Header(2, 1).Add("general.alignment", uint32(4), uint32(8)).Tensor("t", 0, 0, 2).Tensor("s", 2, 8, 32, 2).Pad(8 + 36).Bytes())
	f.Add(ggufgen.Header(3, 0).Tensor("x.weight", 41, 0, 512, 4).Tensor("x.scale", 0, 544, 1).Tensor("empty", 0, 0, 0).Pad(544 + 4).Bytes())
	f.Add(ggufgen.Header(1, 3).Add("split.no", uint32(2), uint16(0), "split.count", uint32(2), uint16(1), "split.tensors.count", uint32(5), int32(1)).Tensor("t", 0, 0, 1).Pad(4).Bytes())
	f.Add(ggufgen.Header(0, 2).Add("text", uint32(8), strings.Repeat("x", 300), "flags", uint32(9), uint32(7), uint64(300), bytes.Repeat([]byte{1, 2}, 150)).Bytes())
	f.Add(ggufgen.Header(0, 1).Add("a", uint32(9), uint32(9), uint64(1), uint32(8), uint64(2), "x", "y").Bytes())
	small := load(f, "blocks-i2s.gguf")
	f.Add(small[:2048])
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %v", err)
			}
			return
		}
		checkFile(t, file, data)
	})
}

// checkFile holds a file to what the package promises.
func checkFile(t *testing.T, f *File, data []byte) {
	total := int64(0)
	for i := range f.Tensors {
		x := &f.Tensors[i]
		b, err := x.Bytes()
		switch {
		case x.Err != nil:
			if err != x.Err || b != nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %d bytes, %v, but its Err is %v", x.Name, len(b), err, x.Err)
			}
			continue
		case err != nil || int64(len(b)) != x.Size || x.Elements() < 0 || f.Tensor(x.Name) != x:
			t.Fatalf("%s: %d bytes of %d, %v", x.Name, len(b), x.Size, err)
		}
		total += x.Size
		if _, err := f.Scales(x.Name); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %v", err)
		}
	}
	if total > int64(len(data)) {
		t.Fatalf("%d bytes of tensors in a file of %d", total, len(data))
	}
	for _, kv := range f.Meta {
		v, err := f.Value(kv.Key)
		if kv.Err != nil && (kv.Value != nil || !format.OneLine(kv.Err.Error())) || kv.Err == nil && (v == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v; Value %v, %v", kv.Key, kv.Value, kv.Err, v, err)
		}
	}
}
