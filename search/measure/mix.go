package measure

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Mix is the steady loop of a kernel without its loads: what it can reach if
// memory is never late. Ops are instructions of vir by the name of their form;
// they make Vectors vectors of 8-bit codes into sums.
//
// Limits were measured on a core with four vector ports at 512 bits. Where another core has other ports, a limit is
// worth what the mix is worth there.
type Mix struct {
	Name    string
	Ops     []string
	Vectors int
	// PerCycle is how many of these instructions that core ran per cycle. Measured were
	// pairs: and with dot 3.6, dot with permute 2.45 (two pairs leave room for a
	// shift); otherwise it is what its ports allow: two dot products or dot2sat, two
	// permutes, two shifts, four of all else, four in all.
	PerCycle float64
}

// WeightsPerCycle is the speed of a core that runs ipc instructions of the mix per
// cycle, with vectors of `bytes` bytes.
func (m Mix) WeightsPerCycle(ipc float64, bytes int) float64 {
	return ipc * float64(m.Vectors*bytes) / float64(len(m.Ops))
}

// times repeats instructions.
func times(n int, ops ...string) []string {
	var all []string
	for range n {
		all = append(all, ops...)
	}
	return all
}

func seq(parts ...[]string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

var shift = []string{"shru"}

// instead is what targets without an instruction use for it.
var instead = []struct {
	name string
	op   vir.Op
	by   []string
}{
	{"bitsel", vir.OpBitSel, []string{"and", "andnot", "or"}},
	{"lookup64mod", vir.OpLookup64Mod, []string{"and", "lookup16"}},
}

// on is m with the instructions that t has.
func (m Mix) on(t lower.Target) Mix {
	for _, x := range instead {
		if hasRow(t, x.op) {
			continue
		}
		for i := slices.Index(m.Ops, x.name); i >= 0; i = slices.Index(m.Ops, x.name) {
			m.Ops = slices.Concat(m.Ops[:i], x.by, m.Ops[i+1:])
		}
	}
	return m
}

// nibbles looks up both halves of a byte in two tables each and sums bytes as words.
var nibbles = seq([]string{"and", "shru", "and"}, times(2, "lookup16", "add16", "shru", "add16", "lookup16", "add16"))

// needed are instructions that some targets have no row of for these elements, and no mix then.
var needed = map[string]lower.Row{
	"lookup128": {Op: vir.OpLookupPair, Dst: vir.Type{Elem: format.U8}},
	"lookupf32": {Op: vir.OpLookup16Mod, Dst: vir.Type{Elem: format.F32}},
	"dot4":      {Op: vir.OpDot4, Args: []vir.Type{{Elem: format.I32}, {Elem: format.U8}}},
	"dot4s":     {Op: vir.OpDot4, Args: []vir.Type{{Elem: format.I32}, {Elem: format.I8}}},
	"mmla":      {Op: vir.OpMMLA},
	"dot2sat":   {Op: vir.OpDot2Sat},
	"dot1":      {Op: vir.OpDot1},
}

// possible says whether t has the instructions of m.
func (m Mix) possible(t lower.Target) bool {
	for _, op := range m.Ops {
		need, ok := needed[op]
		if ok && !lower.Can(t, func(r lower.Row) bool { return does(r, need) }) {
			return false
		}
	}
	return true
}

// does says that r is a row of the operation and, where it has some, the elements of need.
func does(r, need lower.Row) bool {
	if r.Op != need.Op || need.Dst.Elem != 0 && r.Dst.Elem != need.Dst.Elem {
		return false
	}
	for i, a := range need.Args {
		if r.Args[i].Elem != a.Elem {
			return false
		}
	}
	return true
}

// What a target does at most: products of bytes with 32-bit sums, and those with 16-bit sums.
var (
	peaks32 = []Mix{
		{Name: "dot4", Ops: []string{"dot4"}, Vectors: 1},
		{Name: "dot4s", Ops: []string{"dot4s"}, Vectors: 1},
		{Name: "mmla", Ops: []string{"mmla"}, Vectors: 2},
	}
	peaks16 = []Mix{
		{Name: "dot2sat", Ops: []string{"dot2sat"}, Vectors: 1},
		{Name: "dot1", Ops: []string{"dot1", "dot1high"}, Vectors: 1},
	}
)

// dotMixes are for machines with dot4, satMixes for those without, floatMixes for some of both.
var (
	dotMixes = []Mix{
		{"and+dot", []string{"and", "dot4"}, 1, 3.6},
		{"and+4dot", seq([]string{"and"}, times(4, "dot4")), 4, 2.5},
		{"planes", seq(times(2, "and", "dot4", "and", "dot4", "shru", "bitsel"), times(4, "and", "dot4")), 8, 3.6},
		{"lookup+dot", []string{"lookup64mod", "dot4", "shru", "lookup64mod", "dot4"}, 2, 3.06},
		{"dot", []string{"dot4"}, 1, 2},
		{"lookups", nibbles, 8, 4},
		{"bytes", []string{"bitsel", "lookup64mod", "dot4", "shru", "bitsel", "lookup64mod", "dot4"}, 8, 4},
		{"codewords", seq([]string{"lookup128", "submsb", "and", "dot4"}, times(3, "shru", "and", "dot4"), []string{"lookup128", "dot4"}), 5, 3.75},
	}
	// Of machines that find one of 16 floats in an instruction: 32 weights of a bit, four to
	// an index, whose sums are added as floats.
	floatMixes = []Mix{
		{"f32 lookups", seq([]string{"lookupf32", "addf32"}, times(7, "shru", "lookupf32", "addf32")), 8, 4},
	}
	satMixes = []Mix{
		{"and+dot", seq(shift, times(4, "and", "dot2sat", "add16")), 4, 4},
		{"nibble+dot", seq(shift, times(2, "and", "dot2sat", "add16")), 2, 4},
		{"and+4dot", seq([]string{"and"}, times(4, "dot2sat", "add16")), 4, 4},
		{"lookups", nibbles, 8, 4},
		{"planes", seq(times(2, "and", "andnot", "or", "shru", "shru"), times(8, "and", "dot2sat", "add16")), 8, 4},
	}
)
