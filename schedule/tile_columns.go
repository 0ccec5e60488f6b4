package schedule

import (
	"slices"

	"github.com/tmacc/tmacc/ir/nest"
)

// TileColumns tiles the columns in two levels: the columns of a call become the first of By blocks, which it makes one after the other.
// Loop counts the blocks inside each group, whose weights are decoded once for all of them. So registers have the decoded weights and
// the sums of one block, and the sums over groups are in memory.
//
//	                                       acc[0..By] = 0
//	for g                                  for g
//	    sum = 0                                w1 = decode(codes[g])
//	    for k                     ->           for c By
//	        sum += decode(codes[g,k])*a            sum = 0
//	    acc += sum*scale[g]                        for k
//	                                                   sum += w1[k]*a[c]
//	                                               acc[c] += sum*scale[g]
type TileColumns struct {
	By   int    `json:"by"`
	Loop string `json:"loop"`
}

// mostTiled bounds the columns of a call that tiles them: the sums should stay in the nearest cache, and activations are prepared for
// whole calls.
const mostTiled = 64

// Apply implements Step.
func (x TileColumns) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, x.Loop); err != nil {
		return nil, err
	}
	c := s.clone()
	st := c.main()
	outer, inner := st.columnTiles()
	other, _ := s.find(x.Loop)
	switch {
	case x.By < 2:
		return nil, illegal(x, x.Loop, "%d blocks: want several", x.By)
	case !loopName.MatchString(x.Loop) || other != nil || reserved[x.Loop]:
		return nil, illegal(x, x.Loop, "want the name of no loop or axis, up to 16 small letters, digits, '_' and '.', a letter first")
	case s.Problem.GroupK() == 0 || s.Problem.Block() > 1:
		return nil, illegal(x, x.Loop, "all of K, or several groups, are one integer: too many weights to keep them decoded")
	case outer < 0 || inner < outer:
		return nil, illegal(x, x.Loop, "wants a loop over columns that is bound outer, around the groups")
	case st.accumulators[0].InMemory:
		return nil, illegal(x, x.Loop, "columns are tiled already")
	case x.By > mostTiled/st.loops[outer].Coef:
		return nil, illegal(x, x.Loop, "a call would make %d columns, at most %d", st.loops[outer].Coef*x.By, mostTiled)
	}
	block := st.loops[outer]
	block.Name, block.N, block.Kind = x.Loop, x.By, nest.Serial
	st.loops[outer].Coef *= x.By
	st.loops = slices.Insert(st.loops, inner, block)
	st.accumulators[0].InMemory = true
	decoded := "w"
	if s.tables != nil {
		decoded = "x"
	}
	st.staged = slices.DeleteFunc(st.staged, func(sg nest.Staged) bool { return sg.Temp.Name == decoded })
	for i, sg := range st.staged {
		if sg.Temp.Name == "scale" && s.Problem.Act.Group > 0 { // columns have their own
			st.staged[i].At = x.Loop
		}
	}
	return stageAt(x, c, decoded, st.loops[inner-1].Name)
}

// columnTiles are where the run-time loop over calls for columns is, and the outermost loop over the elements of a group, -1: nowhere.
func (st *stage) columnTiles() (outer, inner int) {
	outer = slices.IndexFunc(st.loops, func(l nest.Loop) bool { return l.Root == "n" && l.N == 0 && l.Kind == nest.Outer })
	return outer, slices.IndexFunc(st.loops, func(l nest.Loop) bool { return l.Name == st.outermost("k") })
}

// Propose implements Proposer: a few blocks, where a group has a scale of floats.
func (x TileColumns) Propose(s State, _ Machine) (out []Step) {
	for _, x.By = range []int{4, 2, 8} {
		x.Loop = "nb"
		if _, err := s.After(x); err == nil {
			out = append(out, x)
		}
	}
	return out
}
