package schedule

import (
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// QuantizeTable says in what type tables of activations are stored: "i16", as they
// are without it, or "split", the lowest Low bits (as many as fit if it is 0: 8, or 7 of
// mirrored tables) and what is above them as two tables of bytes, looked up one after
// the other. Those of f32 activations are "f32".
//
//	for part                                   for part
//	    sum1 += table[n, k, part][x]    ->         for half 2
//	                                                   sum1[half] += table[n, k, part, half][x]
//	                                           sum += sum1[half] << low*half
type QuantizeTable struct {
	Kind string `json:"kind"`
	Low  int    `json:"low,omitempty"`
}

// Apply implements Step.
func (x QuantizeTable) Apply(s *State) (*State, error) {
	if x.Kind != "split" && x.Kind != "i16" && x.Kind != "f32" {
		return nil, illegal(x, x.Kind, "want i16, split or f32")
	}
	if err := s.decomposed(x, x.Kind); err != nil {
		return nil, err
	}
	switch {
	case s.tables == nil:
		return nil, illegal(x, x.Kind, "the product has no tables")
	case s.tables.Split():
		return nil, illegal(x, x.Kind, "is split already")
	case s.grown():
		return nil, illegal(x, x.Kind, "must come before steps that add accumulators or stage values")
	}
	switch floats := s.tables.Elem == format.F32; {
	case floats && x.Kind != "f32":
		return nil, illegal(x, x.Kind, "the activations are f32: want f32")
	case !floats && x.Kind == "f32":
		return nil, illegal(x, x.Kind, "the activations are int8: want i16 or split")
	case x.Kind != "split" && x.Low != 0:
		return nil, illegal(x, x.Kind, "is not split into halves")
	case x.Kind != "split":
		return s, nil
	case x.Low < 0 || x.Low > 8:
		return nil, illegal(x, x.Kind, "a lower half of %d bits: want 1 to 8", x.Low)
	}
	for q := range s.tables.Parts {
		if n := s.tables.Stored(q); n > 256 {
			return nil, illegal(x, x.Kind, "part %d has %d entries: an index must be a byte", q, n)
		}
	}
	c := s.clone()
	split := *c.tables
	if split.Low = x.Low; x.Low == 0 {
		split.Low = 8
		if split.Mirror {
			split.Low = 7
		}
	}
	if err := split.Check(); err != nil {
		return nil, illegal(x, x.Kind, "%v", err)
	}
	c.tables = &split
	st := c.main()
	for i, l := range st.loops {
		if l.Name == halfLoop {
			st.loops[i].N = 2
		}
	}
	st.levels = st.levels[:2]
	c.indices()
	c.entries(st.lowest().Temp.Elem)
	c.recombine()
	return c, nil
}

// grown says that there are accumulators or staged values besides those that
// decompose made.
func (s *State) grown() bool {
	made := 2
	if s.recombined() {
		made = 3
	}
	st := s.main()
	_, half := s.find(halfLoop)
	return len(st.levels) != made || len(st.staged) > 0 || st.levels[made-1].At != "" || st.loops[half].Kind != nest.Serial
}
