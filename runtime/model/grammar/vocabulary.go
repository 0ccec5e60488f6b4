package grammar

import (
	"bytes"
	"slices"
)

// Tokens are the tokens of a model: a *token.Tokenizer.
type Tokens interface {
	// Len is the number of tokens.
	Len() int
	// AppendPiece appends the bytes of a token: none for a control token, unless special is true.
	AppendPiece(dst []byte, id int32, special bool) []byte
	// EndOfGeneration reports whether a token ends a text.
	EndOfGeneration(id int32) bool
}

// Vocabulary is the tokens of a model by their bytes. It does not change, and any number of masks may use it.
type Vocabulary struct {
	tokens  Tokens
	ends    []int32 // the tokens that end a text
	tree    []branch
	ids     []int32    // of all branches
	roots   [256]int32 // the branch of a token's first byte, or absent
	single  [256]int32 // the token that is a byte, or absent
	longest int        // bytes of a token
}

// absent is a branch or a token that there is not.
const absent int32 = -1

// branch is the tokens that begin with the same bytes. The branches behind it, up to next, begin with them, too.
type branch struct {
	b      byte  // the last one of them
	depth  int32 // how many bytes come before it
	next   int32
	first  int32 // in ids: the tokens that have no more bytes
	behind int32
}

// NewVocabulary is the vocabulary of a model. Tokens without bytes, such as control tokens, never come but at the end.
func NewVocabulary(t Tokens) *Vocabulary {
	v := &Vocabulary{tokens: t}
	pieces, text := v.pieces()
	var path []int32 // the branches of the last token
	for _, x := range pieces {
		piece := text[x.from:x.to]
		same := 0
		for same < min(len(path), len(piece)) && v.tree[path[same]].b == piece[same] {
			same++
		}
		path = v.close(path, same)
		for _, b := range piece[same:] {
			path = append(path, int32(len(v.tree)))
			v.tree = append(v.tree, branch{b: b, depth: int32(len(path) - 1), first: int32(len(v.ids)), behind: int32(len(v.ids))})
		}
		v.ids = append(v.ids, x.id)
		v.tree[path[len(path)-1]].behind++
	}
	v.close(path, 0)
	v.index()
	return v
}

// piece is where a token is in a text of all of them.
type piece struct {
	from, to int
	id       int32
}

// pieces are the tokens with bytes, in the order of their bytes. It also finds the tokens that end a text.
func (v *Vocabulary) pieces() (list []piece, text []byte) {
	for id := range int32(v.tokens.Len()) {
		if v.tokens.EndOfGeneration(id) {
			v.ends = append(v.ends, id)
			continue
		}
		from := len(text)
		if text = v.tokens.AppendPiece(text, id, false); len(text) > from {
			list = append(list, piece{from, len(text), id})
			v.longest = max(v.longest, len(text)-from)
		}
	}
	slices.SortStableFunc(list, func(a, b piece) int { return bytes.Compare(text[a.from:a.to], text[b.from:b.to]) })
	return list, text
}

// close ends the branches of a path from one on.
func (v *Vocabulary) close(path []int32, from int) []int32 {
	for _, at := range path[from:] {
		v.tree[at].next = int32(len(v.tree))
	}
	return path[:from]
}

// index finds the first branches and the tokens of one byte.
func (v *Vocabulary) index() {
	for b := range 256 {
		v.roots[b], v.single[b] = absent, absent
	}
	for at := int32(0); int(at) < len(v.tree); at = v.tree[at].next {
		x := &v.tree[at]
		v.roots[x.b] = at
		if x.behind > x.first {
			v.single[x.b] = v.ids[x.first]
		}
	}
}

// child is the branch of the next byte after a branch, or absent.
func (v *Vocabulary) child(at int32, b byte) int32 {
	for i := at + 1; i < v.tree[at].next; i = v.tree[i].next {
		if v.tree[i].b == b {
			return i
		}
	}
	return absent
}

// fewest is the fewest tokens that are a text, or false if none are.
func (v *Vocabulary) fewest(text []byte) ([]int32, bool) {
	type step struct {
		count  int32 // of tokens from here on, absent if there are none
		id     int32
		length int32
	}
	steps := make([]step, len(text)+1)
	for i := len(text) - 1; i >= 0; i-- {
		steps[i].count = absent
		for at, n := v.roots[text[i]], i+1; at != absent; n++ {
			x := &v.tree[at]
			if rest := steps[n].count; x.behind > x.first && rest != absent && (steps[i].count == absent || rest+1 < steps[i].count) {
				steps[i] = step{rest + 1, v.ids[x.first], int32(n - i)}
			}
			if n == len(text) {
				break
			}
			at = v.child(at, text[n])
		}
	}
	if steps[0].count == absent {
		return nil, false
	}
	var out []int32
	for i := 0; i < len(text); i += int(steps[i].length) {
		out = append(out, steps[i].id)
	}
	return out, true
}
