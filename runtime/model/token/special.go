package token

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// specials are the tokens whose text is looked for before all else.
type specials struct {
	list []special // by text
	// begins has the first bytes of the texts: of the tokens found always, and of all.
	begins [2][256]bool
}

type special struct {
	text string
	id   int32
	// hidden tokens are found only if asked for.
	hidden bool
	// eats takes the white space behind the token away.
	eats bool

	// shorter is the place of the longest other text that this one begins with, or -1.
	shorter int
	// rank is the place in the order of looking: long texts first, then low ids.
	rank int32
}

func newSpecials(list []special) specials {
	slices.SortFunc(list, func(a, b special) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.id, b.id))
	})
	for i := range list {
		list[i].rank = int32(i)
	}
	slices.SortFunc(list, func(a, b special) int { return strings.Compare(a.text, b.text) })
	s := specials{list: list}
	for i := range list {
		x := &list[i]
		s.begins[1][x.text[0]] = true
		if !x.hidden {
			s.begins[0][x.text[0]] = true
		}
		for x.shorter = i - 1; x.shorter >= 0 && !strings.HasPrefix(x.text, list[x.shorter].text); {
			x.shorter = list[x.shorter].shorter
		}
	}
	return s
}

// find returns the token of exactly this text, or None.
func (s *specials) find(text string) int32 {
	i, ok := slices.BinarySearchFunc(s.list, text, func(x special, text string) int { return strings.Compare(x.text, text) })
	if !ok {
		return None
	}
	return s.list[i].id
}

// longest returns the place of the longest special that text begins with, or -1.
func (s *specials) longest(text string) int {
	// The last one that is not behind text begins with each special that text begins with.
	i := sort.Search(len(s.list), func(i int) bool { return s.list[i].text > text }) - 1
	if i < 0 {
		return -1
	}
	near := s.list[i].text
	same := 0
	for same < min(len(near), len(text)) && near[same] == text[same] {
		same++
	}
	for i >= 0 && len(s.list[i].text) > same {
		i = s.list[i].shorter
	}
	return i
}

// hiddenAt reports whether text begins with a special that is found only if asked for, and has more than one character.
func (s *specials) hiddenAt(text string) bool {
	_, n := utf8.DecodeRuneInString(text)
	for i := s.longest(text); i >= 0; i = s.list[i].shorter {
		if s.list[i].hidden && len(s.list[i].text) > n {
			return true
		}
	}
	return false
}

// hiddenBegins reports whether text is the beginning of a special that is found only if asked for, and no special begins with it that is
// always found.
func (s *specials) hiddenBegins(text string) bool {
	for i := s.longest(text); i >= 0; i = s.list[i].shorter {
		if !s.list[i].hidden {
			return false
		}
	}
	first := sort.Search(len(s.list), func(i int) bool { return s.list[i].text > text })
	for _, x := range s.list[first:] {
		if !strings.HasPrefix(x.text, text) {
			return false
		}
		if x.hidden {
			return true
		}
	}
	return false
}

// match is a special token in a text. With the white space that it eats it takes the bytes from start to end.
type match struct {
	start, end int
	id         int32
}

// split finds the specials in a text, in its order. Where several overlap, the longest text wins, then the lower id, then
// the first place. Hidden ones are found if hidden is true.
func (s *specials) split(text string, hidden bool) []match {
	q := s.candidates(text, hidden)
	if len(q) == 0 {
		return nil
	}
	taken := make([]bool, len(text))
	var out []match
	for len(q) > 0 {
		c := q.pop()
		x := &s.list[c.id]
		end := c.left + len(x.text)
		switch {
		case taken[c.left]:
		case taken[end-1]: // nothing shorter was taken yet, so the ends tell
			s.offer(&q, c.left, x.shorter, hidden)
		default:
			for x.eats && end < len(text) && !taken[end] && isBlank(text[end]) {
				end++
			}
			for i := c.left; i < end; i++ {
				taken[i] = true
			}
			out = append(out, match{c.left, end, x.id})
		}
	}
	slices.SortFunc(out, func(a, b match) int { return cmp.Compare(a.start, b.start) })
	return out
}

// candidates are the longest special at each place of a text.
func (s *specials) candidates(text string, hidden bool) (q queue) {
	begins := &s.begins[0]
	if hidden {
		begins = &s.begins[1]
	}
	for at := range len(text) {
		if begins[text[at]] {
			s.offer(&q, at, s.longest(text[at:]), hidden)
		}
	}
	return q
}

// offer adds the special at place i of the list, or the longest shorter one that may be found, where it begins in a text.
func (s *specials) offer(q *queue, start, i int, hidden bool) {
	for i >= 0 && s.list[i].hidden && !hidden {
		i = s.list[i].shorter
	}
	if i >= 0 {
		q.push(candidate{rank: s.list[i].rank, id: int32(i), left: start})
	}
}

func isBlank(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' }
