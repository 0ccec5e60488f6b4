package cost

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/schedule"
)

// Floor is about what a call of k by its selected code s takes at least, as Run counts: how long its instructions keep ports and the front end
// busy. It takes a small part of the time of Run. Loads may become operands of other instructions, and then take no place in the front end.
func Floor(k *schedule.Kernel, s *lower.Selected) float64 {
	g := floor{s: s, k: k, closed: closedBy(s), busy: map[uint64]float64{}}
	g.body(s.Func.Body, 1)
	least := g.slots / float64(s.Machine.Core.Pipeline.Width)
	sets := slices.Sorted(maps.Keys(g.busy)) // in one order: sums have the same last bits every time
	for i, set := range sets {               // all of the work that has no other ports than these, and unions of such sets
		for _, other := range sets[i:] {
			union, cycles := set|other, 0.0
			for _, ports := range sets {
				if ports&^union == 0 {
					cycles += g.busy[ports]
				}
			}
			least = max(least, cycles/float64(bits.OnesCount64(union)))
		}
	}
	return float64(spared * least)
}

// spared is the part of the work that is left when instructions are computed at once after all.
const spared = 0.95

// Bringing is what a call of k takes at least to bring its weights from a place, on a core with the memory of c.
func Bringing(c core.Core, k *schedule.Kernel, at Place) float64 {
	lines := float64(k.Weights.TileBytes(TypicalK)) * float64(k.Rows) / float64(k.Weights.TileM*line)
	switch at {
	case DRAM:
		return float64(lines * min(c.Hierarchy.Line[at], c.Hierarchy.Several))
	case Shared:
		return float64(lines * c.Hierarchy.Share())
	}
	return float64(lines * c.Hierarchy.Line[at])
}

type floor struct {
	s      *lower.Selected
	k      *schedule.Kernel
	closed uint64             // ports that wide vectors close
	busy   map[uint64]float64 // cycles by ports that can do it
	slots  float64
}

func (g *floor) body(body []vir.Node, times float64) {
	for _, x := range body {
		switch x := x.(type) {
		case *vir.Loop:
			g.body(x.Body, float64(times*Trips(g.k, x)))
		case *vir.Instr:
			if row := g.s.Rows[x]; row != nil {
				g.instr(x, row, times)
			}
		}
	}
}

func (g *floor) instr(x *vir.Instr, row *lower.Row, times float64) {
	switch {
	case passing(x):
		return
	case x.Op.HasMem() && x.Dst != vir.NoReg:
	case x.Op == vir.OpStore:
		g.slots += times
	default:
		g.slots += float64(times * float64(max(1, len(row.Micros))))
	}
	for _, m := range row.Micros {
		ports := m.Ports
		if rest := ports &^ g.closed; rest != 0 && !x.Op.HasMem() {
			ports = rest
		}
		g.busy[ports] += float64(times * float64(m.Cycles))
	}
}

// passing says that an instruction may be outside of loops, or what a load does.
func passing(x *vir.Instr) bool {
	return slices.Contains([]vir.Op{vir.OpConst, vir.OpSplat, vir.OpBitcast, vir.OpHalf, vir.OpTile}, x.Op)
}

// closedBy are the ports that wide vectors close to others: wide ones that are not only loaded.
func closedBy(s *lower.Selected) uint64 {
	closed := s.Machine.Core.Pipeline.ClosedPorts()
	if closed == 0 {
		return 0
	}
	wide := false
	vir.Walk(s.Func.Body, func(in *vir.Instr, _ []*vir.Loop) {
		wide = wide || in.Dst != vir.NoReg && !passing(in) && !in.Op.HasMem() && s.Func.Regs[in.Dst].Bits() > 256
	})
	if !wide {
		return 0
	}
	return closed
}
