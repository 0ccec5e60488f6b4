package coverage

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/template"
)

var update = flag.Bool("update", false, "rewrite coverage.json")

// manifest holds how many cells there are of each format, family, target and use. A
// cell that disappears is a change to it.
const manifest = "coverage.json"

// coverEvery is how many cells there are for each one that runs. All of them take minutes.
const coverEvery = 8

// sampled are the cells that run.
func sampled(t *testing.T, all []*cell) []*cell {
	if *update {
		return all
	}
	return drawn.Some(drawn.New(t), coverEvery, all)
}

// variants are formats besides the built-in ones: what a name can add to a format.
var variants = []string{"w2-tensor-f16", "w2-g32", "w3-g48-f32-m", "w4-g128-bf16", "w4-g32-z", "w4-g32-i8-s256-m", "ternary-g160-f16",
	"cb2x4-g96-b16-z", "cb4x16-g32", "cb2x16-g64-s256-m"}

// tabled are the variants that are computed by tables too.
var tabled = []string{"w2-g32", "w3-g48-f32-m", "w4-g32-z"}

// six is a codebook of random levels.
var six = format.Weight{Name: "six", Bits: 3, Levels: []int{-90, -31, -8, 5, 27, 101}, Per: format.PerRow, Scale: format.F32}

// coverFormats are the formats of the table.
func coverFormats(t *testing.T) []format.Weight {
	out := []format.Weight{six}
	for _, name := range append(format.Names(), variants...) {
		w, err := format.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, w)
	}
	return out
}

// coverFamilies say which ways to compute apply to a format. Digits is how tables are
// indexed, "" without tables; mirrored ones are stored by half, round says to try tables
// of one byte too; parts are the codes of
// indices, of tables of bytes or of 16 bits.
var coverFamilies = []struct {
	name, digits         string
	mirror, signs, round bool
	parts                func(w format.Weight, bytes bool) [][]int
}{
	{"dot", "", false, false, false, func(_ format.Weight, bytes bool) [][]int { return map[bool][][]int{false: {nil}}[bytes] }},
	{"bits", ir.DigitBits, false, false, false, planeParts},
	{"signs", ir.DigitSigns, false, false, true, planeParts},
	{"signs mirror", ir.DigitSigns, true, false, false, mirrorPlaneParts},
	{"codes", ir.DigitCodes, false, false, true, codeParts},
	{"levels", ir.DigitLevels, false, false, false, levelParts},
	{"levels mirror", ir.DigitLevels, true, false, true, mirrorLevelParts},
	{"levels mirror signs", ir.DigitLevels, true, true, false, signParts},
}

func planeParts(_ format.Weight, bytes bool) [][]int {
	if bytes {
		return [][]int{{4}}
	}
	return [][]int{{4}, {5, 5, 6}}
}

// mirrorPlaneParts are indices of one bit more than indices of 16 and 32 entries.
func mirrorPlaneParts(_ format.Weight, bytes bool) [][]int {
	if bytes {
		return [][]int{{5}}
	}
	return [][]int{{6, 5, 5}}
}

// codeParts are indices of 3 to 64 entries, or if they have bits to spare at least 16.
// Indices of tables of 16 bits fill words of 16 bits.
func codeParts(w format.Weight, bytes bool) (out [][]int) {
	for g := 1; g*w.Bits <= 6; g++ {
		n := 16/w.Bits - 2*g
		switch {
		case w.Bits*g < 4 && (g > 1 || w.Bits < 3):
		case bytes || 16%(w.Bits*g) == 0:
			out = append(out, []int{g})
		case 16%w.Bits == 0 && n > 0:
			out = append(out, []int{g, g, n})
		}
	}
	return out
}

// levelParts are indices of at most 256 entries that take fewer bits than codes.
// Indices of tables of 16 bits fill words of 16 bits, with one exception.
func levelParts(w format.Weight, bytes bool) (out [][]int) {
	for g := 2; g < 8; g++ {
		_, bits, err := format.JoinCodes(w.Codes(), g, 0)
		switch {
		case err != nil || bits > g*w.Bits || bits == g*w.Bits && !hasUnused(w):
		case bytes || bits == 8:
			out = append(out, []int{g})
		case bits == 5:
			out = append(out, []int{g, g, g})
		}
	}
	return out
}

// hasUnused says that some bit patterns of codes stand for no level.
func hasUnused(w format.Weight) bool { return len(w.Levels) < 1<<w.Bits }

