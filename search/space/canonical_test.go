package space

import (
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
)

// canonical is a schedule of an operator or a preparation as the rules of its space write it: the same loops by other names, in the order
// of the rules. The error says what has no such form.
func canonical(sp *Space, t schedule.Trace) (schedule.Trace, error) {
	end, err := after(sp.start, t)
	if err != nil {
		return nil, err
	}
	c := &canon{end: end, names: map[string]string{}}
	head, tail := c.split(t)
	out := head
	all := sp.start.Loops()
	for i, l := range all {
		out = append(out, c.axis(l.Root)...)
		if i+1 == len(all) || stageOf(all[i+1]) != stageOf(l) {
			s, err := after(sp.start, out)
			if err != nil {
				return nil, err
			}
			out = append(append(out, c.order(s, stageOf(l))...), c.apart(t, stageOf(l))...)
		}
	}
	return append(out, c.renamed(tail)...), nil
}

// canon writes a trace again.
type canon struct {
	end   schedule.State
	names map[string]string // of loops, from the trace's
}

// split divides the steps that are not about loops: those before and those after.
func (c *canon) split(t schedule.Trace) (head, tail schedule.Trace) {
	for _, x := range t {
		switch x.(type) {
		case schedule.Inline, schedule.Pack:
			head = append(head, x)
		case schedule.Stage:
			tail = append(schedule.Trace{x}, tail...)
		case schedule.Prefetch:
			tail = append(tail, x)
		}
	}
	return head, tail
}

// of lists the loops over an axis with more than one iteration, or else one loop, from short to long steps.
func (c *canon) of(root string) (out []nest.Loop) {
	var first []nest.Loop
	for _, l := range c.end.Loops() {
		switch {
		case l.Root != root:
		case l.N != 1:
			out = append(out, l)
		case first == nil:
			l.Kind = nest.Unrolled
			first = []nest.Loop{l}
		}
	}
	if len(out) == 0 {
		return first
	}
	slices.SortFunc(out, func(a, b nest.Loop) int { return a.Coef - b.Coef })
	return out
}

// axis makes the loops over an axis.
func (c *canon) axis(root string) (out schedule.Trace) {
	open, all := root, c.of(root)
	free := map[nest.Kind][]string{nest.Dot: {"d"}, nest.Vector: {"v"}, nest.Unrolled: {"u", "t"}, nest.Serial: {"t"}}
	for i, l := range all {
		to := map[nest.Kind]string{nest.Vector: "vector", nest.Unrolled: "unrolled", nest.Dot: "dot"}[l.Kind]
		if i == len(all)-1 && !(c.end.(nests).Reduces(root) && (l.Kind == nest.Vector || l.Kind == nest.Dot)) {
			if c.names[l.Name] = open; to != "" {
				out = append(out, runs(open, to))
			}
			return out
		}
		if len(free[l.Kind]) == 0 {
			return append(out, bind(open, l.Kind.String())) // which is refused
		}
		inner := root + free[l.Kind][0]
		free[l.Kind] = free[l.Kind][1:]
		out = append(out, split(open, l.N, root+"o", inner))
		if open, c.names[l.Name] = root+"o", inner; to != "" {
			out = append(out, runs(inner, to))
		}
	}
	if len(all) > 0 {
		out = append(out, bind(open, "unrolled"))
	}
	return out
}

// order puts the loops of a stage in the order of the end.
func (c *canon) order(s schedule.State, stage string) schedule.Trace {
	var have, want []string
	for _, l := range s.Loops() {
		if stageOf(l) == stage {
			have = append(have, l.Name)
		}
	}
	for _, l := range c.end.Loops() {
		if name := c.names[l.Name]; stageOf(l) == stage && name != "" {
			want = append(want, name)
		}
	}
	for _, name := range have { // a loop around lanes goes before all lanes
		if !slices.Contains(want, name) {
			i := slices.IndexFunc(want, func(n string) bool { k := loop(s, n).Kind; return k == nest.Vector || k == nest.Dot })
			want = slices.Insert(want, max(i, 0), name)
		}
	}
	if len(want) == 0 || slices.Equal(have, want) {
		return nil
	}
	return schedule.Trace{schedule.Reorder{Order: want}}
}

// apart are the accumulators of their own in a stage.
func (c *canon) apart(t schedule.Trace, stage string) (out schedule.Trace) {
	for _, x := range t {
		if r, ok := x.(schedule.Rfactor); ok && strings.HasPrefix(c.names[r.Loop], stage+".") {
			out = append(out, schedule.Rfactor{Loop: c.names[r.Loop]})
		}
	}
	return out
}

// renamed is t with the names of loops as they are now.
func (c *canon) renamed(t schedule.Trace) (out schedule.Trace) {
	for _, x := range t {
		switch y := x.(type) {
		case schedule.Stage:
			for _, l := range c.end.Loops() {
				if l.Name == y.At {
					y.At = c.names[c.of(l.Root)[0].Name]
				}
			}
			x = y
		case schedule.Prefetch:
			if y.In != "" {
				y.In = c.names[y.In]
			}
			x = y
		}
		out = append(out, x)
	}
	return out
}
