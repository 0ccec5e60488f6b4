package lower

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// digit is a part of a loop whose values lanes share out: one of n values, which are coef iterations apart.
type digit struct {
	loop    nest.Loop
	coef, n int
	stride  int // bytes of codes from one value to the next, 0 of a field of a cell, and of tiles side by side
}

// digits are parts of loops by how their codes lie: the ones of fields of cells, and the others by their strides.
func (v *vectorizer) digits(loops []nest.Loop, codes nest.Buffer, index []ir.Expr) (fields, bytes []digit, err error) {
	for _, l := range loops {
		v.set(l.Name, 0)
	}
	for _, l := range loops {
		all, err := v.digitsOf(l, codes, index)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range all {
			if d.stride == 0 {
				fields = append(fields, d)
			} else {
				bytes = append(bytes, d)
			}
		}
	}
	slices.SortStableFunc(bytes, func(a, b digit) int { return a.stride - b.stride })
	return fields, bytes, nil
}

// digitsOf are the parts of a loop in which the place of codes moves by equal steps, innermost first.
func (v *vectorizer) digitsOf(l nest.Loop, codes nest.Buffer, index []ir.Expr) (out []digit, err error) {
	defer v.set(l.Name, 0)
	places := make([]nest.Pos, l.N)
	for it := range l.N {
		v.set(l.Name, it)
		var room [4]int
		idx := room[:len(index)]
		for j := range index {
			x, err := v.value(index, j)
			if err != nil {
				return nil, err
			}
			idx[j] = int(x)
		}
		places[it] = codes.Pos(idx)
	}
	from := func(it int) nest.Pos {
		p := places[it]
		return nest.Pos{Byte: p.Byte - places[0].Byte, Steps: p.Steps, Sides: p.Sides - places[0].Sides, Field: p.Field - places[0].Field}
	}
	for coef := 1; coef < l.N; {
		step, n := from(coef), 2
		for ; n*coef < l.N && from(n*coef) == (nest.Pos{Byte: n * step.Byte, Sides: n * step.Sides, Field: n * step.Field}); n++ {
		}
		for l.N/coef%n != 0 {
			n--
		}
		if n == 1 {
			return nil, refuse(codes.Name(), "the codes of %s lie at no steps that lanes could share out", l.Name)
		}
		const side = 1 << 30
		out = append(out, digit{l, coef, n, step.Byte + side*step.Sides})
		coef *= n
	}
	return out, nil
}

// filling is how lanes share out what they decode.
type filling struct {
	bytes []digit
	unit  int            // bytes of codes that a lane decodes at once
	lanes map[string]int // by loop of lanes: units from one lane to the next
	first int            // unit at which the first lane stands
	at    map[string]int // by loop: where its parts stand that lanes do not share out
}

// settle sets the loops that lanes share out to where the loops of lanes stand.
func (v *vectorizer) settle() {
	if v.filling == nil {
		return
	}
	n := v.filling.first
	for name, units := range v.filling.lanes {
		n += units * v.variable(name).at
	}
	for name, it := range v.filling.iterations(n) {
		v.set(name, it)
	}
}

// iterations is where the loops stand for a unit.
func (f *filling) iterations(unit int) map[string]int {
	at := maps.Clone(f.at)
	for i, d := range f.bytes {
		count, by := d.n, 1
		if i == 0 {
			by = f.unit
			count /= by
		}
		at[d.loop.Name] += unit % count * by * d.coef
		unit /= count
	}
	return at
}

// sharesOut says that lanes have different values of a loop or an axis.
func (v *vectorizer) sharesOut(axis string) bool {
	return v.filling != nil && slices.ContainsFunc(v.filling.bytes, func(d digit) bool { return d.loop.Name == axis || d.loop.Root == axis })
}

// sharedOut gives lanes equal parts of some bytes, nil if that is not possible: the lanes that all need the same bytes. They
// may need more than these.
func (v *vectorizer) sharedOut(index []ir.Expr, bytes []digit, total int, more bool) (f *filling, lanes int) {
	f = &filling{bytes: bytes, lanes: map[string]int{}, at: map[string]int{}}
	lanes = max(v.n.Holders, 1)
	for _, o := range v.serial {
		if o.node.Lane && !mentions(index, o.loop) {
			lanes *= o.loop.N
		}
	}
	for f.unit = 16; bytes[0].n%f.unit != 0 || total%(f.unit*lanes) != 0; f.unit /= 2 {
		if f.unit == 4 {
			return nil, lanes
		}
	}
	if v.inner == nil {
		v.hold(v.held(bytes, f.unit, more))
	}
	lanes = 1
	add := func(o *openLoop) {
		f.lanes[o.loop.Name] = lanes
		lanes *= o.loop.N
	}
	for _, o := range slices.Backward(v.holders()) {
		add(o)
	}
	for _, o := range slices.Backward(v.serial) {
		if o.node.Lane && !mentions(index, o.loop) {
			add(o)
		}
	}
	return f, lanes
}

// held is how the lanes that hold tiles are counted so that each count moves an address by equal steps, outermost first: by twos if they
// share or need scales too, which lie in other steps.
func (v *vectorizer) held(bytes []digit, unit int, more bool) (counts []int) {
	if more || v.sharesMore() {
		return v.byTwos()
	}
	left, end := v.n.Holders, 1
	for i, d := range bytes {
		n := d.n
		if i == 0 {
			n /= unit
		}
		if d.stride == end && i > 1 { // as the one before
			counts[0], left = counts[0]*min(n, left), left/min(n, left)
		} else if n = min(n, left); n > 1 {
			counts, left = append([]int{n}, counts...), left/n
		}
		end = d.stride * d.n
	}
	if left > 1 || len(counts) == 0 {
		counts = append([]int{left}, counts...)
	}
	return counts
}

// sharesMore says that lanes share more than one value.
func (v *vectorizer) sharesMore() bool {
	return len(slices.DeleteFunc(slices.Clone(v.n.Shared), func(x nest.Shared) bool { return x.Temp == "" })) > 1
}

// byTwos counts the lanes that hold tiles by twos.
func (v *vectorizer) byTwos() (counts []int) {
	left := v.n.Holders
	for ; left%2 == 0; left /= 2 {
		counts = append(counts, 2)
	}
	if left > 1 {
		counts = append([]int{left}, counts...)
	}
	return counts
}

// holders are the loops over the lanes that hold tiles. What they do before the iteration at hand is in them. The inner one counts
// the lanes that a row is for.
func (v *vectorizer) holders() []*openLoop {
	if v.inner == nil {
		counts := []int{v.n.Holders}
		if n := v.depth() / bank; v.sharesMore() {
			counts = v.byTwos()
		} else if n > 1 && v.n.Holders%n == 0 {
			counts = []int{v.n.Holders / n, n}
		}
		v.hold(counts)
	}
	return v.inner
}

// hold counts the lanes that hold tiles, outermost first.
func (v *vectorizer) hold(counts []int) {
	for i, n := range counts {
		name := fmt.Sprint("holders", i)
		v.inner = append(v.inner, &openLoop{nest.Loop{Name: name, N: n, Kind: nest.Lane}, &vir.Loop{ID: v.loopID, Count: vir.Extent{Const: n, Param: -1}, Lane: true}})
		v.loopID++
		if i > 0 {
			v.inner[i-1].node.Body = []vir.Node{v.inner[i].node}
		}
	}
}
