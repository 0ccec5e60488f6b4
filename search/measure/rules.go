package measure

import (
	"github.com/tmacc/tmacc/lower/amd64"

	"github.com/tmacc/tmacc/search/timing"
)

// The formats that rules name and that are no built-in format: random levels, to
// see that speed does not depend on a row of the table.
const (
	FormatCodebook6 = "codebook6" // 6 random levels in 3 bits
	FormatW5        = "w5"        // 32 levels in 5 bits
)

// rule is one kind of comparison and the rows it holds for.
type rule struct {
	name   string
	atMost bool // figures must not be larger than the limit
	share  bool // figures are shares of a ceiling
	have   func(rounds) []float64
	limit  func(rounds, Limits) float64
	scaled func(c rounds, limit float64) float64 // to this host; nil: as it is
	rows   []ruleRow
}

// ruleRow names a format on a target, how much of the limit is required of it,
// and where the limit stands.
type ruleRow struct {
	target, format string
	factor         float64
	limit          string // row or key in Limits
	mix            string // instruction mix that bounds it
}

const (
	vbmi = "avx512vbmi"
	vnni = "avxvnni"
	avx2 = "avx2"
)

// nearLimit is the share of a hand-written kernel that a compiled one must reach.
const nearLimit = 0.75

// The rules. Shares count from a ceiling measured in the same run, so they hold on
// any host; cycles of the limits' host are scaled by what the row's instruction
// mix is worth here.
var rules = []rule{
	{
		name: "dram share", share: true,
		have:  func(c rounds) []float64 { return c.of(ModeDRAM, 1, Record.share) },
		limit: whole,
		rows: []ruleRow{
			{vbmi, "w1", 0.80, "", ""},
			{vbmi, "w2", 0.80, "", ""},
			{vbmi, "w3", 0.80, "", ""},
			{vbmi, "w4", 0.80, "", ""},
			{vbmi, "w8", 0.80, "", ""},
			{vbmi, "ternary", 0.80, "", ""},
			{vbmi, FormatCodebook6, 0.70, "", ""},
			{vbmi, FormatW5, 0.70, "", ""},
		},
	},
	{
		name:   "l2 weights/cycle",
		have:   func(c rounds) []float64 { return c.of(ModeL2, 1, Record.perCycle) },
		limit:  func(c rounds, l Limits) float64 { return l.row(c.row.target, c.row.limit).L2 },
		scaled: scaledByMix,
		rows: []ruleRow{
			{vbmi, "w1", nearLimit, "w1", "bytes"},
			{vbmi, "ternary", nearLimit, "ternary-1.6", "codewords"},
			{vbmi, "w2", nearLimit, "w2", "and+dot"}, // and ternary-2: the same instructions
			{vbmi, "w3", nearLimit, "w3", "planes"},
			{vbmi, "w4", nearLimit, "w4", "and+dot"},
			{vbmi, "iq4nl", nearLimit, "codebook16", "lookup+dot"},
			{vbmi, "w1-f32act", nearLimit, "w1-f32act", "f32 lookups"},
			{vbmi, "w8", nearLimit, "w8", "dot"},
			{vbmi, "w2-g128", nearLimit, "w2-g128-f16", "and+dot"},
			{vbmi, "w2-g64", nearLimit, "w2-g64-f16", "and+dot"},
			{vbmi, "w2-g32", nearLimit, "w2-g32-f16", "and+dot"},
			{vbmi, "w4-g128", nearLimit, "w4-g128-f16", "and+dot"},
			{vbmi, "w4-g64", nearLimit, "w4-g64-f16", "and+dot"},
			{vbmi, "w4-g32", nearLimit, "w4-g32-f16", "and+dot"},
			{vnni, "w1", nearLimit, "w1", "lookups"},
			{vnni, "ternary", nearLimit, "ternary-2", "and+dot"},
			{vnni, "w2", nearLimit, "w2", "and+dot"},
			{vnni, "w3", nearLimit, "w3", "planes"},
			{vnni, "w4", nearLimit, "w4", "and+dot"},
			{avx2, "w1", nearLimit, "w1", "lookups"},
			{avx2, "ternary", nearLimit, "ternary-2", "and+dot"},
			{avx2, "w2", nearLimit, "w2", "and+dot"},
			{avx2, "w3", nearLimit, "w3", "planes"},
			{avx2, "w4", nearLimit, "w4", "nibble+dot"},
		},
	},
	{
		name: "gemm share", share: true,
		have:  func(c rounds) []float64 { return c.of("", 256, Record.share) },
		limit: whole,
		rows: []ruleRow{
			{vbmi, "w2", 0.80, "", ""},
			{vbmi, "w4", 0.80, "", ""},
			{vbmi, "w4-g32", 0.50, "", ""},
			{vbmi, "ternary", 0.75, "", ""},
		},
	},
	{
		// Tables of bits need fewer instructions than products of bytes.
		name:  "gemm over the int8 peak",
		have:  func(c rounds) []float64 { return c.of("", 256, Record.share) },
		limit: whole,
		rows:  []ruleRow{{vbmi, "w1", 1.3, "", ""}},
	},
	{
		// Four columns cost no more than one as long as the products keep up with
		// DRAM; narrow weights come faster than any core multiplies them.
		name: "time of N=4 over N=1, dram", atMost: true,
		have: func(c rounds) []float64 {
			one := timing.Median(c.of(ModeDRAM, 1, Record.time))
			return c.of(ModeDRAM, 4, func(r Record) float64 { return over(r.Ns, one) })
		},
		limit:  whole,
		scaled: fourColumns,
		rows: []ruleRow{
			{vbmi, "w1", 1.2, "", ""}, // by tables, which that mix does not bound
			{vbmi, "w2", 1.2, "", "and+4dot"},
			{vbmi, "w3", 1.2, "", "and+4dot"},
			{vbmi, "w4", 1.2, "", "and+4dot"},
			{vbmi, "w8", 1.2, "", "and+4dot"},
		},
	},
	{
		name: "prepare cycles of 4096 activations", atMost: true,
		have:  func(c rounds) []float64 { return c.of("", 1, Record.prepareCycles) },
		limit: func(c rounds, l Limits) float64 { return l.PrepareCycles[c.row.limit] },
		rows: []ruleRow{
			{vbmi, "w4", 2, "int8_per_row", ""},
			{vbmi, "w4-g32", 2, "int8_per_32", ""},
		},
	},
	{
		// Tables are made of int8 activations.
		name: "prepare cycles of 4096 activations and their tables", atMost: true,
		have: func(c rounds) []float64 { return c.of("", 1, Record.prepareCycles) },
		limit: func(c rounds, l Limits) float64 {
			return l.PrepareCycles["int8_per_row"] + l.PrepareCycles[c.row.limit]
		},
		rows: []ruleRow{{vbmi, "w1", 2, "tables_16_u8_g4", ""}},
	},
	{
		// Where all are, every table has residuals.
		name: "speed with all |activation| = 127 over the usual one, l2",
		have: func(c rounds) []float64 {
			usual := timing.Median(c.of(ModeL2, 1, Record.time))
			return c.where(ModeL2, 1, true, func(r Record) float64 { return over(usual, r.Ns) })
		},
		limit: whole,
		rows:  []ruleRow{{vbmi, "w1", 0.45, "", ""}},
	},
}

