package llama

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// saved is the state of a sequence of c positions in 2 layers, with rows of 4 bytes of keys and 2 of values.
func saved(c int) []byte {
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			binary.Write(&b, binary.LittleEndian, v)
		}
	}
	put(uint32(0x1234), int32(0), uint32(1), uint32(c))
	for i := range c {
		put(int32(i), uint32(1), int32(0))
	}
	put(uint32(0), uint32(2))
	for _, size := range []int{4, 4, 2, 2} {
		put(int32(1), uint64(size))
		for i := range c {
			put(bytes.Repeat([]byte{byte(10*size + i%3)}, size))
		}
	}
	return b.Bytes()
}

// TestStretched: rows come again in their order, at new positions. The longer state is as the library would save it.
func TestStretched(t *testing.T) {
	if got := stretched(saved(3), 8); !bytes.Equal(got, saved(8)) {
		t.Errorf("%x, want %x", got, saved(8))
	}
	if got := stretched(saved(3), 3); !bytes.Equal(got, saved(3)) {
		t.Errorf("%x, want the same", got)
	}
}

// TestStretchedRefuses: a state that is cut, longer, or of another kind is refused.
func TestStretchedRefuses(t *testing.T) {
	whole := saved(3)
	for n := range whole {
		if stretched(whole[:n], 8) != nil {
			t.Errorf("the first %d of %d bytes are a state", n, len(whole))
		}
	}
	if stretched(append(saved(3), 0), 8) != nil {
		t.Error("a byte too many is a state")
	}
	if stretched(whole, 2) != nil {
		t.Error("3 positions were stretched to 2")
	}
	for at, what := range map[int]string{8: "streams", 16: "the first position", 20: "the first position's sequences", 24: "the first sequence", 52: "transposed", 60: "no row size"} {
		other := append([]byte(nil), whole...)
		other[at] += 9
		if at == 60 {
			binary.LittleEndian.PutUint64(other[60+4:], 1<<63)
		}
		if stretched(other, 8) != nil {
			t.Errorf("another value of %s is a state", what)
		}
	}
}
