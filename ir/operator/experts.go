package operator

import (
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// Experts is the operators that choose the experts of a position, group positions by them, and add up what they compute, in order, on devices.
func Experts() []Operator {
	return []Operator{Rank(), Choose(), PlaceOf(), Key(), Earlier(), Slot(), Found(), Gather(), Sigmoid(), Weighted()}
}

// ofExperts are numbers of experts: no kernel is for multiples only.
var ofExperts = []map[string]int{{"E": 5}, {"E": 64}}

// Rank is how many of E scores x come before the score own: greater ones, and of equal ones those with lower numbers. A NaN is greater than all numbers.
// number counts the scores from 0 on, and at is the number of own. All but x and number have one element.
func Rank() Operator {
	g := &builder{}
	x, number := g.input("x", format.F32, "j"), g.input("number", format.I32, "j")
	own, at := g.input("own", format.F32, "i"), g.input("at", format.I32, "i")
	i, j := g.axis("rank", "i", 1), g.run("rank", "j", "E")
	lower := greater(read(at, axis(i)), read(number, axis(j))) // then an equal score counts, too
	before := greater(sortable(read(x, axis(j))), plus(sortable(read(own, axis(i))), lower))
	g.reduce("rank", format.I32, []ir.Dim{i}, j, ir.Binary{Op: ir.And, X: before, Y: ir.I32(1)})
	return Operator{Name: "rank", About: "how many scores come before one", Graph: g.graph(), Outputs: []string{"rank"}, Sizes: ofExperts}
}

// sortable is an integer of the order of x, an f32: -0 is 0, and a NaN more than all others.
func sortable(x ir.Expr) ir.Expr {
	size := ir.Binary{Op: ir.And, X: bits(x), Y: ir.I32(magnitude)}
	signed := either(greater(ir.I32(0), bits(x)), sub(ir.I32(0), size), size)
	return either(greater(size, ir.I32(infinityBits)), ir.I32(magnitude), signed)
}

// either is x where mask has ones, y where it has zeros, of integers.
func either(mask, x, y ir.Expr) ir.Expr {
	return ir.Binary{Op: ir.Or, X: ir.Binary{Op: ir.And, X: x, Y: mask}, Y: ir.Binary{Op: ir.And, X: sub(ir.I32(-1), mask), Y: y}}
}

// greater is all ones if x, an i32, is greater than y, and 0 otherwise.
func greater(x, y ir.Expr) ir.Expr { return ir.Binary{Op: ir.CmpGtS, X: x, Y: y} }

// Choose is the numbers and the scores of the Block experts that come first of E, by the ranks that Rank gives them. Behind the last both are 0.
// number counts the experts from 0 on, and place the first Block of them.
func Choose() Operator {
	g := &builder{}
	x, rank := g.input("x", format.F32, "e"), g.input("rank", format.I32, "e")
	number, place := g.input("number", format.I32, "e"), g.input("place", format.I32, "s")
	// of is v of the expert at each place
	of := func(name string, v func(e ir.Expr) ir.Expr) *ir.Tensor {
		s, e := g.axis(name, "s", Block), g.run(name, "e", "E")
		r, at := read(rank, axis(e)), read(place, axis(s))
		return g.reduce(name, format.I32, []ir.Dim{s}, e, ir.Binary{Op: ir.And, X: equal(r, at), Y: v(axis(e))})
	}
	of("chosen", func(e ir.Expr) ir.Expr { return read(number, e) })
	found := of("found", func(e ir.Expr) ir.Expr { return bits(read(x, e)) })
	s := g.axis("score", "s", Block)
	g.stage("score", format.F32, []ir.Dim{s}, bits(read(found, axis(s))))
	return Operator{Name: "choose", About: "numbers and scores of the first experts", Graph: g.graph(), Outputs: []string{"chosen", "score"}, Sizes: ofExperts}
}

// PlaceOf is where the matrix of a number is, in bytes: number times apart.
func PlaceOf() Operator {
	g := &builder{}
	number, apart := g.input("number", format.I32, "i"), g.input("apart", format.I32, "i")
	g.stage("place", format.I32, []ir.Dim{g.axis("place", "i", 1)}, mul(read(number, ir.I32(0)), read(apart, ir.I32(0))))
	return Operator{Name: "place", About: "where the matrix of an expert is", Graph: g.graph(), Outputs: []string{"place"}}
}

// ofPlaces are numbers of places of positions: no kernel is for multiples only.
var ofPlaces = []map[string]int{{"P": 5}, {"P": 64}}

// equal is all ones if x and y, of i32, are equal, and 0 otherwise.
func equal(x, y ir.Expr) ir.Expr {
	return ir.Binary{Op: ir.And, X: greater(plus(x, ir.I32(1)), y), Y: greater(plus(y, ir.I32(1)), x)}
}

// placeBits is how many bits of a key number places. The others, and no sign, are an expert.
const placeBits = 16

// MostPlaces is how many places keys tell apart.
const MostPlaces = 1 << placeBits

// Key is what places are sorted by: the expert of a place, and its number. They are below 2^15 and MostPlaces. The expert is also there by itself.
func Key() Operator {
	g := &builder{}
	chosen, number := g.input("chosen", format.I32, "i"), g.input("number", format.I32, "i")
	of := read(chosen, ir.I32(0))
	g.stage("expert", format.I32, []ir.Dim{g.axis("expert", "i", 1)}, of)
	g.stage("key", format.I32, []ir.Dim{g.axis("key", "i", 1)}, plus(ir.Binary{Op: ir.Shl, X: of, Y: ir.I32(placeBits)}, read(number, ir.I32(0))))
	return Operator{Name: "key", About: "an expert and the number of its place", Graph: g.graph(), Outputs: []string{"expert", "key"}}
}

// Earlier is, of each of Panel places with the keys own, how many of P places with the keys key have its expert and are before it.
func Earlier() Operator {
	g := &builder{}
	key, own := g.input("key", format.I32, "j"), g.input("own", format.I32, "i")
	i, j := g.axis("earlier", "i", Panel), g.run("earlier", "j", "P")
	first := ir.Binary{Op: ir.And, X: read(own, axis(i)), Y: ir.I32(-MostPlaces)} // of its expert
	before := ir.Binary{Op: ir.And, X: greater(read(own, axis(i)), read(key, axis(j))), Y: greater(plus(read(key, axis(j)), ir.I32(1)), first)}
	g.reduce("earlier", format.I32, []ir.Dim{i}, j, ir.Binary{Op: ir.And, X: before, Y: ir.I32(1)})
	return Operator{Name: "earlier", About: "how many places before one have its expert", Graph: g.graph(), Outputs: []string{"earlier"}, Sizes: ofPlaces}
}

// Slot is where each of Panel places comes when P places are sorted by their keys, and each expert's begin a block of mask + 1 slots, a power of two. own and column are the keys of
// the Panel places and what Earlier says of them, key and earlier the same of all places. A block begins with each place that a multiple of its slots is earlier of its expert.
func Slot() Operator {
	g := &builder{}
	key, earlier := g.input("key", format.I32, "j"), g.input("earlier", format.I32, "j")
	own, column, mask := g.input("own", format.I32, "i"), g.input("column", format.I32, "i"), g.input("mask", format.I32, "m")
	i, j := g.axis("blocks", "i", Panel), g.run("blocks", "j", "P")
	inBlock := func(n ir.Expr) ir.Expr { return ir.Binary{Op: ir.And, X: n, Y: read(mask, ir.I32(0))} }
	begins := ir.Binary{Op: ir.And, X: greater(ir.I32(1), inBlock(read(earlier, axis(j)))), Y: ir.I32(1)}
	upTo := greater(plus(read(own, axis(i)), ir.I32(1)), read(key, axis(j)))
	blocks := g.reduce("blocks", format.I32, []ir.Dim{i}, j, ir.Binary{Op: ir.And, X: upTo, Y: begins})
	i = g.axis("slot", "i", Panel)
	begin := mul(sub(read(blocks, axis(i)), ir.I32(1)), plus(read(mask, ir.I32(0)), ir.I32(1)))
	g.stage("slot", format.I32, []ir.Dim{i}, plus(begin, inBlock(read(column, axis(i)))))
	return Operator{Name: "slot", About: "where a place comes by its expert", Graph: g.graph(), Outputs: []string{"slot"}, Sizes: ofPlaces}
}

// Found is, of each of Panel numbers own, the value of the one of P keys that is equal, or 0.
func Found() Operator {
	g := &builder{}
	key, value, own := g.input("key", format.I32, "j"), g.input("value", format.I32, "j"), g.input("own", format.I32, "i")
	i, j := g.axis("found", "i", Panel), g.run("found", "j", "P")
	g.reduce("found", format.I32, []ir.Dim{i}, j, ir.Binary{Op: ir.And, X: equal(read(key, axis(j)), read(own, axis(i))), Y: read(value, axis(j))})
	return Operator{Name: "found", About: "the value of a key", Graph: g.graph(), Outputs: []string{"found"}, Sizes: ofPlaces}
}

// Gather is a vector that lies anywhere in memory.
func Gather() Operator {
	g := &builder{}
	x, k := g.input("x", format.F32, "k"), g.run("out", "k", "K")
	g.stage("out", format.F32, []ir.Dim{k}, read(x, axis(k)))
	return Operator{Name: "gather", About: "a vector of a list", Graph: g.graph(), Outputs: []string{"out"}, Paged: "x"}
}

// Sigmoid is 1 / (1 + exp(-x)), as the softmax of x and 0: of their maximum m, exp(x - m) / (exp(x - m) + exp(0 - m)).
func Sigmoid() Operator {
	return pointwise("sigmoid", "sigmoid of a vector: the gate of the expert that all positions have", []string{"x"}, func(in []ir.Expr) ir.Expr {
		least := num(0)
		top := ir.Binary{Op: ir.Max, X: in[0], Y: least}
		e := Exp(sub(in[0], top))
		return div(e, add(e, Exp(sub(least, top))))
	})
}

// Weighted is the sum of U vectors of K elements, each times its weight, from +0 and in order.
func Weighted() Operator {
	g := &builder{}
	y, w := g.input("y", format.F32, "u", "k"), g.input("w", format.F32, "u")
	k, u := g.run("sum", "k", "K"), g.run("sum", "u", "U")
	sum := g.reduce("sum", format.F32, []ir.Dim{k}, u, mul(read(y, axis(u), axis(k)), read(w, axis(u))))
	k = g.run("out", "k", "K")
	g.stage("out", format.F32, []ir.Dim{k}, canon(read(sum, axis(k))))
	return Operator{Name: "weighted", About: "sum of vectors times weights: experts", Graph: g.graph(), Outputs: []string{"out"}, Rows: []string{"y"},
		Sizes: []map[string]int{{"K": 96, "U": 2}, {"K": 4096, "U": 3}}}
}
