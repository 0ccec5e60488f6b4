package schedule

import (
	"slices"

	"github.com/tmacc/tmacc/ir/nest"
)

// SplitK lets Groups workgroups share the sums over K of the same rows and columns: each sums a part, every Groups-th iteration of the run-time
// loop. The workgroup that comes last goes on with the sums. Where all of K is one integer, the parts are added in memory in any order. Where
// groups have scales, each iteration's floats are kept in memory, and the last workgroup adds them in the order of groups.
//
//	group mt M/16                        group mt M/16
//	    lane r 16                            lane r 16
//	        for ks                 ->            part 4
//	            sum[] += w * act[k]                  for ks, every fourth
//	        out[r] = sum[] * scale                       sum[] += w * act[k]
//	                                             out[r] = sum[] * scale
type SplitK struct {
	Groups int `json:"groups"`
}

// mostParts bounds the workgroups that share a sum.
const mostParts = 256

// partsLoop counts the parts of a sum.
const partsLoop = "parts"

// Apply implements Step.
func (x SplitK) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, "k"); err != nil {
		return nil, err
	}
	switch {
	case s.parts > 0:
		return nil, illegal(x, "k", "is split already")
	case x.Groups < 2 || x.Groups > mostParts:
		return nil, illegal(x, "k", "%d workgroups: want 2 to %d", x.Groups, mostParts)
	case s.Problem.Act.Floats() || s.tables != nil:
		return nil, illegal(x, "k", "the sums are floats or of tables: workgroups add up integers, of groups or of all of K")
	}
	c := s.clone()
	c.parts = x.Groups
	return c, nil
}

// splitK is s with a loop over the parts of its sums, if it has parts.
func (s *Product) splitK() (*Product, error) {
	if s.parts == 0 {
		return s, nil
	}
	c := s.clone()
	st := c.main()
	along := slices.IndexFunc(st.loops, func(l nest.Loop) bool { return l.N == 0 && st.reduce[l.Root] })
	grouped := func(root string) bool {
		return slices.ContainsFunc(st.loops, func(l nest.Loop) bool { return l.Root == root && l.Kind == nest.Group })
	}
	switch {
	case !grouped("m") || !grouped("n"):
		return nil, &Unfinished{"split_k", "is for targets with workgroups: bind tiles of rows, and columns, to group"}
	case st.holders > 0 || s.decoded != "" && s.ahead:
		return nil, &Unfinished{"split_k", "is for lanes that have sums of their own, not for tiles"}
	}
	if err := st.oneFloat(along); err != nil {
		return nil, err
	}
	st.loops[along].DealtTo = partsLoop
	first := slices.IndexFunc(st.loops, func(l nest.Loop) bool { return st.reduce[l.Root] })
	st.loops = slices.Insert(st.loops, first, nest.Loop{Name: partsLoop, Root: st.loops[along].Root, N: s.parts, Kind: nest.Part})
	return c, nil
}

// oneFloat: an iteration of loop number along, which is over groups if there are any, has one group in each lane. So it makes one float, which
// has a place in the order of groups.
func (st *stage) oneFloat(along int) error {
	if st.loops[along].Root != "g" {
		return nil
	}
	for i, l := range st.loops {
		if l.Root == "g" && i != along && l.N != 1 && l.Kind != nest.Lane && !st.inBlock(l) {
			return &Unfinished{"loop " + l.Name, "the floats of groups that workgroups share are added in order, one of each iteration and lane: bind it to lanes"}
		}
	}
	return nil
}

// Propose implements Proposer: a few workgroups.
func (x SplitK) Propose(s State, m Machine) (out []Step) {
	if m.Group == 0 {
		return nil
	}
	for _, x.Groups = range []int{2, 4, 8, 3, 6, 16} {
		if _, err := s.After(x); err == nil {
			out = append(out, x)
		}
	}
	return out
}
