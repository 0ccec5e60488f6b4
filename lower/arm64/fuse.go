package arm64

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Some instructions do several operations of vir at once: they take the upper half
// of a register, narrow two registers into one. Rows cannot say so, but the operations
// stand side by side after legalization, so the printer joins them if nothing else
// reads the value between them.

// fusions are tried at every operation. One prints what one instruction does and
// returns how many operations that is, or 0.
//
//	v3:f16x4 = half v2 1                   fcvtl2 v4.4s, v2.8h
//	v4:f32x4 = cvthalf v3             ->
//
//	v3:i16x4 = trunc v1                    uzp1 v5.8h, v1.8h, v2.8h
//	v4:i16x4 = trunc v2               ->
//	v5:i16x8 = join v3 v4
//
//	v2:i8x8 = half v0 1                    zip2 v4.2d, v0.2d, v1.2d
//	v3:i8x8 = half v1 1               ->
//	v4:i8x16 = join v2 v3
//
//	v2:i32x4 = bitcast v0 (0)              saddlp v2.4s, v1.8h
//	v3:i32x4 = sum2 v2 v1             ->
//
//	v2:i16x8 = bitcast v0 (0)              smull v2.8h, v1.8b, v4.8b
//	v3:i16x8 = dot1 v2 v1 v4 0        ->
var fusions = []func(p *printer, ops []lower.MOp) int{(*printer).fusedHalf, (*printer).fusedTrunc, (*printer).fusedSum, (*printer).fusedJoin}

func (p *printer) fused(ops []lower.MOp) int {
	for _, f := range fusions {
		if n := f(p, ops); n > 0 {
			return n
		}
	}
	return 0
}

// feeds says whether op is the only reader of a's result.
func (p *printer) feeds(a, op *lower.MOp, arg int) bool {
	return op.In.Args[arg] == a.In.Dst && p.uses[a.In.Dst] == 1
}

func are(ops []lower.MOp, kinds ...vir.Op) bool {
	if len(ops) < len(kinds) {
		return false
	}
	for i, k := range kinds {
		if ops[i].Kind != lower.MInstr || ops[i].In.Op != k {
			return false
		}
	}
	return true
}

// upper are the instructions that widen the upper half of a register, by the row
// that widens the lower: bit 30 is set, the text says 2 and counts twice the lanes.
var upper = map[string]string{
	"sshll v%d.8h, v%d.8b, #0": "sshll2 v%d.8h, v%d.16b, #0",
	"ushll v%d.8h, v%d.8b, #0": "ushll2 v%d.8h, v%d.16b, #0",
	"sshll v%d.4s, v%d.4h, #0": "sshll2 v%d.4s, v%d.8h, #0",
	"ushll v%d.4s, v%d.4h, #0": "ushll2 v%d.4s, v%d.8h, #0",
	"fcvtl v%d.4s, v%d.4h":     "fcvtl2 v%d.4s, v%d.8h",
}

func (p *printer) fusedHalf(ops []lower.MOp) int {
	if !are(ops, vir.OpHalf, vir.OpWiden) && !are(ops, vir.OpHalf, vir.OpCvtHalf) || !p.feeds(&ops[0], &ops[1], 0) {
		return 0
	}
	half, op := &ops[0], ops[1]
	c := op.Row.Code.(plain)
	if half.In.Imm == 1 {
		if size(half.Row.Args[0]) != 16 {
			return 0
		}
		text, ok := upper[c.text]
		if !ok {
			panic("BUG: arm64: nothing reads the upper half as " + c.text)
		}
		c.word |= 1 << 30
		c.text = text
	}
	op.Args = half.Args
	p.comment(half)
	p.plain(&op, c)
	return 2
}

func (p *printer) fusedTrunc(ops []lower.MOp) int {
	if !are(ops, vir.OpTrunc, vir.OpTrunc, vir.OpJoin) || !p.feeds(&ops[0], &ops[2], 0) || !p.feeds(&ops[1], &ops[2], 1) {
		return 0
	}
	op := ops[2]
	if size(op.Row.Dst) != 16 {
		return 0
	}
	c := plain{word: 0x4e001800, text: "uzp1 v%d.16b, v%d.16b, v%d.16b", n: 1, m: 2}
	if op.Row.Dst.Elem.Bits() == 16 {
		c.word, c.text = 0x4e401800, "uzp1 v%d.8h, v%d.8h, v%d.8h"
	}
	op.Args = []int{ops[0].Args[0], ops[1].Args[0]}
	p.comment(&ops[0])
	p.comment(&ops[1])
	p.plain(&op, c)
	return 3
}

// fusedSum: a copy of 0 that a product or pairs are added to.
func (p *printer) fusedSum(ops []lower.MOp) int {
	if !are(ops, vir.OpBitcast, vir.OpSum2) && !are(ops, vir.OpBitcast, vir.OpDot1) || !p.feeds(&ops[0], &ops[1], 0) || !p.zero[ops[0].In.Args[0]] {
		return 0
	}
	p.comment(&ops[0])
	op := ops[1]
	switch c := op.Row.Code.(type) {
	case plain:
		c.word &^= 0x4000
		c.text = strings.Replace(c.text, "sadalp", "saddlp", 1)
		p.plain(&op, c)
	case ofHalf:
		c.word |= 0x4000
		c.asm = "smull"
		p.ofHalf(&op, c)
	default:
		panic(fmt.Sprintf("BUG: arm64: %v adds to 0 by a %T", op.In.Op, c))
	}
	return 2
}

// fusedJoin: the same halves of two registers.
func (p *printer) fusedJoin(ops []lower.MOp) int {
	if !are(ops, vir.OpHalf, vir.OpHalf, vir.OpJoin) || !p.feeds(&ops[0], &ops[2], 0) || !p.feeds(&ops[1], &ops[2], 1) ||
		ops[0].In.Imm != ops[1].In.Imm || size(ops[2].Row.Dst) != 16 || size(ops[1].Row.Dst) != 8 {
		return 0
	}
	op := ops[2]
	c := plain{word: 0x4ec03800, text: "zip1 v%d.2d, v%d.2d, v%d.2d", n: 1, m: 2}
	if ops[0].In.Imm == 1 {
		c.word, c.text = 0x4ec07800, "zip2 v%d.2d, v%d.2d, v%d.2d"
	}
	op.Args = []int{ops[0].Args[0], ops[1].Args[0]}
	p.comment(&ops[0])
	p.comment(&ops[1])
	p.plain(&op, c)
	return 3
}
