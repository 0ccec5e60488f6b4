package measure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/timing"
)

// writer writes the text of a probe: one loop around instructions that read and
// write registers. What a pass could drop or merge is carried around the loop and
// stored after it, because values that come from memory and from the previous
// iteration are known to no pass.
type writer struct {
	head    string
	before  []string
	carried []string
	inside  []string
	after   []string
	stored  int // bytes
}

// register names register n, and with its type where it is defined.
func register(n int) string { return fmt.Sprintf("v%d", n) }

// constant defines register n as bytes that no pass knows.
func (w *writer) constant(n int, typ string) {
	w.before = append(w.before, fmt.Sprintf("%s:%s = load x+%d", register(n), typ, n*timing.LineBytes))
}

// variable defines register n likewise, to be redefined in the loop.
func (w *writer) variable(n int, typ string) {
	w.constant(n, typ)
	w.carried = append(w.carried, register(n))
	w.after = append(w.after, fmt.Sprintf("store out+%d %s", w.stored, register(n)))
	w.stored += timing.LineBytes
}

func (w *writer) step(format string, args ...any) {
	w.inside = append(w.inside, "\t"+fmt.Sprintf(format, args...))
}

func (w *writer) text() string {
	lines := slices.Concat(w.before, []string{"loop l0 n carry " + strings.Join(w.carried, " ")}, w.inside, []string{"end"}, w.after)
	return w.head + "\n\t" + strings.Join(lines, "\n\t") + "\n"
}

// clockText is a chain of adds, each waiting for the one before, and prefetches of
// one line that slow down how fast instructions arrive; without adds, a loop of prefetches.
//
//	v0:i32x4 = add v0 v1
//	prefetch x+0
//	v0:i32x4 = add v0 v1
//	prefetch x+0
func clockText(c clockKind) string {
	w := &writer{head: fmt.Sprintf("func %s(x ptr, out ptr, n int)", c.kernel())}
	w.variable(0, "i32x4")
	w.constant(1, "i32x4")
	for i := range max(1, c.adds) {
		if i < c.adds {
			w.step("v0:i32x4 = add v0 v1")
		}
		for range c.prefetches {
			w.step("prefetch x+0")
		}
	}
	return w.text()
}

// The shape of a read probe: loads per iteration, shared by the streams, and
// the number of accumulators that they are added to.
const (
	readLoads = 16
	readSums  = 8
)

// readText reads streams of vectors of `bytes` bytes. With ahead > 0 each line is
// prefetched that many bytes ahead.
//
//	prefetch b0+8192 l0*1024
//	v0:u8x64 = xor v0 [b0+0 l0*1024 u8x64]
//	prefetch b0+8256 l0*1024
//	v1:u8x64 = xor v1 [b0+64 l0*1024 u8x64]
func readText(name string, bytes, streams, ahead int) string {
	w := &writer{head: fmt.Sprintf("func %s(x ptr, ", name)}
	for s := range streams {
		w.head += fmt.Sprintf("b%d ptr, ", s)
	}
	w.head += "out ptr, n int)"
	typ := fmt.Sprintf("u8x%d", bytes)
	for i := range readSums {
		w.variable(i, typ)
	}
	perStream := readLoads / streams
	move := perStream * bytes
	for i := range readLoads {
		stream, at := i%streams, i/streams*bytes
		if ahead > 0 && at%timing.LineBytes == 0 {
			w.step("prefetch b%d+%d l0*%d", stream, at+ahead, move)
		}
		r := register(i % readSums)
		w.step("%s:%s = xor %s [b%d+%d l0*%d %s]", r, typ, r, stream, at, move, typ)
	}
	return w.text()
}

// form is an instruction of a mix. Its arguments are constants of the probe, by
// name, and $, the register it writes: then every instruction waits for an earlier
// one of its chain.
type form struct {
	elem  string // of the result
	rhs   string
	waits wait // for $
}

// wait is how long an instruction waits for the one before it in its chain.
type wait int

const (
	never  wait = iota
	aCycle      // shortChains are enough
	cycles      // dot products, sums of floats
)

