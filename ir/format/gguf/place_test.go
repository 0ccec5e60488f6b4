package gguf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/tests/ggufgen"
)

// laid is a file of tensors that take room bytes each, whatever their types say, as converters of other programs write them.
type laid struct {
	name  string
	typ   uint32
	shape []uint64
	room  int
}

func lay(t *testing.T, tensors ...laid) *File {
	t.Helper()
	b, offset := ggufgen.Header(uint64(len(tensors)), 0), 0
	for _, x := range tensors {
		b.Tensor(x.name, x.typ, uint64(offset), x.shape...)
		offset += (x.room + 31) / 32 * 32
	}
	return mustRead(t, b.Pad(offset))
}

// Ids that other programs use for other types. By its room a tensor shows what its writer meant: of an id that the format
// defines that is an Err which names the likely type, of another id the type.
func TestTypeIDs(t *testing.T) {
	shape := []uint64{512, 64}
	for _, c := range []struct {
		typ  uint32
		room int    // of a matrix of 512 x 64
		name string // of the type
		err  string // or ""
	}{
		{39, 17408, "MXFP4", ""},
		{39, 15040, "MXFP4", `tensor "a.weight": type id 39 is not MXFP4 in this file: tensor "a.weight" takes 17408 bytes as MXFP4 of shape [512 64], but 15040 lie before tensor "b.weight": 0.459 bytes per value, so it is something else, or the file is damaged`},
		{40, 18432, "NVFP4", ""},
		{40, 8320, "NVFP4", `type id 40 is not NVFP4 in this file: tensor "a.weight" takes 18432 bytes as NVFP4 of shape [512 64], but 8320 lie before tensor "b.weight": 0.2539 bytes per value, as in Q2_0C, for which other programs use this id`},
		{41, 4608, "Q1_0", ""},
		{41, 8320, "Q1_0", `type id 41 is not Q1_0 in this file: tensor "a.weight" takes 4608 bytes as Q1_0 of shape [512 64], but 8320 lie before tensor "b.weight": 0.2539 bytes per value, as in Q2_0C, for which`},
		{42, 9216, "Q2_0", ""},
		{42, 8704, "Q2_0", `takes 9216 bytes as Q2_0 of shape [512 64], but 8704 lie before tensor "b.weight": 0.2656 bytes per value, as in PQ2_0, for which`},
		{42, 5376, "Q2_0", `takes 9216 bytes as Q2_0 of shape [512 64], but 5376 lie before tensor "b.weight": 0.1641 bytes per value, as in STQ1_0, for which`},
		{43, 5376, "STQ1_0", ""},
		{43, 5408, "type43", ""},
		{142, 8704, "PQ2_0", ""},
		{142, 8448, "type142", ""},
		{143, 7168, "PTQ1_0", ""},
		{36, 8224, "I2_S", ""},
		{36, 8192, "type36", ""},
		{38, 8192, "TL1", ""},
		{99, 1, "type99", ""},
		{2, 18432, "Q4_0", ""},
		{2, 18400, "Q4_0", `takes 18432 bytes as Q4_0 of shape [512 64], but 18400 lie before tensor "b.weight"`},
		{2, 18464, "Q4_0", `takes 18432 bytes as Q4_0 of shape [512 64], but 18464 lie before tensor "b.weight"`},
	} {
		f := lay(t, laid{"a.weight", c.typ, shape, c.room}, laid{"b.weight", c.typ, shape, c.room}, laid{"norm.weight", 0, []uint64{8}, 32})
		for _, name := range []string{"a.weight", "b.weight"} {
			x := f.Tensor(name)
			if x.TypeName() != c.name || x.Size != int64(c.room+31)/32*32 && (x.Err != nil || x.Size != int64(c.room)) {
				t.Errorf("id %d in %d bytes: %s in %d bytes", c.typ, c.room, x.TypeName(), x.Size)
			}
			if (x.Err == nil) != (c.err == "") {
				t.Errorf("id %d in %d bytes: %v", c.typ, c.room, x.Err)
			}
		}
		if c.err != "" {
			wantError(t, f.Tensor("a.weight").Err, c.err)
			wantError(t, f.Tensor("b.weight").Err, strings.Replace(c.err, `tensor "a.weight": `, `tensor "b.weight": `, 1)) // the same reason
		}
		if x := f.Tensor("norm.weight"); x.Err != nil || x.Size != 32 {
			t.Errorf("id %d: the norm has %d bytes, %v", c.typ, x.Size, x.Err)
		}
	}
}

