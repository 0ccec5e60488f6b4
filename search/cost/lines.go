package cost

import (
	"fmt"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Lines is how many lines of some parameters' buffers a call of selected code brings to the first-level cache, if none is there any more
// when a loop comes back to it. Accesses of one iteration to one line bring it once.
func Lines(s *lower.Selected, trips func(count vir.Extent, listed bool) float64, of func(param string) bool) (lines float64) {
	seen := map[string]bool{}
	vir.Walk(s.Func.Body, func(in *vir.Instr, around []*vir.Loop) {
		reads := in.Fold > 0 || in.Op != vir.OpStore && in.Op != vir.OpPrefetch && in.Op != vir.OpPrefetch2
		if s.Rows[in] == nil || !in.HasMem() || !reads || !of(s.Func.Params[in.Mem.Buf].Name) {
			return
		}
		where := in.Mem
		where.Off /= line
		times := 1.0
		for _, l := range around {
			times *= trips(l.Count, l.List > 0)
		}
		key := fmt.Sprintf("%d %s", innermost(around), where.AppendKey(nil))
		if !seen[key] {
			lines += times
		}
		seen[key] = true
	})
	return lines
}

// innermost is the ID of the innermost loop, -1 of none.
func innermost(around []*vir.Loop) int {
	if len(around) == 0 {
		return idOf(nil)
	}
	return idOf(around[len(around)-1])
}