// forms are the instructions that mixes are made of.
var forms = map[string]form{
	"and":         {"u8", "and x m", never},
	"andnot":      {"u8", "andnot x m", never},
	"or":          {"u8", "or x m", never},
	"shru":        {"u16", "shru w 4", never},
	"bitsel":      {"u8", "bitsel x m $", aCycle},
	"lookup16":    {"u8", "lookup16 x s", never},
	"lookup64mod": {"u8", "lookup64mod x t", never},
	"lookup128":   {"u8", "lookuppair x t t", never},
	"submsb":      {"u8", "submsb x m $", aCycle},
	"add16":       {"i16", "add $ q", aCycle},
	"lookupf32":   {"f32", "lookup16mod i f", never},
	"addf32":      {"f32", "add $ g", cycles},
	"dot2sat":     {"i16", "dot2sat x b", never},
	"dot4":        {"i32", "dot4 $ x b", cycles},
	"dot4s":       {"i32", "dot4 $ y b", cycles},
	"mmla":        {"i32", "mmla $ y b", cycles},
	"dot1":        {"i16", "dot1 $ y b 0", cycles},
	"dot1high":    {"i16", "dot1 $ y b 1", cycles},
}

// inputs are the constants that forms name, their elements, and their least size.
var inputs = []struct {
	name, elem string
	bytes      int
}{
	{"x", "u8", 0}, {"y", "i8", 0}, {"m", "u8", 0}, {"s", "u8", 16}, {"t", "u8", 64}, {"b", "i8", 0}, {"w", "u16", 0}, {"q", "i16", 0}, {"i", "u32", 0}, {"f", "f32", 64}, {"g", "f32", 0},
}

// Chains of instructions that wait for each other. With instructions that take one cycle, the number of chains is the
// number that run in a cycle. With longer ones it is the most that there are registers for.
const shortChains = 4

// mixSteps is about how many instructions the loop of a mix has: enough that the
// two that count do not matter.
const mixSteps = 144

// mixText repeats instructions on registers of `bytes` bytes; instructions that take several cycles are
// spread over chains. rounds is how often ops stands in the loop.
//
//	v3:u8x64 = and v0 v1
//	v4:i32x16 = dot4 v4 v0 v2
//	v3:u8x64 = and v0 v1
//	v5:i32x16 = dot4 v5 v0 v2
func mixText(name string, ops []string, bytes, chains int) (text string, rounds int) {
	w := &writer{head: fmt.Sprintf("func %s(x ptr, out ptr, n int)", name)}
	args, next := w.inputs(ops, bytes)
	dst := w.results(ops, bytes, chains, next)
	rounds = (mixSteps + len(ops) - 1) / len(ops)
	for i := range rounds * len(ops) {
		op := ops[i%len(ops)]
		d := dst[op][0]
		dst[op] = append(dst[op][1:], d)
		w.step("%s:%s = %s", d, vector(forms[op].elem, bytes), strings.ReplaceAll(args.Replace(forms[op].rhs), "$", d))
	}
	return w.text(), rounds
}

// inputs defines the constants that ops name, from register 0 to before next, and
// returns what puts registers in place of names.
func (w *writer) inputs(ops []string, bytes int) (names *strings.Replacer, next int) {
	var pairs []string
	for _, in := range inputs {
		reads := func(op string) bool { return slices.Contains(strings.Fields(forms[op].rhs), in.name) }
		if !slices.ContainsFunc(ops, reads) {
			continue
		}
		w.constant(next, vector(in.elem, max(in.bytes, bytes)))
		pairs = append(pairs, " "+in.name, " "+register(next))
		next++
	}
	return strings.NewReplacer(pairs...), next
}

// results defines the registers that each of ops writes in turn.
func (w *writer) results(ops []string, bytes, chains, next int) map[string][]string {
	dst := map[string][]string{}
	for _, op := range ops {
		if dst[op] != nil {
			continue
		}
		for range width(op, chains) {
			w.variable(next, vector(forms[op].elem, bytes))
			dst[op] = append(dst[op], register(next))
			next++
		}
	}
	return dst
}

// width is how many registers the results of op go to in turn.
func width(op string, chains int) int {
	switch {
	case forms[op].waits == cycles:
		return chains
	case forms[op].waits == aCycle:
		return shortChains
	}
	return 1
}

// vector is the type of a vector of `bytes` bytes: "i32x16".
func vector(elem string, bytes int) string {
	size := map[string]int{"8": 1, "6": 2, "2": 4}[elem[len(elem)-1:]]
	return fmt.Sprintf("%sx%d", elem, bytes/size)
}
