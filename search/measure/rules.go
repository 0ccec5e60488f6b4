package measure

import (
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/targets"

	"github.com/tmacc/tmacc/search/timing"
)

// The formats that rules name and that are no built-in format: random levels, to
// see that speed does not depend on a row of the table.
const (
	FormatCodebook6 = "codebook6" // 6 random levels in 3 bits
	FormatW5        = "w5"        // 32 levels in 5 bits
)

// Formats defines those formats.
var Formats = []format.Weight{
	{Name: FormatCodebook6, Bits: 3, Levels: []int{-97, -41, -6, 13, 52, 118}, Per: format.PerRow, Scale: format.F32},
	{Name: FormatW5, Bits: 5, Levels: format.UpFrom(-16, 32), Per: format.PerRow, Scale: format.F32},
}

// Lookup returns the format of a name: one of Formats, or a built-in one.
func Lookup(name string) (format.Weight, error) {
	for _, w := range Formats {
		if w.Name == name {
			return w, nil
		}
	}
	return format.Lookup(name)
}

// ActGroups are the groups of activations of formats that limits were measured with, other than the usual ones:
// int8_per_32.
var ActGroups = map[string]int{"w4-g32": 32}

// ManyColumns is the number of activations of what the field calls GEMM.
const ManyColumns = 256

// Asked lists the places of weights and numbers of activations that the rules judge: the rules for default schedules,
// or for tuned ones.
func Asked(tuned bool) (modes []string, ns []int) {
	modes = []string{ModeDRAM, ModeL2}
	if tuned {
		modes = append(modes, ModeL3)
	}
	return modes, []int{1, 4, ManyColumns}
}

// rule is one kind of comparison and the rows it holds for.
type rule struct {
	name   string
	atMost bool // figures must not be larger than the limit
	share  bool // figures are shares of a ceiling
	tuned  bool // nothing is asked of default schedules
	have   func(rounds) []float64
	limit  func(rounds) float64
	scaled func(c rounds, limit float64) float64 // to this host; nil: as it is
	rows   []ruleRow
}

// ruleRow names a format on a target, how much of the limit is required of it,
// and where the limit stands.
type ruleRow struct {
	target, format string
	usual, tuned   float64 // of default schedules and of tuned ones; tuned 0: of those no more
	limit          string  // row or key in Limits
	mix            string  // instruction mix that bounds it
}

// factor is how much of the limit of a row is required, 0: nothing is.
func (r *rule) factor(row ruleRow, tuned bool) float64 {
	switch {
	case tuned && row.tuned > 0:
		return row.tuned
	case r.tuned:
		return 0
	}
	return row.usual
}

const (
	vbmi = "avx512vbmi"
	vnni = "avxvnni"
	avx2 = "avx2"
)

// near and tunedNear are the shares of a hand-written kernel from a cache that a compiled one must reach,
// and one whose schedule was tuned; so is tunedGEMM of many columns.
const (
	near      = 0.75
	tunedNear = 0.95
	tunedGEMM = 0.97
)

// cached are kernels whose weights lie in a cache, one column; of those that are not exact tuning asks nothing.
var cached = []ruleRow{
	{vbmi, "w1", near, tunedNear, "w1", "bytes"},
	{vbmi, "ternary", near, tunedNear, "ternary-1.6", "codewords"},
	{vbmi, "w2", near, tunedNear, "w2", "and+dot"}, // and ternary-2: the same instructions
	{vbmi, "w3", near, tunedNear, "w3", "planes"},
	{vbmi, "w4", near, tunedNear, "w4", "and+dot"},
	{vbmi, "iq4nl", near, tunedNear, "codebook16", "lookup+dot"},
	{vbmi, "w1-f32act", near, 0, "w1-f32act", "f32 lookups"},
	{vbmi, "w8", near, tunedNear, "w8", "dot"},
	{vbmi, "w2-g128", near, tunedNear, "w2-g128-f16", "and+dot"},
	{vbmi, "w2-g64", near, tunedNear, "w2-g64-f16", "and+dot"},
	{vbmi, "w2-g32", near, tunedNear, "w2-g32-f16", "and+dot"},
	{vbmi, "w4-g128", near, tunedNear, "w4-g128-f16", "and+dot"},
	{vbmi, "w4-g64", near, tunedNear, "w4-g64-f16", "and+dot"},
	{vbmi, "w4-g32", near, tunedNear, "w4-g32-f16", "and+dot"},
	{vnni, "w1", near, tunedNear, "w1", "lookups"},
	{vnni, "ternary", near, tunedNear, "ternary-2", "and+dot"},
	{vnni, "w2", near, tunedNear, "w2", "and+dot"},
	{vnni, "w3", near, tunedNear, "w3", "planes"},
	{vnni, "w4", near, tunedNear, "w4", "and+dot"},
	{avx2, "w1", near, tunedNear, "w1", "lookups"},
	{avx2, "ternary", near, tunedNear, "ternary-2", "and+dot"},
	{avx2, "w2", near, tunedNear, "w2", "and+dot"},
	{avx2, "w3", near, tunedNear, "w3", "planes"},
	{avx2, "w4", near, tunedNear, "w4", "nibble+dot"},
}