// whole is the limit of shares and of ratios.
func whole(rounds, Limits) float64 { return 1 }

func (r Record) share() float64    { return r.Share }
func (r Record) time() float64     { return r.Ns }
func (r Record) perCycle() float64 { return r.WeightsPerCycle }

func (r Record) prepareCycles() float64 {
	return over(r.PrepareNs*r.ClockGHz*4096, float64(r.N)*float64(r.K))
}

// scaledByMix is a limit times what this host's core makes of the row's mix, over
// what the core of the limits made of it: at least what it reached with loads and
// all. 0 if the mix was not measured.
func scaledByMix(c rounds, limit float64) float64 {
	here := c.host.WeightsPerCycle(c.row.target, c.row.mix)
	m, bytes, ok := zen5Mix(c.row.target, c.row.mix)
	if !ok {
		panic("BUG: measure: no instruction mix " + c.row.mix)
	}
	return limit * here / max(limit, m.WeightsPerCycle(m.Zen5, bytes))
}

// zen5Mix is a mix and the vector width in bytes that its Zen5 figure was
// measured with.
func zen5Mix(target, name string) (Mix, int, bool) {
	t := amd64.ByName(target)
	for _, m := range mixes(t) {
		if m.Name == name {
			return m, t.Machine().VecBits / 8, true
		}
	}
	return Mix{}, 0, false
}

// fourColumns is how much longer than one column four take at the speed of the
// row's mix, if the weights were there at once.
func fourColumns(c rounds, _ float64) float64 {
	one := timing.Median(c.of(ModeDRAM, 1, Record.time))
	macs := c.of(ModeDRAM, 4, func(r Record) float64 { return float64(r.M) * float64(r.K) * 4 })
	rate := c.host.Mix[c.row.target][c.row.mix].Rate
	return over(timing.Median(macs), rate*one)
}