// mirrorLevelParts are indices of a byte, or of three trits whose sign is apart.
func mirrorLevelParts(w format.Weight, bytes bool) (out [][]int) {
	for g := 2; g <= 8; g++ {
		_, bits, err := format.JoinCodes(len(w.Levels), g, g)
		switch {
		case err != nil:
		case bits == 8 || bytes && bits == 5 && hasUnused(w):
			out = append(out, []int{g})
		case bits == 5 && hasUnused(w):
			out = append(out, []int{g, g, g})
		}
	}
	return out
}

// signParts are mirrored indices of 4 bits besides their signs.
func signParts(w format.Weight, bytes bool) (out [][]int) {
	for _, parts := range mirrorLevelParts(w, bytes) {
		if _, bits, _ := format.JoinCodes(len(w.Levels), parts[0], parts[0]); bits == 5 && bytes {
			out = append(out, parts)
		}
	}
	return out
}

// uses are columns of products, and the widths of column blocks that kernels for
// them may have, the best one first.
var uses = []struct {
	name string
	n    int
	cols []int
}{
	{"GEMV", 1, []int{1}},
	{"N=3", 3, []int{3, 1}},
	{"N=64", 64, []int{4, 2, 1}},
}

// cell is one entry of the table.
type cell struct {
	p      ir.Problem
	family string
	digits string
	parts  []int
	mirror bool
	signs  bool
	round  bool // by one byte
	halved bool // by averages of them
	low    int  // of QuantizeTable
	exact  bool // with residuals
	pairs  bool // in 16-bit sums of pairs of rows
	target lower.Target
	use    int
	k      *native.Kernel
	err    error
}

func (c *cell) String() string {
	return fmt.Sprintf("%v %s %v, %s, %s", c.p.Weight, c.family, c.parts, c.target.Machine().Name, uses[c.use].name)
}

// cells lists what applies.
func cells(t *testing.T, targets []lower.Target) (out []*cell) {
	for _, w := range coverFormats(t) {
		for _, f := range coverFamilies {
			for _, kind := range []struct {
				name                 string
				low                  int
				exact, round, halved bool
				pairs                bool
			}{{}, {name: " split", low: lowBits(f.mirror)}, {name: " u8", exact: true}, {name: " u8 pairs", exact: true, pairs: true}, {name: " q8", low: 3, round: true}, {name: " q8 halved", low: 3, round: true, halved: true}} {
				if kind.round && !f.round {
					continue
				}
				for _, parts := range f.parts(w, kind.low > 0 || kind.exact) {
					c := cell{p: ir.Problem{Weight: w}, family: f.name + kind.name, digits: f.digits, parts: parts, mirror: f.mirror, signs: f.signs,
						low: kind.low, exact: kind.exact, pairs: kind.pairs, round: kind.round, halved: kind.halved}
					if c.applies() {
						out = append(out, c.everywhere(targets)...)
					}
				}
			}
		}
		out = append(out, floatCells(w, targets)...)
	}
	return out
}

// floatCells are the cells of f32 activations: by codes, as signs, and as numbers to the
// base of the number of levels, in one part and in two.
func floatCells(w format.Weight, targets []lower.Target) (out []*cell) {
	p, err := ir.Floats(w)
	if err != nil {
		return nil
	}
	for _, digits := range []string{ir.DigitSigns, ir.DigitCodes, ir.DigitLevels} {
		for n := 1; n <= 2; n++ {
			c := cell{p: p, family: "f32 " + digits, digits: digits, parts: slices.Repeat([]int{p.Act.Float}, n)}
			_, bits, joined := format.JoinCodes(w.Codes(), p.Act.Float, 0)
			switch {
			case p.GroupK()%(n*p.Act.Float) != 0:
			case digits == ir.DigitSigns && (w.Bits > 1 || w.Levels[0] != -1):
			case digits == ir.DigitLevels && (joined != nil || n > 1 || bits >= p.Act.Float*w.Bits):
			default:
				out = append(out, c.everywhere(targets)...)
			}
		}
	}
	return out
}

// lowBits is how many bits the lower one of two bytes of an entry has at most.
func lowBits(mirror bool) int {
	if mirror {
		return 7
	}
	return 8
}

// everywhere is c on all targets, for all uses.
func (c cell) everywhere(targets []lower.Target) (out []*cell) {
	for _, target := range targets {
		for use := range uses {
			x := c
			x.target, x.use = target, use
			out = append(out, &x)
		}
	}
	return out
}

// applies says that a product by tables is one: of at most 16 levels, whose entries
// are at most 16 bits, with indices that fill groups. Of formats that are not by rows
// only a few of the variants have them here.
func (c cell) applies() bool {
	w := c.p.Weight
	if c.digits == "" {
		return true
	}
	d, err := ir.Decompose(w, c.digits, c.parts...)
	if err != nil || w.Codes() > 16 || w.Per == format.PerGroup && w.Group%d.Digits() != 0 {
		return false
	}
	tables := ir.Tables{Decomposition: d, Elem: format.I16, Low: c.low, Mirror: c.mirror, Residual: c.exact}
	if c.round {
		tables.Elem = format.I8
	}
	if c.exact && c.p.GroupK() > 0 {
		return false
	}
	return tables.Check() == nil && (w.Per == format.PerRow || slices.Contains(tabled, w.String()))
}

