package grammar

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// Mask allows the tokens that keep a text in a grammar. It is a sample.Mask for one text at a time.
//
// Where the number of tokens is limited, it allows only tokens after which the text can still end in time: it has a plan, the
// shortest text from here on in the fewest tokens. A token may come if the plan after it is short enough, or if it is the next
// one of the plan. So the text always ends in time, if it could at the beginning.
type Mask struct {
	g       *Grammar
	v       *Vocabulary
	m       *machine
	at      int32
	err     error
	permits map[int32]*permit // by state
	plans   map[int32]plan    // by state
	plan    plan              // from the present state on
	planned bool
	states  []int32 // of a walk, by depth
	piece   []byte
	picks   []byte // a byte of each set, for plans
	single  bool   // each of the picks is a token
}

// permit is the tokens that may come at a state.
type permit struct {
	bits []uint64
	need int32 // the most bytes that a text needs after one of them
}

// plan is tokens that end a text.
type plan struct {
	tokens []int32
	exists bool
}

// Limits of what a mask keeps, and of the text of a plan.
const (
	mostPermits = 1 << 10
	mostPlans   = 1 << 14
	mostPlan    = 1 << 16 // bytes
)

var (
	errNoToken = errors.New("no token of the vocabulary continues the text by the grammar")
	errToken   = errors.New("a token came that the grammar does not allow")
)

// NewMask is a mask at the beginning of a text.
func NewMask(g *Grammar, v *Vocabulary) *Mask {
	k := &Mask{g: g, v: v, single: true}
	for _, s := range g.sets {
		b := v.pick(s)
		k.picks = append(k.picks, b)
		k.single = k.single && v.single[b] != absent
	}
	k.Reset()
	return k
}

// Reset goes back to the beginning.
func (k *Mask) Reset() {
	if k.m == nil || k.m.full() {
		k.begin()
	}
	k.at, k.err, k.planned = start, nil, false
}

// begin makes a new machine.
func (k *Mask) begin() {
	m, err := newMachine(k.g)
	if err != nil {
		panic("BUG: grammar: " + err.Error()) // the grammar was checked by one
	}
	k.m, k.permits, k.plans = m, map[int32]*permit{}, map[int32]plan{}
}

// Err is why no token may come, if the grammar is at fault.
func (k *Mask) Err() error { return k.err }

// MayEnd reports whether the text is complete.
func (k *Mask) MayEnd() bool { return k.m.states[k.at].ends }

// Fewest is how many tokens the shortest text from here on has, as far as the mask knows one, or -1. With this number or more
// left, Apply sees to it that the text is complete in time.
func (k *Mask) Fewest() int {
	if p := k.planAt(k.at); p.exists {
		return len(p.tokens)
	}
	return -1
}

// Accept takes the next token.
func (k *Mask) Accept(id int32) {
	if k.planned && len(k.plan.tokens) > 0 && k.plan.tokens[0] == id {
		k.plan.tokens = k.plan.tokens[1:]
	} else {
		k.planned = false
	}
	if k.v.tokens.EndOfGeneration(id) {
		k.at = dead
		return
	}
	k.piece = k.v.tokens.AppendPiece(k.piece[:0], id, false)
	for _, b := range k.piece {
		to, err := k.m.next(k.at, b)
		k.at, k.err = to, cmp.Or(k.err, err)
	}
	if k.err == nil && (k.at == dead || len(k.piece) == 0) {
		k.at, k.err = dead, errToken
	}
	if k.m.full() {
		old, at := k.m, k.at
		k.begin()
		k.at = old.moved(at, k.m)
	}
}

// Apply makes the logits of all tokens that may not come next -Inf. left is how many tokens may still come, this one included
// and one that ends the text excluded; less than 0: any number.
func (k *Mask) Apply(logits []float32, left int) {
	bits := k.allowed(left)
	for from := 0; from < len(logits); from += 64 {
		some := uint64(0)
		if from>>6 < len(bits) {
			some = bits[from>>6]
		}
		if some == math.MaxUint64 {
			continue
		}
		for i := range logits[from:min(from+64, len(logits))] {
			if some>>i&1 == 0 {
				logits[from+i] = float32(math.Inf(-1))
			}
		}
	}
}

// allowed is the tokens that may come next, none if there is an error.
func (k *Mask) allowed(left int) []uint64 {
	p := k.permits[k.at]
	if p == nil && k.err == nil {
		if len(k.permits) >= mostPermits {
			clear(k.permits)
		}
		p = k.walk(-1)
		k.permits[k.at] = p
	}
	if k.err == nil && left >= 0 && !(k.single && int(p.need) < left) && k.inTime(left) {
		p = k.walk(left)
	}
	if k.err == nil && !slices.ContainsFunc(p.bits, func(x uint64) bool { return x != 0 }) {
		k.err = errNoToken
	}
	if k.err != nil {
		return nil
	}
	return p.bits
}

// walk finds the tokens that may come next, so that the text can end within left tokens, unless left is less than 0.
func (k *Mask) walk(left int) *permit {
	p := &permit{bits: make([]uint64, (k.v.tokens.Len()+63)/64)}
	k.states = append(k.states[:0], k.at)
	for i := int32(0); int(i) < len(k.v.tree); {
		x := &k.v.tree[i]
		to, err := k.m.next(k.states[x.depth], x.b)
		if err != nil {
			k.err = err
			return p
		}
		if to == dead {
			i = x.next
			continue
		}
		k.states = append(k.states[:x.depth+1], to)
		if x.behind > x.first && (left < 0 || k.endsWithin(to, left-1)) {
			p.need = max(p.need, k.m.states[to].need)
			p.set(k.v.ids[x.first:x.behind])
		}
		i++
	}
	if left >= 0 && len(k.plan.tokens) > 0 {
		p.set(k.plan.tokens[:1])
	}
	if k.MayEnd() {
		p.set(k.v.ends)
	}
	return p
}

func (p *permit) set(ids []int32) {
	for _, id := range ids {
		p.bits[id>>6] |= 1 << (id & 63)
	}
}
