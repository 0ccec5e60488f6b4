package gguf

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/tests/ggufgen"
)

// good is a matrix that takes 96 bytes, and goodAfter the offset behind it.
func good(f *ggufgen.File) *ggufgen.File { return f.Tensor("good.weight", 2, 0, 32, 5) }

const goodAfter = 96

func mustRead(t *testing.T, f *ggufgen.File) *File {
	t.Helper()
	file, err := Read(f.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A fault of one tensor is its Err, and the others can be used.
func TestTensorFaults(t *testing.T) {
	for _, c := range []struct {
		want  string
		bytes int // that the file has behind the good matrix
		add   func(f *ggufgen.File)
	}{
		{`tensor "": tensor 1 has no name`, 4, func(f *ggufgen.File) { f.Tensor("", 0, goodAfter, 1) }},
		{`tensor "` + strings.Repeat("a", 80) + `...": has a name of 129 bytes; the limit of this reader is 128`, 4, func(f *ggufgen.File) { f.Tensor(strings.Repeat("a", 129), 0, goodAfter, 1) }},
		{`has a name of 100000 bytes; the limit`, 4, func(f *ggufgen.File) { f.Tensor(strings.Repeat("a", 100000), 0, goodAfter, 1) }},
		{`tensor "a\nb": has a name that cannot be printed on one line`, 4, func(f *ggufgen.File) { f.Tensor("a\nb", 0, goodAfter, 1) }},
		{`tensor "a\x1b[2J": has a name that cannot be printed on one line`, 4, func(f *ggufgen.File) { f.Tensor("a\x1b[2J", 0, goodAfter, 1) }},
		{`tensor "a\xff": has a name that cannot be printed on one line`, 4, func(f *ggufgen.File) { f.Tensor("a\xff", 0, goodAfter, 1) }},
		{`tensor "\ufeffa": has a name that cannot be printed on one line`, 4, func(f *ggufgen.File) { f.Tensor("\ufeffa", 0, goodAfter, 1) }},
		{`tensor "t": has 5 dimensions; it must have at most 4`, 4, func(f *ggufgen.File) { f.Tensor("t", 0, goodAfter, 1, 1, 1, 1, 1) }},
		{`tensor "t": shape [4 18446744073709551615] is too large`, 4, func(f *ggufgen.File) { f.Tensor("t", 0, goodAfter, 4, math.MaxUint64) }},
		{`tensor "t": shape [0 18446744073709551615] is too large`, 4, func(f *ggufgen.File) { f.Tensor("t", 0, goodAfter, 0, math.MaxUint64) }},
		{fmt.Sprintf(`tensor "t": shape [%d 2] is too large`, math.MaxInt/2+1), 4, func(f *ggufgen.File) { f.Tensor("t", 0, goodAfter, math.MaxInt/2+1, 2) }},
		{fmt.Sprintf(`tensor "t": shape [%d %[1]d 4] is too large`, uint64(1<<62)), 4, func(f *ggufgen.File) { f.Tensor("t", 0, goodAfter, 1<<62, 1<<62, 4) }},
		{fmt.Sprintf(`tensor "t": %d values of F32 are too many`, math.MaxInt/4+1), 4, func(f *ggufgen.File) { f.Tensor("t", 0, goodAfter, math.MaxInt/4+1) }},
		{fmt.Sprintf(`tensor "t": %d values of F32 are too many`, math.MaxInt), 4, func(f *ggufgen.File) { f.Tensor("t", 0, goodAfter, math.MaxInt) }},
		{fmt.Sprintf(`tensor "t": %d values of I64 are too many`, math.MaxInt/4+1), 4, func(f *ggufgen.File) { f.Tensor("t", 27, goodAfter, math.MaxInt/4+1) }},
		{`tensor "t": rows of 48 values are not whole Q4_0 blocks of 32`, 4, func(f *ggufgen.File) { f.Tensor("t", 2, goodAfter, 48, 2) }},
		{`tensor "t": rows of 1 values are not whole Q4_0 blocks of 32`, 4, func(f *ggufgen.File) { f.Tensor("t", 2, goodAfter) }},
	} {
		b := good(ggufgen.Header(2, 0))
		c.add(b)
		f := mustRead(t, b.Pad(goodAfter+c.bytes))
		bad := &f.Tensors[1]
		wantError(t, bad.Err, c.want)
		if data, err := bad.Bytes(); data != nil || err != bad.Err {
			t.Errorf("%s: %d bytes, %v", c.want, len(data), err)
		}
		if len(bad.Name) == maxName && f.Tensor(bad.Name) != nil {
			t.Errorf("%s: it is found by its first bytes", c.want)
		}
		if bad.Size != int64(c.bytes) || len(bad.Name) > maxName {
			t.Errorf("%s: %d bytes, a name of %d", c.want, bad.Size, len(bad.Name))
		}
		if x := f.Tensor("good.weight"); x.Err != nil || x.Size != 90 {
			t.Errorf("%s: the good one has %d bytes, %v", c.want, x.Size, x.Err)
		}
	}
}

// Values that no product uses, but that the format has, are no faults: of no dimensions there is one, of an extent
// of 0 none, wherever that says it is.
func TestScalarsAndEmpty(t *testing.T) {
	b := good(ggufgen.Header(7, 0)).Tensor("scalar", 0, goodAfter).
		Tensor("empty", 0, goodAfter+32, 0).Tensor("empty.start", 0, 0, 4, 0).Tensor("empty.odd", 2, 7, 33, 0, 9).
		Tensor("empty.outside", 0, math.MaxUint64, 0, math.MaxInt, math.MaxInt).Tensor("four", 24, goodAfter+32, 1, 2, 3, 4)
	f := mustRead(t, b.Pad(goodAfter).Add(float32(2.5)).Pad(24))
	for name, want := range map[string]struct{ elements, dims, size int }{
		"good.weight": {160, 2, 90}, "scalar": {1, 0, 4}, "empty": {0, 1, 0}, "empty.start": {0, 2, 0}, "empty.odd": {0, 3, 0}, "empty.outside": {0, 3, 0}, "four": {24, 4, 24},
	} {
		x := f.Tensor(name)
		data, err := x.Bytes()
		if x.Elements() != want.elements || len(x.Shape) != want.dims || x.Size != int64(want.size) || len(data) != want.size || data == nil || err != nil || x.Err != nil {
			t.Errorf("%s: %d values of shape %v in %d bytes, %d, %v, %v", name, x.Elements(), x.Shape, x.Size, len(data), x.Err, err)
		}
	}
	if data, err := f.Tensor("scalar").Bytes(); err != nil || !slices.Equal(data, []byte{0, 0, 32, 64}) {
		t.Error(data, err)
	}
}

// A name twice makes both tensors doubtful, and only them.
func TestTensorTwice(t *testing.T) {
	f := mustRead(t, good(ggufgen.Header(4, 0)).Tensor("t", 0, goodAfter, 1).Tensor("s", 0, goodAfter+32, 1).Tensor("t", 0, goodAfter+64, 1).Pad(goodAfter+68))
	for i, want := range []bool{false, true, false, true} {
		x := &f.Tensors[i]
		if want {
			wantError(t, x.Err, `tensor "t": is there twice`)
		} else if x.Err != nil {
			t.Error(x.Err)
		}
	}
	if f.Tensor("t") != &f.Tensors[1] {
		t.Error("the tensor is not found by its name")
	}
}

// A fault of one key is its Err, and the others can be used.
func TestKeyFaults(t *testing.T) {
	for _, c := range []struct {
		want, key string
		values    int
		add       []any
	}{
		{`key "a": a bool is 0 or 1, not 2`, "a", 1, []any{"a", uint32(7), []byte{2}}},
		{`key "a": a bool is 0 or 1, not 9`, "a", 1, []any{"a", uint32(9), uint32(7), uint64(2), []byte{1, 9}}},
		{`key "": a key has at least 1 byte`, "", 1, []any{"", uint32(0), []byte{1}}},
		{`key "": a key has at least 1 byte`, "", 2, []any{make([]byte, 26)}},
		{`key "a": is there twice`, "a", 2, []any{"a", uint32(0), []byte{1}, "a", uint32(8), "x"}},
		{`is a key of 1025 bytes; the limit of this reader is 1024`, "", 1, []any{strings.Repeat("a", 1025), uint32(0), []byte{1}}},
		{`is a key of 100000 bytes; the limit`, "", 1, []any{strings.Repeat("a", 100000), uint32(0), []byte{1}}},
	} {
		b := ggufgen.Header(1, uint64(c.values)+2).Add("first", uint32(0), []byte{7}).Add(c.add...).Add("last", uint32(8), "text")
		f := mustRead(t, good(b).Pad(goodAfter))
		if f.Get("first") != uint8(7) || f.Get("last") != "text" || f.Tensor("good.weight").Err != nil || len(f.Meta) != c.values+2 {
			t.Errorf("%s: %+v", c.want, f.Meta)
		}
		for _, kv := range f.Meta[1 : 1+c.values] {
			wantError(t, kv.Err, c.want)
			if kv.Value != nil || len(kv.Key) > maxKey {
				t.Errorf("%s: has a value, %v, and a key of %d bytes", c.want, kv.Value, len(kv.Key))
			}
		}
		if v, err := f.Value(f.Meta[1].Key); c.key == "" && len(f.Meta[1].Key) == maxKey && (v != nil || err != nil) {
			t.Errorf("%s: it is found by its first bytes: %v, %v", c.want, v, err)
		}
		if v := f.Get(c.key); v != nil {
			t.Errorf("%s: Get: %v", c.want, v)
		}
		if c.key == "" {
			continue
		}
		_, err := f.Value(c.key)
		wantError(t, err, c.want)
		_, err = f.Int(c.key)
		wantError(t, err, c.want)
		_, err = f.Text(c.key)
		wantError(t, err, c.want)
	}
	for _, legal := range []int{1, 1024} {
		key := strings.Repeat("a", legal)
		f := mustRead(t, ggufgen.Header(0, 1).Add(key, uint32(7), []byte{1}))
		if f.Get(key) != true || f.Meta[0].Err != nil {
			t.Errorf("a key of %d bytes: %v, %v", legal, f.Get(key), f.Meta[0].Err)
		}
	}
}

// Values of up to 256 bytes are in Meta; larger ones are read when they are asked for.
func TestLargeValues(t *testing.T) {
	texts, flags := []string{strings.Repeat("x", 300), "", "y"}, slices.Repeat([]bool{true}, 250)
	numbers := make([]int32, 5000) // which are not read at once
	for i := range numbers {
		numbers[i] = int32(i * i)
	}
	bad := append(slices.Repeat([]byte{1}, 249), 2)
	f := mustRead(t, ggufgen.Header(0, 9).
		Add("text.248", uint32(8), strings.Repeat("x", 248)).
		Add("text.249", uint32(8), strings.Repeat("x", 249)).
		Add("text.9000", uint32(8), strings.Repeat("xyz", 3000)).
		Add("texts", uint32(9), uint32(8), uint64(3), texts[0], texts[1], texts[2]).
		Add("flags", uint32(9), uint32(7), uint64(250), slices.Repeat([]byte{1}, 250)).
		Add("bad", uint32(9), uint32(7), uint64(250), bad).
		Add("numbers", uint32(9), uint32(5), uint64(5000), numbers).
		Add("nest", uint32(9), uint32(9), uint64(2), uint32(5), uint64(5000), numbers, uint32(8), uint64(1), "z").
		Add("after", uint32(0), []byte{9}))
	for i, want := range []any{strings.Repeat("x", 248), strings.Repeat("x", 249), strings.Repeat("xyz", 3000), texts, flags, nil, numbers, []any{numbers, []string{"z"}}, uint8(9)} {
		kv := f.Meta[i]
		at := i == 0 || i == 8
		if got, err := f.Value(kv.Key); kv.Key != "bad" && (!reflect.DeepEqual(got, want) || !reflect.DeepEqual(f.Get(kv.Key), want) || err != nil || (kv.Value != nil) != at || kv.Err != nil) {
			t.Errorf("%s: %.80v, %v; Value %.80v, %v", kv.Key, got, err, kv.Value, kv.Err)
		}
	}
	if s, err := f.Text("text.9000"); s != strings.Repeat("xyz", 3000) || err != nil {
		t.Error(len(s), err)
	}
	v, err := f.Value("bad")
	wantError(t, err, `key "bad": a bool is 0 or 1, not 2`)
	if v != nil || f.Get("bad") != nil {
		t.Error(v)
	}
	for _, key := range []string{"text.9000", "numbers"} {
		_, err = f.Int(key)
		wantError(t, err, `"; it should hold an integer`[1:])
	}
	if v, err := f.Value("absent"); v != nil || err != nil {
		t.Error(v, err)
	}
}
