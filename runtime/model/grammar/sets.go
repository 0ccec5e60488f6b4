package grammar

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

// newByteSet has the bytes from lo to hi.
func newByteSet(lo, hi byte) (s byteSet) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
	return s
}

// or is the bytes of both sets.
func (s byteSet) or(t byteSet) byteSet {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

// without is the bytes of s that t lacks.
func (s byteSet) without(t byteSet) byteSet {
	for i := range s {
		s[i] &^= t[i]
	}
	return s
}

func (s byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

// span is the characters from lo to hi.
type span struct{ lo, hi rune }

// charSet is a set of characters. Its spans ascend, and none touches another.
type charSet []span

// The last characters before the surrogates, and the first after them.
const (
	beforeSurrogates = 0xd7ff
	afterSurrogates  = 0xe000
)

// newCharSet is the characters of all spans. There are no surrogates.
func newCharSet(spans ...span) charSet {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	var out charSet
	for _, x := range sorted {
		x.hi = min(x.hi, utf8.MaxRune)
		if x.lo <= beforeSurrogates && x.hi > beforeSurrogates {
			out = out.join(span{x.lo, beforeSurrogates})
			x.lo = afterSurrogates
		}
		if x.lo > beforeSurrogates {
			x.lo = max(x.lo, afterSurrogates)
		}
		out = out.join(x)
	}
	return out
}

// join is s with a span that begins at or after the last one.
func (s charSet) join(x span) charSet {
	if x.lo > x.hi {
		return s
	}
	if n := len(s); n > 0 && x.lo <= s[n-1].hi+1 {
		s[n-1].hi = max(s[n-1].hi, x.hi)
		return s
	}
	return append(s, x)
}

// anyChar is all characters.
func anyChar() charSet { return newCharSet(span{0, utf8.MaxRune}) }

// not is all other characters.
func (s charSet) not() charSet {
	var out []span
	next := rune(0)
	for _, x := range s {
		out = append(out, span{next, x.lo - 1})
		next = x.hi + 1
	}
	out = append(out, span{next, utf8.MaxRune})
	return newCharSet(slices.DeleteFunc(out, func(x span) bool { return x.lo > x.hi })...)
}

// without is the characters of s that t lacks.
func (s charSet) without(t charSet) charSet {
	return newCharSet(append(slices.Clone(s.not()), t...)...).not()
}

// and is the characters of both.
func (s charSet) and(t charSet) charSet { return s.without(t.not()) }

// has reports whether c is in the set.
func (s charSet) has(c rune) bool {
	return slices.ContainsFunc(s, func(x span) bool { return x.lo <= c && c <= x.hi })
}

// chars is one character of a set, in UTF-8: bytes below 0x80, or a choice of sequences of ranges of bytes.
func (b *builder) chars(s charSet) int32 {
	var ascii byteSet
	var kids []int32
	for _, x := range s {
		for c := x.lo; c <= min(x.hi, utf8.RuneSelf-1); c++ {
			ascii[c>>6] |= 1 << (c & 63)
		}
		for _, limit := range []rune{0x7ff, 0xffff, utf8.MaxRune} {
			if first := (span{max(x.lo, firstOfLength(limit)), min(x.hi, limit)}); first.lo <= first.hi {
				kids = b.ranges(kids, nil, []byte(string(first.lo)), []byte(string(first.hi)))
			}
		}
	}
	if ascii != (byteSet{}) {
		kids = append([]int32{b.oneByte(ascii)}, kids...)
	}
	return b.choice(kids...)
}

// firstOfLength is the first character with the same number of bytes as the last one.
func firstOfLength(last rune) rune {
	switch last {
	case 0x7ff:
		return utf8.RuneSelf
	case 0xffff:
		return 0x800
	}
	return 0x10000
}

// ranges adds the sequences of bytes from lo to hi, which are equally long and follow the bytes of before.
//
//	e0 a5 80 to e0 bf bf   e0 (a5 to bf) (80 to bf)
//	c3 85 to c5 82         c3 (85 to bf), c4 (80 to bf), c5 (80 to 82)
func (b *builder) ranges(kids []int32, before []int32, lo, hi []byte) []int32 {
	before = slices.Clip(before)
	if len(lo) == 1 {
		return append(kids, b.sequence(append(before, b.oneByte(newByteSet(lo[0], hi[0])))...))
	}
	if lo[0] == hi[0] {
		return b.ranges(kids, append(before, b.oneByte(newByteSet(lo[0], lo[0]))), lo[1:], hi[1:])
	}
	first, last := lo[0], hi[0]
	if least := lowest(len(lo) - 1); string(lo[1:]) != string(least) {
		kids = b.ranges(kids, append(before, b.oneByte(newByteSet(first, first))), lo[1:], highest(len(lo)-1))
		first++
	}
	most := string(hi[1:]) == string(highest(len(hi)-1))
	if !most {
		last--
	}
	if first <= last {
		middle := append(before, b.oneByte(newByteSet(first, last)))
		for range len(lo) - 1 {
			middle = append(middle, b.oneByte(newByteSet(0x80, 0xbf)))
		}
		kids = append(kids, b.sequence(middle...))
	}
	if !most {
		kids = b.ranges(kids, append(before, b.oneByte(newByteSet(hi[0], hi[0]))), lowest(len(hi)-1), hi[1:])
	}
	return kids
}

// lowest is the first n bytes that continue a character, highest the last ones.
func lowest(n int) []byte  { return slices.Repeat([]byte{0x80}, n) }
func highest(n int) []byte { return slices.Repeat([]byte{0xbf}, n) }