// choices are schedules for a cell, the best one first: those that need fewer
// registers follow.
func (c *cell) choices() (out []template.Choice) {
	for _, cols := range uses[c.use].cols {
		for lanes := c.target.Machine().VecBits / 32; lanes >= 4; lanes /= 2 {
			x := template.Choice{Lanes: lanes, Rows: 1, Block: 1, RowFields: 1, Cells: 1, Flush: 1, Map: "dense",
				Value: "affine", Hoist: "flush", Dot: 4, Cols: cols, Scale: "end"}
			if g := c.p.GroupK(); g > 0 && c.p.Unit()/g > 4 {
				x.AtGroup = true
			}
			if c.digits == "" {
				out = append(out, c.dots(x)...)
				continue
			}
			if c.p.Act.Floats() {
				out = append(out, c.floats(cols, lanes))
				continue
			}
			x.Table = &template.Tables{Digits: c.digits, Parts: c.parts, Mirror: c.mirror, Signs: c.signs, Low: c.low, Exact: c.exact, Round: c.round, Along: 1}
			if c.pairs {
				x.Table.Bytes, x.Table.Pairs, x.Lanes = true, true, 4*lanes
				out = append(out, x)
				continue
			}
			for _, x := range c.averages(x) {
				wide := x
				table := *x.Table
				table.Narrow, wide.Table, wide.Lanes = true, &table, 2*lanes
				out = append(out, wide, x)
			}
		}
	}
	return out
}

// averages is x or, if c averages lookups, x with the lookups of one cell averaged, or of two cells.
func (c *cell) averages(x template.Choice) []template.Choice {
	if !c.halved {
		return []template.Choice{x}
	}
	of := func(loop string) template.Choice {
		table, x := *x.Table, x
		table.Halve, x.Table = loop, &table
		return x
	}
	cells := of("u")
	cells.Flush, cells.Cells = 2, 2
	return []template.Choice{of("f"), cells}
}

// floats is the usual schedule of f32 activations, of one row vector.
func (c *cell) floats(cols, lanes int) template.Choice {
	x := template.Floats(c.p, lanes)
	x.Cols = cols
	x.Table.Digits, x.Table.Parts = c.digits, c.parts
	return x
}

// dots are the ways of the family of dot products.
func (c *cell) dots(x template.Choice) []template.Choice {
	x.Align(c.p)
	if _, _, affine := c.p.Weight.Affine(); !affine {
		x.Value = "lookup"
	}
	none := x
	none.Hoist = "none"
	return []template.Choice{x, none}
}

// compile takes the first choice that has a kernel whose values are computed once.
func (c *cell) compile() {
	for _, x := range c.choices() {
		k, err := c.kernel(x)
		if err == nil {
			c.k, c.err = k, nil
			return
		}
		if c.err == nil {
			c.err = err
		}
	}
}

func (c *cell) kernel(x template.Choice) (*native.Kernel, error) {
	k, err := schedule.Compile(c.p, x.Trace(c.p))
	if err != nil {
		return nil, err
	}
	m, err := lower.BuildOnce(context.Background(), c.target, k.Nest)
	if err != nil {
		return nil, err
	}
	return &native.Kernel{Kernel: k, Machine: m}, nil
}

// cellCounts are the numbers of cells that hold, by axis.
type cellCounts map[string]map[string]int

func countCells(all []*cell) cellCounts {
	out := cellCounts{"format": {}, "family": {}, "target": {}, "use": {}}
	for _, c := range all {
		if c.err == nil {
			out["format"][c.p.Name()]++
			out["family"][c.family]++
			out["target"][c.target.Machine().Name]++
			out["use"][uses[c.use].name]++
		}
	}
	return out
}

func (n cellCounts) table() string {
	var b strings.Builder
	for _, axis := range []string{"format", "family", "target", "use"} {
		for _, what := range slices.Sorted(maps.Keys(n[axis])) {
			fmt.Fprintf(&b, "%-8s %-24s %d\n", axis, what, n[axis][what])
		}
	}
	return b.String()
}

// compare compares n with the manifest.
func (n cellCounts) compare(t *testing.T) {
	text, err := json.MarshalIndent(n, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(manifest, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Errorf("the numbers of cells differ from %s (-update rewrites it): have\n%s", manifest, text)
	}
}