// A lone tensor at the end of the file shows what it is, too.
func TestLoneTypeID(t *testing.T) {
	shape := []uint64{512, 64}
	x := lay(t, laid{"a", 41, shape, 8320}).Tensor("a")
	wantError(t, x.Err, `takes 4608 bytes as Q1_0 of shape [512 64], but 8320 lie before the end of the file: 0.2539 bytes per value, as in Q2_0C`)
	x = lay(t, laid{"a", 42, shape, 8704}).Tensor("a")
	wantError(t, x.Err, `takes 9216 bytes as Q2_0 of shape [512 64], but 8704 lie before the end of the file: 0.2656 bytes per value, as in PQ2_0`)
	if x := lay(t, laid{"a", 142, shape, 8704}).Tensor("a"); x.TypeName() != "PQ2_0" || x.Err != nil {
		t.Error(x.TypeName(), x.Err)
	}
	_, err := Read(ggufgen.Header(1, 0).Tensor("a", 42, 0, 512, 64).Pad(8000).Bytes())
	wantError(t, err, `tensor "a": 9216 bytes at offset 0 of the data lie outside the file, which has 8000 bytes of data: it was cut off`)
}

// The padding of a small tensor hides which type it has; a large one of the same id tells for it.
func TestSmallTypeID(t *testing.T) {
	f := lay(t, laid{"small", 42, []uint64{512}, 136}, laid{"large", 42, []uint64{512, 64}, 8704}, laid{"norm", 0, []uint64{8}, 32})
	wantError(t, f.Tensor("large").Err, `takes 9216 bytes as Q2_0 of shape [512 64], but 8704 lie before tensor "norm"`)
	wantError(t, f.Tensor("small").Err, `tensor "small": type id 42 is not Q2_0 in this file: tensor "large" takes`)
	if x := lay(t, laid{"small", 42, []uint64{512}, 144}, laid{"norm", 0, []uint64{8}, 32}).Tensor("small"); x.Err != nil || x.Size != 144 {
		t.Errorf("small and alone: %d bytes, %v", x.Size, x.Err)
	}
	// Of ids that the format does not define, two types that fit are none.
	if row := forkOf(42, []spot{{Tensor: &Tensor{Shape: []int{512, 1 << 3}}, room: 1 << 20, next: &Tensor{}}}, 1<<20); row != nil {
		t.Errorf("%s", row.name)
	}
}

// A gap behind one tensor of a type is its own fault; one of the largest that fits vouches for the others.
func TestGap(t *testing.T) {
	shape := []uint64{32, 64} // 1152 bytes
	for _, c := range []struct {
		rooms []int
		bad   string // which
	}{
		{[]int{1152, 1152, 1152}, ""},
		{[]int{1184, 1152, 1152}, "0"},
		{[]int{1152, 1184, 1152}, "1"},
		{[]int{1152, 1152, 1184}, "2"},
		{[]int{1184, 1184, 1152}, "01"},
		{[]int{1184, 1184, 1184}, "012"},
		{[]int{2304, 2304, 2304}, "012"},
	} {
		var tensors []laid
		for i, room := range c.rooms {
			tensors = append(tensors, laid{fmt.Sprint(i), 2, shape, room})
		}
		f := lay(t, append(tensors, laid{"norm", 0, []uint64{8}, 32})...)
		bad := ""
		for _, x := range f.Tensors {
			if x.Err != nil {
				bad += x.Name
				wantError(t, x.Err, "takes 1152 bytes as Q4_0 of shape [32 64], but")
			}
		}
		if bad != c.bad {
			t.Errorf("%v: faults of %q, want of %q", c.rooms, bad, c.bad)
		}
	}
	// The largest decide, not the first or the most.
	f := lay(t, laid{"a", 2, []uint64{32}, 32}, laid{"b", 2, []uint64{32}, 32}, laid{"large", 2, shape, 1216}, laid{"norm", 0, []uint64{8}, 32})
	wantError(t, f.Tensor("a").Err, `type id 2 is not Q4_0 in this file: tensor "large" takes`)
	f = lay(t, laid{"a", 2, []uint64{32}, 64}, laid{"large", 2, shape, 1152}, laid{"norm", 0, []uint64{8}, 32})
	wantError(t, f.Tensor("a").Err, `takes 18 bytes as Q4_0 of shape [32], but 64 lie before tensor "large"`)
	if x := f.Tensor("large"); x.Err != nil {
		t.Error(x.Err)
	}
	// Nor what claims to be large and is as large as another one.
	f = lay(t, laid{"claims", 2, []uint64{32, 640}, 1152}, laid{"fits", 2, shape, 1152}, laid{"other", 2, shape, 1152}, laid{"norm", 0, []uint64{8}, 32})
	wantError(t, f.Tensor("claims").Err, `takes 11520 bytes as Q4_0 of shape [32 640], but 1152 lie before tensor "fits"`)
	wantError(t, f.Tensor("fits").Err, `overlaps tensor "claims"`)
	if x := f.Tensor("other"); x.Err != nil {
		t.Error(x.Err)
	}
}

