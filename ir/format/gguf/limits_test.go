package gguf

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/tests/ggufgen"
)

// sparse is a file of zeros that begins with head.
type sparse struct{ head []byte }

func (s sparse) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(s.head)) {
		copy(b, s.head[at:])
	}
	return len(b), nil
}

// Each limit of the reader at the last number that it reads and the first that it does not, whatever the size of the file.
func TestLimits(t *testing.T) {
	const (
		large = 1 << 40
		text  = uint32(8)
		array = uint32(9)
	)
	kv := func(values ...any) *ggufgen.File { return ggufgen.Header(0, 1).Add("a").Add(values...) }
	keys := func(n int) *ggufgen.File {
		f := ggufgen.Header(0, uint64(n))
		for i := range n {
			f.Add(fmt.Sprint(i), uint32(0), []byte{1})
		}
		return f
	}
	empties := func(n int) *ggufgen.File {
		f := ggufgen.Header(uint64(n), 0)
		for i := range n {
			f.Tensor(fmt.Sprint(i), 0, 0, 0)
		}
		return f
	}
	nested := func(deep int) *ggufgen.File {
		f := kv(array)
		for range deep - 1 {
			f.Add(array, uint64(1))
		}
		return f.Add(uint32(0), uint64(1))
	}
	for _, c := range []struct {
		name, want string
		last, over *ggufgen.File
	}{
		{"tensors", "number of tensors: is 72001; the limit of this reader is 72000", empties(72_000), ggufgen.Header(72_001, 0)},
		{"values", "number of metadata values: is 65537; the limit of this reader is 65536", keys(1 << 16), keys(1<<16 + 1)},
		{"strings", `key "a": its 4194305 strings make more in arrays than 4194304, the limit of this reader`, kv(array, text, uint64(1<<22)), kv(array, text, uint64(1<<22+1))},
		{"strings of two arrays", `key "a": its 1 strings make more in arrays than 4194304`, kv(array, array, uint64(2), text, uint64(1<<22), make([]byte, 8<<22), text, uint64(0)), kv(array, array, uint64(2), text, uint64(1<<22), make([]byte, 8<<22), text, uint64(1))},
		{"arrays", `key "a": its 65537 arrays make more in arrays than 65536, the limit of this reader`, kv(array, array, uint64(1<<16)), kv(array, array, uint64(1<<16+1))},
		{"depth", `key "a": has arrays nested deeper than 4, the limit of this reader`, nested(4), nested(5)},
		{"alignment", `key "general.alignment": is 1048584; the limit of this reader is 1048576`, ggufgen.Header(0, 1).Add("general.alignment", uint32(4), uint32(1<<20)), ggufgen.Header(0, 1).Add("general.alignment", uint32(4), uint32(1<<20+8))},
	} {
		if _, err := New(sparse{c.last.Bytes()}, large); err != nil {
			t.Errorf("the most %s: %v", c.name, err)
		}
		_, err := New(sparse{c.over.Bytes()}, large)
		wantError(t, err, c.want)
	}
}

// A name of 128 bytes and an alignment of 8 are the last legal ones.
func TestLastLegal(t *testing.T) {
	name := strings.Repeat("a", 128)
	b := ggufgen.Header(2, 1).Add("general.alignment", uint32(4), uint32(8)).Tensor(name, 0, 0, 1, 1, 1, 1).Tensor("b", 0, 8, 1)
	f := mustRead(t, b.Add(make([]byte, -b.Len()&7+12)))
	if x := f.Tensor(name); f.Alignment != 8 || x == nil || x.Err != nil || f.Tensor("b").Err != nil {
		t.Errorf("%d, %+v", f.Alignment, f.Tensors)
	}
}

// A file may have any size, even one that no file has.
func TestSizes(t *testing.T) {
	for _, size := range []int64{math.MinInt64, -1, 0, 3} {
		_, err := New(sparse{[]byte("GGUF")}, size)
		wantError(t, err, "header: the file ends within it")
	}
	f, err := New(sparse{good(ggufgen.Header(1, 0)).Bytes()}, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, f.Tensors[0].Err, "takes 90 bytes as Q4_0 of shape [32 5], but 9223372036854775711 lie before the end of the file")
}

