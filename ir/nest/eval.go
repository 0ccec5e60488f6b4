package nest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"

	"github.com/tmacc/tmacc/ir"
)

// Arg is the value of one parameter: a buffer, or a trip count.
type Arg struct {
	Buf []byte
	Int int
}

// Eval runs n on args, one by parameter. Outer loops stand at 0.
func Eval(n *Nest, args []Arg) error {
	if len(args) != len(n.Params) {
		return fmt.Errorf("nest %s: %d arguments for %d parameters", n.Name, len(args), len(n.Params))
	}
	m := &machine{n: n, args: map[string]Arg{}, vars: map[string]int{}, temps: map[string]int64{}, roots: map[string][]Loop{}}
	for i, p := range n.Params {
		m.args[p] = args[i]
	}
	for _, l := range n.Loops {
		if _, ok := m.args[CountParam(l)]; l.N == 0 && !l.Kind.Outside() && !ok {
			return fmt.Errorf("nest %s: no parameter %s", n.Name, CountParam(l))
		}
		if _, ok := m.args[ListCountParam]; l.ListedBy != "" && !ok {
			return fmt.Errorf("nest %s: no parameter %s", n.Name, ListCountParam)
		}
		if l.Root != "" {
			m.roots[l.Root] = append(m.roots[l.Root], l)
		}
	}
	if n.Grid != nil {
		return m.grid(len(n.Grid) - 1)
	}
	err := m.run(n.Body)
	if n.Repeat == nil {
		return err
	}
	for left := m.args[n.Repeat.Count].Int; err == nil && left > 1; left-- {
		if err = m.move(); err == nil {
			err = m.run(n.Body)
		}
	}
	return err
}

// grid runs the body for every workgroup along dimension d and the ones before it.
func (m *machine) grid(d int) error {
	if d < 0 {
		return m.run(m.n.Body)
	}
	args := m.args
	defer func() { m.args = args }()
	for i := range args[m.n.Grid[d].Count].Int {
		m.args = maps.Clone(args)
		for _, v := range m.n.Grid[d].Moves {
			a, by := args[v.Param], i*args[v.By].Int
			if list := args[v.By].Buf; !IntParam(v.By) {
				if len(list) < 4*(i+1) {
					return fmt.Errorf("nest %s: group %d is not in the list %s of %d bytes", m.n.Name, i, v.By, len(list))
				}
				by = int(binary.LittleEndian.Uint32(list[4*i:]))
			}
			if by < 0 || by > len(a.Buf) {
				return fmt.Errorf("nest %s: %s moves by %d bytes of %d", m.n.Name, v.Param, by, len(a.Buf))
			}
			m.args[v.Param] = Arg{Buf: a.Buf[by:]}
		}
		if err := m.grid(d - 1); err != nil {
			return err
		}
	}
	return nil
}

// move moves the pointers between two runs of the body.
func (m *machine) move() error {
	for _, v := range m.n.Repeat.Moves {
		a, by := m.args[v.Param], m.args[v.By].Int
		if by < 0 || by > len(a.Buf) {
			return fmt.Errorf("nest %s: %s moves by %d bytes of %d", m.n.Name, v.Param, by, len(a.Buf))
		}
		m.args[v.Param] = Arg{Buf: a.Buf[by:]}
	}
	return nil
}

type machine struct {
	n     *Nest
	args  map[string]Arg
	vars  map[string]int // loop variables
	roots map[string][]Loop
	temps map[string]int64
}

// Axis is the value of a loop or of a stage axis.
func (m *machine) Axis(name string) int {
	if v, ok := m.vars[name]; ok {
		return v
	}
	loops, ok := m.roots[name]
	if !ok {
		panic(fmt.Sprintf("BUG: nest %s: axis %s has no loop here", m.n.Name, name))
	}
	v := 0
	for _, l := range loops {
		v += l.Coef * m.vars[l.Name]
	}
	return v
}