// Of 2048 bytes the padding is no more than a 64th: a tensor of them that fits shows the type, also the last one of the file.
func TestTelling(t *testing.T) {
	for _, c := range []struct {
		size     uint64 // values, and bytes
		last, ok bool
	}{{2047, false, false}, {2048, false, true}, {2047, true, false}, {2048, true, true}} {
		norm := laid{"norm", 0, []uint64{8}, 32}
		tensors := []laid{{"gap", 24, []uint64{9000}, 10000}, norm, {"fits", 24, []uint64{c.size}, int(c.size)}}
		if !c.last {
			tensors[1], tensors[2] = tensors[2], tensors[1]
		}
		f := lay(t, tensors...)
		if err := f.Tensor("fits").Err; (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		wantError(t, f.Tensor("gap").Err, "takes 9000 bytes as I8 of shape [9000], but 10016 lie before tensor")
	}
}

// Behind the last tensor may be its padding or nothing. More makes it doubtful, but no other tensor of its type.
func TestTrailing(t *testing.T) {
	for after, ok := range map[int]bool{0: true, 1: true, 28: true, 31: true, 32: false, 4096: false} {
		b := good(ggufgen.Header(3, 0)).Tensor("first", 0, 96, 7).Tensor("last", 0, 128, 8)
		f := mustRead(t, b.Pad(128+32+after))
		if f.Tensor("first").Err != nil || f.Tensor("good.weight").Err != nil {
			t.Error(f.Tensor("first").Err)
		}
		last := f.Tensor("last")
		if ok && (last.Err != nil || last.Size != 32) {
			t.Errorf("%d bytes behind: %v, %d", after, last.Err, last.Size)
		}
		if !ok {
			wantError(t, last.Err, fmt.Sprintf(`tensor "last": takes 32 bytes as F32 of shape [8], but %d lie before the end of the file`, 32+after))
		}
	}
	_, err := Read(good(ggufgen.Header(2, 0)).Tensor("last", 0, 96, 8).Pad(96 + 31).Bytes())
	wantError(t, err, `tensor "last": 32 bytes at offset 96 of the data lie outside the file, which has 127 bytes of data`)
	// Within the padding that an empty tensor claims to lie behind.
	f := mustRead(t, good(ggufgen.Header(2, 0)).Tensor("empty", 0, 96, 0).Pad(90))
	if x := f.Tensor("good.weight"); x.Err != nil || x.Size != 90 {
		t.Error(x.Err)
	}
	_, err = Read(good(ggufgen.Header(2, 0)).Tensor("empty", 0, 96, 0).Pad(89).Bytes())
	wantError(t, err, `tensor "good.weight": 90 bytes at offset 0 of the data lie outside the file, which has 89`)
}

// An offset that is wrong makes doubtful what it points into, what it leaves alone, and itself.
func TestOffsets(t *testing.T) {
	for _, c := range []struct {
		offsets []uint64 // instead of 0, 32, 64, 96
		bad     string   // which
		want    string   // of the first
	}{
		{[]uint64{0, 32, 64, 96}, "", ""},
		{[]uint64{96, 0, 64, 32}, "", ""},
		{[]uint64{0, 0, 64, 96}, "01", `tensor "0": takes 32 bytes as I8 of shape [32], but 0 lie before tensor "1"`},
		{[]uint64{0, 32, 0, 96}, "012", `takes 32 bytes as I8 of shape [32], but 0 lie before tensor "2"`},
		{[]uint64{0, 32, 64, 64}, "23", ""},
		{[]uint64{0, 32, 40, 96}, "12", `takes 32 bytes as I8 of shape [32], but 8 lie before tensor "2"`},
		{[]uint64{0, 33, 64, 96}, "12", `tensor "1": offset 33 is not a multiple of the alignment of 32`},
		{[]uint64{64, 32, 64, 96}, "02", `takes 32 bytes as I8 of shape [32], but 0 lie before tensor "2"`},
		{[]uint64{8, 32, 64, 96}, "01", `tensor "0": offset 8 is not a multiple of the alignment of 32`},
	} {
		b := ggufgen.Header(4, 0)
		for i, o := range c.offsets {
			b.Tensor(fmt.Sprint(i), 24, o, 32)
		}
		f := mustRead(t, b.Pad(128))
		bad := ""
		for _, x := range f.Tensors {
			if x.Err != nil {
				bad += x.Name
			}
		}
		if bad != c.bad {
			t.Errorf("%v: faults of %q, want of %q", c.offsets, bad, c.bad)
		}
		if c.want != "" {
			wantError(t, f.Tensors[strings.Index("0123", c.bad[:1])].Err, c.want)
		}
	}
	// Types of unknown size take at least a byte.
	f := mustRead(t, ggufgen.Header(3, 0).Tensor("a", 99, 0, 32).Tensor("b", 99, 0, 32).Tensor("c", 99, 32, 32).Pad(64))
	wantError(t, f.Tensor("a").Err, `tensor "a": overlaps tensor "b"`)
	wantError(t, f.Tensor("b").Err, `tensor "b": overlaps tensor "a"`)
	if x := f.Tensor("c"); x.Err != nil || x.Size != 32 {
		t.Error(x.Size, x.Err)
	}
	f = mustRead(t, ggufgen.Header(2, 0).Tensor("a", 99, 0, 32).Tensor("b", 99, 1, 32).Pad(32))
	wantError(t, f.Tensor("b").Err, "offset 1 is not a multiple of the alignment of 32")
	if x := f.Tensor("a"); x.Err != nil || x.Size != 1 {
		t.Error(x.Size, x.Err)
	}
}
