// Package grammar says which tokens of a model may come next so that the text stays one of a grammar. Grammars are written in
// GBNF, llama.cpp's language, or as a JSON schema. They are rules over bytes, so that a token may end inside of a character.
package grammar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Limits of grammars. One that exceeds them is refused.
const (
	mostNodes   = 300_000
	mostDepth   = 500     // of parentheses, or of a schema
	mostRepeats = 100_000 // of {m,n}
	mostText    = 1 << 18 // bytes of a grammar or a schema
)

// Grammar is a set of texts. It does not change, and any number of masks may use it.
type Grammar struct {
	nodes []node
	sets  []byteSet
	root  int32
	class [256]uint8 // bytes of the same class are in the same sets
	bytes [256]uint8 // a byte of each class
	count int        // of classes
}

// kind is the type of a node.
type kind uint8

const (
	oneByte  kind = iota // a byte of a set
	sequence             // all kids, one after the other
	choice               // one of the kids
	repeat               // the kid, least to most times
	rule                 // the kid, which is set after the rule is used
)

// node is an expression of a grammar.
type node struct {
	kind        kind
	set         int32 // of oneByte
	kids        []int32
	least, most int32        // of repeat; most < 0: any number
	need        int32        // bytes of its shortest text
	best        int32        // of choice: the kid with the shortest text
	rest        []int32      // of sequence: bytes that the kids from i on need
	name        string       // of rule, "" for the value of a schema
	place       fmt.Stringer // of rule: where it is defined
}

// endless is the need of a node that no text ends, and more than any text needs.
const endless = 1 << 29

// Error is a fault of a grammar or a schema.
type Error struct {
	Place   string // "line 3, column 7" of a grammar, or a JSON pointer such as "#/properties/age" into a schema
	Problem string
}

func (e *Error) Error() string { return e.Place + ": " + e.Problem }

func errorf(place fmt.Stringer, format string, args ...any) *Error {
	return &Error{place.String(), fmt.Sprintf(format, args...)}
}

// line is a line and a column.
type line string

func (l line) String() string { return string(l) }

// title is what errors call a rule.
func (n *node) title() string {
	if n.name == "" {
		return "the value of " + n.place.String()
	}
	return "the rule " + n.name
}

// builder makes a grammar. From mostNodes on it makes no more nodes, and no grammar.
type builder struct {
	nodes []node
	sets  []byteSet
	known map[byteSet]int32 // nodes of sets
}

func newBuilder() *builder { return &builder{known: map[byteSet]int32{}} }

func (b *builder) add(n node) int32 {
	if len(b.nodes) > mostNodes {
		return mostNodes
	}
	b.nodes = append(b.nodes, n)
	return int32(len(b.nodes) - 1)
}

// oneByte is a byte of a set.
func (b *builder) oneByte(s byteSet) int32 {
	n, ok := b.known[s]
	if !ok {
		b.sets = append(b.sets, s)
		n = b.add(node{kind: oneByte, set: int32(len(b.sets) - 1)})
		b.known[s] = n
	}
	return n
}

func (b *builder) sequence(kids ...int32) int32 {
	if len(kids) == 1 {
		return kids[0]
	}
	return b.add(node{kind: sequence, kids: kids})
}

func (b *builder) choice(kids ...int32) int32 {
	if len(kids) == 1 {
		return kids[0]
	}
	return b.add(node{kind: choice, kids: kids})
}

// literal is exactly this text.
func (b *builder) literal(text string) int32 {
	kids := make([]int32, len(text))
	for i := range kids {
		kids[i] = b.oneByte(newByteSet(text[i], text[i]))
	}
	return b.sequence(kids...)
}

// repeat is the kid least to most times; most < 0: any number.
func (b *builder) repeat(kid, least, most int32) int32 {
	if least == 1 && most == 1 {
		return kid
	}
	return b.add(node{kind: repeat, kids: []int32{kid}, least: least, most: most})
}

func (b *builder) optional(kid int32) int32 { return b.repeat(kid, 0, 1) }

// rule is a node whose kid is set later, by define.
func (b *builder) rule(name string, place fmt.Stringer) int32 {
	return b.add(node{kind: rule, name: name, place: place})
}