// What a count claims must fit the bytes that follow, to the byte.
func TestClaims(t *testing.T) {
	kv := func(values ...any) *ggufgen.File { return ggufgen.Header(0, 1).Add("a").Add(values...) }
	for name, f := range map[string]*ggufgen.File{
		"a text":             kv(uint32(8), "abc"),
		"a number":           kv(uint32(12), 2.5),
		"a byte":             kv(uint32(0), []byte{1}),
		"an array":           kv(uint32(9), uint32(5), uint64(3), []int32{1, 2, 3}),
		"texts":              kv(uint32(9), uint32(8), uint64(2), "a", ""),
		"a long text":        kv(uint32(8), strings.Repeat("x", 3*buffered)),
		"an array of arrays": kv(uint32(9), uint32(9), uint64(1), uint32(1), uint64(2), []int8{1, 2}),
		"an empty array":     kv(uint32(9), uint32(10), uint64(0)),
		"a tensor":           ggufgen.Header(1, 0).Tensor("t", 0, 0, 0),
		"dimensions":         ggufgen.Header(1, 0).Tensor("t", 0, 0, 1, 1, 1, 0),
	} {
		data := f.Bytes()
		if whole, err := Read(data); err != nil || name != "dimensions" && len(whole.Meta) > 0 && whole.Get("a") == nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range data {
			if len(data)-n > 30 && n > 60 {
				continue
			}
			if _, err := Read(data[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes are read", name, n, len(data))
			}
		}
	}
}

// A value of 256 MiB is read, a larger one is not, which matters only to who asks for it.
func TestLargestValue(t *testing.T) {
	for n, legal := range map[uint64]bool{1<<28 - 8: true, 1<<28 - 7: false} { // and 8 of the length
		f, err := New(sparse{ggufgen.Header(0, 1).Add("a", uint32(8), n).Bytes()}, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.Text("a")
		if legal && (uint64(len(s)) != n || err != nil) {
			t.Errorf("%d bytes: %d, %v", n, len(s), err)
		}
		if !legal {
			wantError(t, err, `key "a": takes 268435457 bytes; this reader reads values of at most 268435456`)
		}
	}
}

// cost is what a call allocates, which is no less than what it holds, and the time of the fastest of three calls.
func cost(f func()) (bytes uint64, took time.Duration) {
	took = math.MaxInt64
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		f()
		took = min(took, time.Since(began))
		runtime.ReadMemStats(&after)
		bytes = after.TotalAlloc - before.TotalAlloc
	}
	return bytes, took
}

// A model with a tensor for each expert has tens of thousands; its header, and a vocabulary of 64 MiB in one text,
// are read within a second and 256 MiB.
func TestLargeHeaders(t *testing.T) {
	const tensors = 70000
	many := ggufgen.Header(tensors, 1).Add("general.architecture", uint32(8), "deepseek2")
	for i := range tensors {
		many.Tensor(fmt.Sprintf("blk.%d.ffn_up_exps.%d.weight", i/512, i%512), 2, uint64(i)*576, 256, 4)
	}
	many.Pad(0)
	manyBytes := many.Bytes()
	text := ggufgen.Header(1, 2).Add("tokenizer", uint32(8), strings.Repeat("0123456789abcdef", 4<<20), "after", uint32(0), []byte{1}).Tensor("t", 0, 0, 1).Pad(4).Bytes()
	words := ggufgen.Header(1, 2).Add("tokens", uint32(9), uint32(8), uint64(1<<18))
	for i := range 1 << 18 {
		words.Add(fmt.Sprintf("%056d", i)) // with its length 64 bytes
	}
	words.Add("after", uint32(0), []byte{1}).Tensor("t", 0, 0, 1).Pad(4)
	for _, c := range []struct {
		name    string
		head    []byte
		size    int64
		tensors int
	}{
		{"70,000 tensors", manyBytes, int64(len(manyBytes)) + tensors*576, tensors},
		{"a text of 64 MiB", text, int64(len(text)), 1},
		{"a vocabulary", words.Bytes(), int64(words.Len()), 1},
	} {
		var f *File
		var err error
		bytes, took := cost(func() { f, err = New(sparse{c.head}, c.size) })
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		t.Logf("%s: %d MiB, %v", c.name, bytes>>20, took)
		if len(f.Tensors) != c.tensors || f.Tensors[c.tensors-1].Err != nil || bytes > 256<<20 || took > time.Second {
			t.Errorf("%s: %d tensors, the last %v; %d MiB, %v", c.name, len(f.Tensors), f.Tensors[c.tensors-1].Err, bytes>>20, took)
		}
		if f.Get("after") == nil && c.tensors == 1 {
			t.Errorf("%s: the value behind it is not read", c.name)
		}
	}
	f, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	var s string
	if bytes, _ := cost(func() { s, err = f.Text("tokenizer") }); err != nil || len(s) != 64<<20 || bytes > 65<<20 {
		t.Errorf("the text of 64 MiB: %d bytes, %v, by %d MiB", len(s), err, bytes>>20)
	}
}

// failing is a file that cannot be read from an offset on.
type failing struct {
	data []byte
	from int64
}

func (r failing) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > r.from {
		return copy(b, r.data[at:max(at, r.from)]), errors.New("the disk is gone")
	}
	return copy(b, r.data[at:]), nil
}

// Errors of reading name what was read.
func TestReadErrors(t *testing.T) {
	data := good(ggufgen.Header(1, 1).Add("a", uint32(8), strings.Repeat("x", 2*buffered))).Pad(96).Bytes()
	for from, want := range map[int64]string{
		0:        "gguf: header: reading 8192 bytes at 0: the disk is gone",
		buffered: `gguf: tensor name: reading`,
	} {
		_, err := New(failing{data, from}, int64(len(data)))
		wantError(t, err, want)
	}
	f, err := New(failing{data, math.MaxInt64}, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	f.from.r = failing{data, 100}
	f.Tensors[0].from.r = f.from.r
	v, err := f.Value("a")
	wantError(t, err, `key "a": reading 8192 bytes at 37: the disk is gone`)
	if v != nil {
		t.Error(v)
	}
	_, err = f.Tensors[0].Bytes()
	wantError(t, err, `tensor "good.weight": reading 90 bytes at `)
}