// The rules. Shares count from a ceiling measured in the same run, so they hold on
// any host; cycles of the limits' host are scaled by what the row's instruction
// mix is worth here.
var rules = []rule{
	{
		name: "dram share", share: true,
		have:  func(c rounds) []float64 { return c.of(ModeDRAM, 1, Record.share) },
		limit: whole,
		rows: []ruleRow{
			{vbmi, "w1", 0.80, 0.88, "", ""},
			{vbmi, "w2", 0.80, 0.88, "", ""},
			{vbmi, "w3", 0.80, 0.86, "", ""},
			{vbmi, "w4", 0.80, 0.88, "", ""},
			{vbmi, "w8", 0.80, 0.90, "", ""},
			{vbmi, "ternary", 0.80, 0.88, "", ""},
			{vbmi, "w4-g32", 0, 0.85, "", ""},
			{vbmi, FormatCodebook6, 0.70, 0, "", ""},
			{vbmi, FormatW5, 0.70, 0, "", ""},
		},
	},
	{
		name:   "l2 weights/cycle",
		have:   func(c rounds) []float64 { return c.of(ModeL2, 1, Record.perCycle) },
		limit:  func(c rounds) float64 { return c.inLimits().L2 },
		scaled: cachedHere(ModeL2),
		rows:   cached,
	},
	{
		name: "l3 weights/cycle", tuned: true,
		have:   func(c rounds) []float64 { return c.of(ModeL3, 1, Record.perCycle) },
		limit:  func(c rounds) float64 { return c.inLimits().L3 },
		scaled: cachedHere(ModeL3),
		rows:   cached,
	},
	{
		name: "gemm share", share: true,
		have:  func(c rounds) []float64 { return c.of("", ManyColumns, Record.share) },
		limit: whole,
		rows: []ruleRow{
			{vbmi, "w2", 0.80, 0, "", ""},
			{vbmi, "w4", 0.80, 0, "", ""},
			{vbmi, "w4-g32", 0.50, 0.62, "", ""},
			{vbmi, "ternary", 0.75, 0, "", ""},
		},
	},
	{
		// Tables of bits need fewer instructions than products of bytes; preparing them is part of the time.
		name:  "gemm over the int8 peak, prepared",
		have:  func(c rounds) []float64 { return c.of("", ManyColumns, Record.preparedShare) },
		limit: whole,
		rows:  []ruleRow{{vbmi, "w1", 1.3, 1.75, "", ""}},
	},
	{
		// The limits have the preparation of the activations in them.
		name: "gemm weights/cycle, prepared", tuned: true,
		have:   func(c rounds) []float64 { return c.of("", ManyColumns, Record.preparedPerCycle) },
		limit:  func(c rounds) float64 { return c.inLimits().GEMM },
		scaled: scaledByMix, // decoding is shared by all columns
		rows: []ruleRow{
			{vbmi, "ternary", 0, tunedGEMM, "ternary-1.6", "dot"},
			{vbmi, "w2", 0, tunedGEMM, "w2", "dot"},
			{vbmi, "w4", 0, tunedGEMM, "w4", "dot"},
			{vbmi, "w8", 0, tunedGEMM, "w8", "dot"},
			{vnni, "w1", 0, tunedGEMM, "w1", "dot"},
			{vnni, "ternary", 0, tunedGEMM, "ternary-2", "dot"},
			{vnni, "w2", 0, tunedGEMM, "w2", "dot"},
			{vnni, "w4", 0, tunedGEMM, "w4", "dot"},
			{avx2, "w1", 0, tunedGEMM, "w1", "lookups"},
			{avx2, "ternary", 0, tunedGEMM, "ternary-2", "and+4dot"},
			{avx2, "w2", 0, tunedGEMM, "w2", "and+4dot"},
			{avx2, "w4", 0, tunedGEMM, "w4", "and+4dot"},
		},
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
			{vbmi, "w1", 1.2, 0, "", ""}, // by tables, which that mix does not bound
			{vbmi, "w2", 1.2, 0, "", "and+4dot"},
			{vbmi, "w3", 1.2, 0, "", "and+4dot"},
			{vbmi, "w4", 1.2, 0, "", "and+4dot"},
			{vbmi, "w8", 1.2, 0, "", "and+4dot"},
		},
	},
	{
		// Rows of other modes are shorter: what a call costs anyhow is not part of 4096 activations twice.
		name: "prepare cycles of 4096 activations", atMost: true,
		have:  func(c rounds) []float64 { return c.of(ModeDRAM, 1, Record.preparedRow) },
		limit: func(c rounds) float64 { return c.limits.PrepareCycles[c.row.limit] },
		rows: []ruleRow{
			{vbmi, "w4", 2, 1.3, "int8_per_row", ""},
			{vbmi, "w4-g32", 2, 1.3, "int8_per_32", ""},
		},
	},
	{
		// Tables are made of int8 activations.
		name: "prepare cycles of 4096 activations and their tables", atMost: true,
		have: func(c rounds) []float64 { return c.of(ModeDRAM, 1, Record.preparedRow) },
		limit: func(c rounds) float64 {
			return c.limits.PrepareCycles["int8_per_row"] + c.limits.PrepareCycles[c.row.limit]
		},
		rows: []ruleRow{{vbmi, "w1", 2, 1.3, "tables_16_u8_g4", ""}},
	},
	{
		// Where all are, every table has residuals.
		name: "speed with all |activation| = 127 over the usual one, l2",
		have: func(c rounds) []float64 {
			usual := timing.Median(c.of(ModeL2, 1, Record.time))
			return c.where(ModeL2, 1, true, func(r Record) float64 { return over(usual, r.Ns) })
		},
		limit: whole,
		rows:  []ruleRow{{vbmi, "w1", 0.45, 0, "", ""}},
	},
}