func (b *builder) define(rule, kid int32) { b.nodes[rule].kids = []int32{kid} }

// grammar is the texts of a node.
func (b *builder) grammar(root int32, place fmt.Stringer) (*Grammar, error) {
	if len(b.nodes) > mostNodes {
		return nil, errorf(place, "the grammar is too large: at most %d characters and expressions are possible", mostNodes)
	}
	g := &Grammar{nodes: b.nodes, sets: b.sets, root: root}
	g.needs()
	used := g.reachable()
	if g.nodes[root].need >= endless && g.nodes[root].kind != rule {
		return nil, errorf(place, "no text ends within %d bytes", endless)
	}
	for i, n := range g.nodes {
		if used[i] && n.kind == rule && n.need >= endless {
			return nil, errorf(n.place, "%s never ends: each of its alternatives needs another one without end, or more than %d bytes", n.title(), endless)
		}
	}
	if err := g.leftRecursion(used); err != nil {
		return nil, err
	}
	g.classify()
	if _, err := newMachine(g); err != nil {
		return nil, errorf(place, "%v", err)
	}
	return g, nil
}

// reachable marks the nodes of the texts.
func (g *Grammar) reachable() []bool {
	used := make([]bool, len(g.nodes))
	for todo := []int32{g.root}; len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !used[n] {
			used[n] = true
			todo = append(todo, g.nodes[n].kids...)
		}
	}
	return used
}

// nullable reports whether a node has the empty text.
func (g *Grammar) nullable(n int32) bool { return g.nodes[n].need == 0 }

// firsts are the kids that a text of the node may begin with.
func (g *Grammar) firsts(n *node) []int32 {
	if n.kind != sequence {
		return n.kids
	}
	for i, kid := range n.kids {
		if !g.nullable(kid) {
			return n.kids[:i+1]
		}
	}
	return n.kids
}

// step is a node on a path, and which of its first kids were tried.
type step struct {
	node   int32
	firsts []int32
	next   int
}

// leftRecursion is an error if a rule begins with itself: then no byte would tell how often.
func (g *Grammar) leftRecursion(used []bool) error {
	entered, left := make([]bool, len(g.nodes)), make([]bool, len(g.nodes))
	var path []step
	enter := func(n int32) {
		entered[n] = true
		path = append(path, step{node: n, firsts: g.firsts(&g.nodes[n])})
	}
	for start := range g.nodes {
		if used[start] && !entered[start] {
			enter(int32(start))
		}
		for len(path) > 0 {
			at := &path[len(path)-1]
			if at.next == len(at.firsts) {
				left[at.node] = true
				path = path[:len(path)-1]
				continue
			}
			kid := at.firsts[at.next]
			at.next++
			switch {
			case !entered[kid]:
				enter(kid)
			case !left[kid]:
				return g.recursion(path[slices.IndexFunc(path, func(s step) bool { return s.node == kid }):])
			}
		}
	}
	return nil
}

// recursion is the error of a circle of nodes.
func (g *Grammar) recursion(circle []step) error {
	var names []string
	var place fmt.Stringer
	for _, at := range circle {
		if n := &g.nodes[at.node]; n.kind == rule {
			place = cmp.Or(place, n.place)
			names = append(names, n.title())
		}
	}
	if len(names) > 1 {
		return errorf(place, "%s begins with itself, by %s: left recursion is not possible", names[0], strings.Join(names[1:], ", "))
	}
	return errorf(place, "%s begins with itself: left recursion is not possible", names[0])
}

// classify puts bytes that no set tells apart into the same class. There are never more classes than bytes.
func (g *Grammar) classify() {
	g.count = 1
	for _, s := range g.sets {
		var numbers [2][256]int // of new classes from 1 on: of bytes outside of the set and in it, by their old classes
		g.count = 0
		for b := range 256 {
			in := 0
			if s.has(byte(b)) {
				in = 1
			}
			number := &numbers[in][g.class[b]]
			if *number == 0 {
				g.count++
				*number = g.count
			}
			g.class[b] = uint8(*number - 1)
		}
	}
	for b := range 256 {
		g.bytes[g.class[b]] = uint8(b)
	}
}
