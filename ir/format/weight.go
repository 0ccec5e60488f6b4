package format

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// MaxGroup is the largest Weight.Group.
const MaxGroup = 1 << 16

// MaxBooks is the largest Weight.Books.
const MaxBooks = 16

// Validate returns an error that names the first fault of w, or nil.
func (w Weight) Validate() error {
	thing := fmt.Sprintf("weight %.80q", w.Name)
	bad := func(problem string, args ...any) error { return errorf(thing, problem, args...) }
	switch {
	case w.Name == "":
		return bad("has no name")
	case !printable(w.Name):
		return bad("its name must be letters, digits, '_', '-' and '.', at most 64 of them")
	case w.Bits < 1 || w.Bits > 8:
		return bad("bits is %d; it must be 1 to 8", w.Bits)
	case w.Books < 0 || w.Books == 1 || w.Books > MaxBooks:
		return bad("books is %d; it must be 2 to %d, or be left out if there is one", w.Books, MaxBooks)
	case w.Books > 0 && w.Bits > 4:
		return bad("bits is %d; with several books it must be 1 to 4", w.Bits)
	case len(w.Levels)%w.NumBooks() != 0:
		return bad("has %d levels, which are not %d books of equally many", len(w.Levels), w.Books)
	case w.Codes() < 2 || w.Codes() > 1<<w.Bits:
		return bad("has %d levels; %d bits hold 2 to %d", w.Codes(), w.Bits, 1<<w.Bits)
	case math.IsNaN(w.Bound) || w.Bound < 0 || w.Bound > float64(w.Bits):
		return bad("nominal is %v; it must be above 0 and at most bits (%d), or absent", w.Bound, w.Bits)
	case w.Per == perUnknown:
		return bad("has no per; a scale is per tensor, row or group")
	case w.Per > PerGroup:
		return bad("per is %d; a scale is per tensor, row or group", w.Per)
	case w.Scale == Invalid:
		return bad("has no scale; give it one of f16, bf16 or f32, or with super i8 or u8")
	case w.Super == 0 && w.Scale != F16 && w.Scale != BF16 && w.Scale != F32:
		return bad("scale is %s; it must be f16, bf16 or f32, or with super i8 or u8", w.Scale)
	case w.Super != 0 && w.Scale != I8 && w.Scale != U8:
		return bad("scale is %s; with super it must be i8 or u8", w.Scale)
	case w.Per == PerGroup && w.Group == 0:
		return bad("has no group; of a scale per group it says how many weights share one, a multiple of 16")
	case w.Per == PerGroup && (w.Group < 16 || w.Group > MaxGroup || w.Group%16 != 0):
		return bad("group is %d; it must be a multiple of 16, 16 to %d", w.Group, MaxGroup)
	case w.Per != PerGroup && w.Group != 0:
		return bad("group is %d, but the scale is per %s; set per to group or leave group out", w.Group, w.Per)
	case w.Zero && w.Per != PerGroup:
		return bad("zero points need a scale per group; it is per %s", w.Per)
	case w.Min && w.Per != PerGroup:
		return bad("minimums need a scale per group; it is per %s", w.Per)
	case w.Min && w.Zero:
		return bad("has both zero points and minimums; a minimum alone can stand for both")
	case w.Super != 0 && w.Per != PerGroup:
		return bad("super is %d, but the scale is per %s; set per to group or leave super out", w.Super, w.Per)
	case w.Super < 0 || w.Super > MaxGroup || w.Super != 0 && w.Super%w.Group != 0:
		return bad("super is %d; it must be a multiple of the group, up to %d", w.Super, MaxGroup)
	case w.Books == 0 && w.BookGroup != 0:
		return bad("book_group is %d, but there is one book; set books or leave book_group out", w.BookGroup)
	case w.Books > 0 && (w.BookGroup < 16 || w.BookGroup > MaxGroup || w.BookGroup%16 != 0):
		return bad("book_group is %d; it must be a multiple of 16, 16 to %d", w.BookGroup, MaxGroup)
	case w.Books > 0 && w.Group%w.BookGroup != 0:
		return bad("book_group is %d; it must divide the group of %d: an index may be repeated", w.BookGroup, w.Group)
	}
	for i, v := range w.Levels {
		if v < -128 || v > 127 {
			return bad("level of code %d%s is %d; it must be -128 to 127", i%w.Codes(), w.inBook(i/w.Codes()), v)
		}
	}
	return w.validName()
}

// validName keeps a name from meaning two formats: what begins like a built-in
// format must be what Lookup makes of the name.
func (w Weight) validName() error {
	base, _, _ := strings.Cut(w.Name, "-")
	named, ok := row(base)
	if !ok {
		return nil
	}
	if !w.derives(named) {
		return errorf(fmt.Sprintf("weight %q", w.Name), "%s is a built-in format with other levels or a minimum; choose another name", base)
	}
	if canonical := w.String(); canonical != w.Name {
		return errorf(fmt.Sprintf("weight %q", w.Name), "it has the fields of the built-in format %s; use that name, or one that does not begin with %s", canonical, base)
	}
	return nil
}

func printable(name string) bool {
	for _, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
		if !ok {
			return false
		}
	}
	return len(name) <= 64
}

