package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

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
	b := ggufgen.Header(3, 2).
		Add("general.alignment", uint32(4), uint32(64)).
		Add("nest", uint32(9), uint32(9), uint64(2), uint32(4), uint64(1), uint32(7), uint32(8), uint64(1), "x").
		Tensor("b", 0, 128, 2).Tensor("a", 2, 0, 32, 3).Tensor("own", 36, 64, 100, 100)
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

func TestRefusals(t *testing.T) {
	const huge = math.MaxUint64
	kv := func(values ...any) *ggufgen.File { return ggufgen.Header(0, 1).Add(values...) }
	for _, c := range []struct {
		want string
		f    *ggufgen.File
	}{
		{"header: the file ends within it", new(ggufgen.File)},
		{`starts with "GGML"`, new(ggufgen.File).Add([]byte("GGMLxxxx"))},
		{"version is 1; versions 2 and 3 are read", new(ggufgen.File).Add([]byte("GGUF"), uint32(1), make([]byte, 16))},
		{"version is 4;", new(ggufgen.File).Add([]byte("GGUF"), uint32(4), make([]byte, 16))},
		{"is big-endian", new(ggufgen.File).Add([]byte("GGUF"), uint32(3<<24), make([]byte, 16))},
		{"number of tensors: claims 18446744073709551615 of at least 24 bytes", ggufgen.Header(huge, 0)},
		{"number of metadata values: claims 1000", ggufgen.Header(0, 1000)},
		{"metadata key: claims 18446744073709551615 of at least 1 bytes each, but only 20", kv(uint64(huge), make([]byte, 20))},
		{`key "": a key has 1 to 65535 bytes`, kv("", uint32(0), []byte{1})},
		{`key "a": is there twice`, ggufgen.Header(0, 2).Add("a", uint32(0), []byte{1}, "a", uint32(0), []byte{1})},
		{`key "a": has unknown value type 13`, kv("a", uint32(13), uint64(0))},
		{`key "a": a bool is 0 or 1, not 2`, kv("a", uint32(7), []byte{2})},
		{`key "a": the file ends within it`, kv("a", uint32(10), uint32(0))},
		{`key "a": claims 1099511627776 of at least 8 bytes each`, kv("a", uint32(9), uint32(10), uint64(1<<40))},
		{`key "a": claims 3 of at least 8 bytes each`, kv("a", uint32(9), uint32(8), uint64(3), uint64(0))},
		{`key "a": a bool is 0 or 1, not 9`, kv("a", uint32(9), uint32(7), uint64(2), []byte{1, 9})},
		{`key "a": is an array of unknown value type 99`, kv("a", uint32(9), uint32(99), uint64(0))},
		{`has arrays nested deeper than 4`, kv("a", uint32(9), uint32(9), uint64(1), uint32(9), uint64(1), uint32(9), uint64(1), uint32(9), uint64(1), uint32(9), uint64(0))},
		{`"general.alignment": is 24576001; it must be a multiple of 8`, kv("general.alignment", uint32(4), uint32(24576001))},
		{`"general.alignment": is 0`, kv("general.alignment", uint32(4), uint32(0))},
		{`"general.alignment": holds a string`, kv("general.alignment", uint32(8), "32")},
		{`tensor "": tensor 0 has no name`, ggufgen.Header(1, 0).Tensor("", 0, 0, 1)},
		{`has a name of 129 bytes; at most 128 are read`, ggufgen.Header(1, 0).Tensor(strings.Repeat("a", 129), 0, 0, 1)},
		{`tensor "a\nb": has a name that cannot be printed on one line`, ggufgen.Header(1, 0).Tensor("a\nb", 0, 0, 1)},
		{`tensor "a\x1b[2J": has a name that cannot be printed on one line`, ggufgen.Header(1, 0).Tensor("a\x1b[2J", 0, 0, 1)},
		{`tensor "a\xff": has a name that cannot be printed on one line`, ggufgen.Header(1, 0).Tensor("a\xff", 0, 0, 1)},
		{`tensor "\ufeffa": has a name that cannot be printed on one line`, ggufgen.Header(1, 0).Tensor("\ufeffa", 0, 0, 1)},
		{`number of tensors: is 8193; at most 8192 are read`, ggufgen.Header(1<<13+1, 0).Pad(24<<13 + 24)},
		{`number of metadata values: is 65537; at most 65536 are read`, ggufgen.Header(0, 1<<16+1).Pad(13<<16 + 13)},
		{`key "a": has more than 65536 arrays in arrays`, kv("a", uint32(9), uint32(9), uint64(1<<16+1)).Pad(12<<16 + 12)},
		{`tensor "t": is there twice`, ggufgen.Header(2, 0).Tensor("t", 0, 0, 1).Tensor("t", 0, 32, 1)},
		{`tensor "t": has 5 dimensions`, ggufgen.Header(1, 0).Tensor("t", 0, 0, 1, 1, 1, 1, 1)},
		{`tensor "t": has 0 dimensions`, ggufgen.Header(1, 0).Tensor("t", 0, 0)},
		{`tensor "t": has 4294967295 dimensions`, ggufgen.Header(1, 0).Add("t", uint32(math.MaxUint32), uint64(0), uint64(0))},
		{`tensor "t": shape [4 0] has an extent below 1`, ggufgen.Header(1, 0).Tensor("t", 0, 0, 4, 0)},
		{fmt.Sprintf(`tensor "t": shape [%d %[1]d] is too large`, math.MaxInt), ggufgen.Header(1, 0).Tensor("t", 24, 0, math.MaxInt, math.MaxInt)},
		{fmt.Sprintf(`tensor "t": shape [%d] is too large`, math.MaxInt/2), ggufgen.Header(1, 0).Tensor("t", 0, 0, math.MaxInt/2)},
		{`tensor "t": extent 18446744073709551615 is too large`, ggufgen.Header(1, 0).Tensor("t", 0, 0, math.MaxUint64)},
		{`tensor "t": rows of 48 values are not whole Q4_0 blocks of 32`, ggufgen.Header(1, 0).Tensor("t", 2, 0, 48, 2)},
		{`tensor "t": offset 8 is not a multiple of the alignment of 32`, ggufgen.Header(1, 0).Tensor("t", 0, 8, 1).Pad(64)},
		{`tensor "t": 40 bytes at offset 32 of the data lie outside the file, which has 64 bytes of data`, ggufgen.Header(1, 0).Tensor("t", 0, 32, 10).Pad(64)},
		{`tensor "t": 4 bytes at offset 9223372036854775776 of the data lie outside the file`, ggufgen.Header(1, 0).Tensor("t", 0, math.MaxInt64&^31, 1).Pad(64)},
		{`tensor "t": 4 bytes at offset 0 of the data lie outside the file, which has 0 bytes of data`, ggufgen.Header(1, 0).Tensor("t", 0, 0, 1)},
		{`tensor "t": bytes of unknown number at offset 64 of the data lie outside`, ggufgen.Header(1, 0).Tensor("t", 36, 64, 1).Pad(64)},
		{`tensor "s": 36 bytes at offset 0 of the data overlap tensor "t" at 32`, ggufgen.Header(2, 0).Tensor("t", 0, 32, 1).Tensor("s", 0, 0, 9).Pad(64)},
		{`tensor "t": 4 bytes at offset 0 of the data overlap tensor "s" at 0`, ggufgen.Header(2, 0).Tensor("t", 0, 0, 1).Tensor("s", 0, 0, 1).Pad(64)},
		{`key "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...": has unknown`, kv(strings.Repeat("a", 1000), uint32(13))},
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
}

// No prefix of a file reads, but for those that end in the last padding; none panics.
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
	f.Add(ggufgen.Header(2, 1).Add("general.alignment", uint32(4), uint32(8)).Tensor("t", 0, 0, 2).Tensor("s", 2, 8, 32, 2).Pad(64).Bytes())
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
		total := int64(0)
		for i := range file.Tensors {
			x := &file.Tensors[i]
			b, err := x.Bytes()
			if err != nil || int64(len(b)) != x.Size || x.Elements() < 1 {
				t.Fatalf("%s: %d bytes of %d, %v", x.Name, len(b), x.Size, err)
			}
			total += x.Size
		}
		if total > int64(len(data)) {
			t.Fatalf("%d bytes of tensors in a file of %d", total, len(data))
		}
	})
}