func (m *machine) run(body []Stmt) error {
	for _, s := range body {
		switch s := s.(type) {
		case *For:
			if err := m.loop(s); err != nil {
				return err
			}
		case *Assign:
			if err := m.assign(s); err != nil {
				return fmt.Errorf("nest %s: %v: %w", m.n.Name, ir.Read{T: s.Dst, Index: s.Index}, err)
			}
		default:
			panic(fmt.Sprintf("BUG: nest: unknown statement %T", s))
		}
	}
	return nil
}

func (m *machine) loop(f *For) error {
	count := f.Loop.N
	if count == 0 {
		count = m.args[CountParam(f.Loop)].Int
	}
	if f.Loop.Kind.Outside() {
		count = 1
	}
	if f.Loop.Kind == Part { // which add up as one workgroup does that has all iterations
		count = 1
	}
	var list []byte
	if f.Loop.ListedBy != "" && m.vars[f.Loop.ListedBy] != 0 {
		list, count = m.args[ListParam].Buf, m.args[ListCountParam].Int
		if len(list) < 4*count {
			return fmt.Errorf("nest %s: loop %s has a list of %d bytes for %d values", m.n.Name, f.Loop.Name, len(list), count)
		}
	}
	defer delete(m.vars, f.Loop.Name)
	for i := range count {
		m.vars[f.Loop.Name] = i
		if list != nil {
			m.vars[f.Loop.Name] = int(binary.LittleEndian.Uint32(list[4*i:]))
		}
		if err := m.run(f.Body); err != nil {
			return err
		}
	}
	return nil
}

// IntParam says that a parameter is an integer, not a pointer: a trip count or a step.
func IntParam(name string) bool {
	return strings.HasPrefix(name, "count.") || strings.HasPrefix(name, "step.")
}

// StepParam names the integer parameter that is the step of a buffer.
func StepParam(param string) string { return "step." + param }

// CountParam names the parameter that holds the trip count of a run-time loop.
func CountParam(l Loop) string { return "count." + l.Name }

// Parameters of nests with listed loops: the values that they take, u32 each, and the
// number of values.
const (
	ListParam      = "list"
	ListCountParam = "count.list"
)

func (m *machine) indices(index []ir.Expr) ([]int, error) {
	out := make([]int, len(index))
	for i, e := range index {
		v, err := ir.EvalExpr(e, m)
		if err != nil {
			return nil, err
		}
		out[i] = int(v)
	}
	return out, nil
}

func (m *machine) assign(s *Assign) error {
	v, err := ir.EvalExpr(s.Value, m)
	if err != nil {
		return err
	}
	idx, err := m.indices(s.Index)
	if err != nil {
		return err
	}
	if s.How == Accumulate {
		old, err := m.Load(s.Dst, append([]int(nil), idx...))
		if err != nil {
			return err
		}
		v = ir.Combine(s.Op, s.Dst.Elem, old, v)
	}
	v = ir.Wrap(s.Dst.Elem, v)
	if b := m.n.Buffers[s.Dst.Name]; b != nil {
		mem, p := m.place(b, idx)
		return b.Base().store(mem, p, v)
	}
	m.temps[key(s.Dst, idx)] = v
	return nil
}

func key(t *ir.Tensor, idx []int) string {
	var b strings.Builder
	b.WriteString(t.Name)
	for _, i := range idx {
		fmt.Fprintf(&b, ",%d", i)
	}
	return b.String()
}

// Load reads a temp, or an element of a buffer.
func (m *machine) Load(t *ir.Tensor, idx []int) (int64, error) {
	b := m.n.Buffers[t.Name]
	if b == nil {
		v, ok := m.temps[key(t, idx)]
		if !ok {
			return 0, fmt.Errorf("%s is read before it is set", key(t, idx))
		}
		return v, nil
	}
	mem, p := m.place(b, idx)
	v, err := b.load(mem, p, t.Elem)
	if err != nil {
		return 0, fmt.Errorf("%s%v: %w (%v)", t.Name, idx, err, b)
	}
	return v, nil
}

// place is b's memory, and where in it an element is.
func (m *machine) place(b Buffer, idx []int) ([]byte, Pos) {
	p := b.Pos(idx)
	for _, t := range b.Terms(p) {
		p.Byte += t.Times * m.args[t.Param].Int
	}
	return m.args[b.Base().Param].Buf, p
}