// UnmarshalJSON reads a weight as its fields, or as a name for Lookup. It
// refuses fields that are unknown or there twice, and what Validate refuses.
func (w *Weight) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var name string
		if err := json.Unmarshal(data, &name); err != nil {
			return err
		}
		named, err := Lookup(name)
		if err != nil {
			return err
		}
		*w = named
		return nil
	}
	type fields Weight // without methods
	f := fields{Per: perUnknown}
	err := UnmarshalStrict(data, &f)
	var kind *mistyped
	var field *Error
	switch {
	case errors.As(err, &kind) && kind.path == "":
		return errorf("weight", "%s with the fields %s, or a name", kind.text(), fieldNames(fieldsOf(reflect.TypeFor[Weight]())))
	case errors.As(err, &field): // the error below adds the same prefix
		return errorf("weight", "%s: %s", field.Thing, field.Problem)
	case err != nil:
		return errorf("weight", "%v", err)
	}
	if err := Weight(f).Validate(); err != nil {
		return err
	}
	*w = Weight(f)
	return nil
}

// Affine reports the base and the step, at least 1, for which Levels[c] ==
// base + step*c for every code c. Several books are not affine.
func (w Weight) Affine() (base, step int, ok bool) {
	if w.Books > 0 || len(w.Levels) < 2 || w.Levels[1] <= w.Levels[0] {
		return 0, 0, false
	}
	base, step = w.Levels[0], w.Levels[1]-w.Levels[0]
	for c, v := range w.Levels {
		if v != base+step*c {
			return 0, 0, false
		}
	}
	return base, step, true
}

// Symmetric says that code c and the last one minus c have opposite levels, in the only book.
func (w Weight) Symmetric() bool {
	if w.Books > 0 {
		return false
	}
	for c, v := range w.Levels {
		if v != -w.Levels[len(w.Levels)-1-c] {
			return false
		}
	}
	return true
}

// Same says that v has the same codes with the same meaning as w: all fields are equal, but the name and the nominal bits.
func (w Weight) Same(v Weight) bool {
	if !slices.Equal(w.Levels, v.Levels) {
		return false
	}
	w.Levels, v.Levels = nil, nil
	v.Name, v.Bound = w.Name, w.Bound
	return reflect.DeepEqual(w, v)
}

// derives says whether a built-in format has the codes of w and what they mean.
func (w Weight) derives(named Weight) bool {
	return named.Bits == w.Bits && named.Books == w.Books && slices.Equal(named.Levels, w.Levels) && (w.Min || !named.Min)
}

// inBook is " of book 3", "" if there is one only.
func (w Weight) inBook(book int) string {
	if w.Books == 0 {
		return ""
	}
	return fmt.Sprintf(" of book %d", book)
}

// NumBooks is the number of codebooks, at least 1.
func (w Weight) NumBooks() int { return max(w.Books, 1) }

// Codes is the number of codes that are allowed: the levels of a book.
func (w Weight) Codes() int { return len(w.Levels) / w.NumBooks() }

// FirstForbidden is the index of the first code that w does not allow, -1 if there is none.
func (w *Weight) FirstForbidden(codes []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	n, i := w.Codes(), 0
	if n > 255 {
		return -1
	}
	if n <= 128 { // several words at once
		add := uint64(128-n) * ones
		for ; len(codes)-i >= 32; i += 32 {
			b, large := codes[i:][:32], uint64(0)
			for ; len(b) >= 8; b = b[8:] {
				v := binary.LittleEndian.Uint64(b)
				large |= v | (v&^high + add)
			}
			if large&high != 0 {
				break
			}
		}
	}
	for ; len(codes)-i >= 8; i += 8 { // as bytes of a word
		v := binary.LittleEndian.Uint64(codes[i:])
		large := v&^high + uint64((256-n)%128)*ones // the high bit: the low 7 are n%128 or more
		if n > 128 {
			large &= v
		} else {
			large |= v
		}
		if large&high != 0 {
			break
		}
	}
	for ; i < len(codes); i++ {
		if int(codes[i]) >= n {
			return i
		}
	}
	return -1
}

// Level is what a code means in a book.
func (w Weight) Level(book, code byte) int { return w.Levels[int(book)*w.Codes()+int(code)] }

// Peak is the largest magnitude of what activations are multiplied by before scales: that
// of a level without its zero point, at least 1.
func (w Weight) Peak() int {
	if w.Zero {
		return max(w.MaxLevel()+128, 127-w.MinLevel())
	}
	return max(w.MaxLevel(), -w.MinLevel(), 1)
}

// MostScale is the largest magnitude of a sub-scale or sub-minimum, 0 if scales have one level.
func (w Weight) MostScale() int {
	least, most := w.SubRange()
	return max(-least, most)
}

// SubRange is the range of sub-scales, 0 to 0 if scales have one level.
func (w Weight) SubRange() (least, most int) {
	switch {
	case w.Super == 0:
		return 0, 0
	case w.Scale == I8:
		return -128, 127
	}
	return 0, 255
}

// MinLevel is the smallest level.
func (w Weight) MinLevel() int { return slices.Min(w.Levels) }

// MaxLevel is the largest level.
func (w Weight) MaxLevel() int { return slices.Max(w.Levels) }