// whole is the limit of shares and of ratios.
func whole(rounds) float64 { return 1 }

func (r Record) share() float64    { return r.Share }
func (r Record) time() float64     { return r.Ns }
func (r Record) perCycle() float64 { return r.WeightsPerCycle }

// preparedPerCycle are multiply-accumulates per cycle of preparing activations and multiplying.
func (r Record) preparedPerCycle() float64 {
	return over(float64(r.M)*float64(r.K)*float64(r.N), r.cycles()+r.prepareCycles())
}

// preparedShare is the share of preparing activations and multiplying.
func (r Record) preparedShare() float64 { return over(r.Share*r.Ns, r.Ns+r.PrepareNs) }

// preparedRow is the cycles of preparing a row of 4096 activations.
func (r Record) preparedRow() float64 {
	return over(r.prepareCycles()*4096, float64(r.N)*float64(r.K))
}

// scaledByMix is a limit times what this host's core makes of the row's mix, over
// what the core of the limits made of it: at least what it reached with loads and
// all. 0 if the mix was not measured.
func scaledByMix(c rounds, limit float64) float64 {
	here := c.host.WeightsPerCycle(c.row.target, c.row.mix)
	m, bytes, ok := limitMix(c.row.target, c.row.mix)
	if !ok {
		panic("BUG: measure: no instruction mix " + c.row.mix)
	}
	return limit * here / max(limit, m.WeightsPerCycle(m.PerCycle, bytes))
}

// cachedHere scales limits of weights in a cache: this host's core multiplies no more, and its cache sends no more.
func cachedHere(mode string) func(rounds, float64) float64 {
	return func(c rounds, limit float64) float64 { return min(scaledByMix(c, limit), readFrom(c, mode)) }
}

// readFrom is how many weights and their scales per cycle this host reads from a cache, stored
// as the limits have them. 0 if it was not measured.
func readFrom(c rounds, mode string) float64 {
	read := c.of(mode, 1, func(r Record) float64 {
		scales := over(8*r.GBS, r.GWeightsS) - r.BitsPerWeight
		return over(8*r.CeilingGBS*r.Ns, (c.inLimits().Bits+scales)*r.cycles()) // by the clock of the product
	})
	if len(read) == 0 {
		return 0
	}
	return timing.Median(read)
}

// limitMix is a mix and the vector width in bytes that its PerCycle was
// measured with.
func limitMix(target, name string) (Mix, int, bool) {
	t := targets.ByName(target)
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
