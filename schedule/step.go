// Package schedule says how a product is computed: a trace is a list of small
// steps, each with a legality check, that turns the definition of a product
// into loop nests. Replaying a trace gives the same kernel on every machine.
package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir/format"
)

// Step is one schedule transform. It never changes the state it is given.
type Step interface {
	// Apply returns s transformed, or an *Illegal.
	Apply(s *Product) (*Product, error)
}

// PreparationStep is a step that preparations of activations have too.
type PreparationStep interface {
	Step
	// ApplyPreparation returns s transformed, or an *Illegal.
	ApplyPreparation(s *Preparation) (*Preparation, error)
}

// OperatorStep is a step that operators have too.
type OperatorStep interface {
	Step
	// ApplyOperator returns s transformed, or an *Illegal.
	ApplyOperator(s *Operator) (*Operator, error)
}

// Trace is a schedule as data.
type Trace []Step

// steps names every transform; a new one is a type with Apply and a row here.
var steps = map[string]Step{
	"fill_groups":    FillGroups{},
	"decompose":      Decompose{},
	"split":          Split{},
	"fuse":           Fuse{},
	"reorder":        Reorder{},
	"bind":           Bind{},
	"tensorize":      Tensorize{},
	"rfactor":        Rfactor{},
	"read_scaled":    ReadScaled{},
	"stage":          Stage{},
	"pack":           Pack{},
	"widen_every":    WidenEvery{},
	"accumulate":     Accumulate{},
	"hoist_zero":     HoistZero{},
	"fold_scales":    FoldScales{},
	"scale_at":       ScaleAt{},
	"fission":        Fission{},
	"prefetch":       Prefetch{},
	"quantize_table": QuantizeTable{},
	"halving_add":    HalvingAdd{},
	"inline":         Inline{},
	"quantize":       Quantize{},
	"tile_columns":   TileColumns{},
	"batch":          Batch{},
	"split_k":        SplitK{},
	"epilogue":       Epilogue{},
}

// StepNames lists all steps.
func StepNames() []string {
	var out []string
	for n := range steps {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// NameOf is the name of a step's kind.
func NameOf(s Step) string {
	name, ok := stepNames()[reflect.TypeOf(s)]
	if !ok {
		panic(fmt.Sprintf("BUG: schedule: %T is not in steps", s))
	}
	return name
}

// stepNames are the names of steps by their types.
var stepNames = sync.OnceValue(func() map[reflect.Type]string {
	names := map[reflect.Type]string{}
	for name, k := range steps {
		names[reflect.TypeOf(k)] = name
	}
	return names
})

// MarshalJSON writes [{"split":{"loop":"m","by":16,...}}, ...].
func (t Trace) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, s := range t {
		arg, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "{%q:%s}", NameOf(s), arg)
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// Key tells traces apart. Texts do not: they leave out values that are true or false.
func (t Trace) Key() string {
	data, err := t.MarshalJSON()
	if err != nil {
		panic("BUG: schedule: " + err.Error())
	}
	return string(data)
}

// maxSteps bounds a trace read from a file. So does maxDepth, by how deep its lists and objects are in one another: a step may have a trace, and
// the steps of that have lists.
const (
	maxSteps = 200
	maxDepth = 7
)

// depthOf is how deep lists and objects of JSON are in one another.
func depthOf(data []byte) (deepest int) {
	depth, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case text:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// UnmarshalJSON reads what MarshalJSON writes. Steps and fields that are unknown or there twice are errors.
func (t *Trace) UnmarshalJSON(data []byte) error {
	if depth := depthOf(data); depth > maxDepth { // each level would be copied
		return fmt.Errorf("trace: lists and objects are %d deep, at most %d", depth, maxDepth)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if len(raw) > maxSteps {
		return fmt.Errorf("trace: %d steps, at most %d", len(raw), maxSteps)
	}
	out := make(Trace, 0, len(raw))
	for i, one := range raw {
		name, arg, err := member(one)
		if err != nil {
			return fmt.Errorf("trace: step %d %w", i, err)
		}
		kind, ok := steps[name]
		if !ok {
			return fmt.Errorf("trace: step %d: no transform %.80q (have %s)", i, name, strings.Join(StepNames(), ", "))
		}
		p := reflect.New(reflect.TypeOf(kind))
		if err := format.UnmarshalStrict(arg, p.Interface()); err != nil {
			return fmt.Errorf("trace: step %d: %s: %w", i, name, err)
		}
		out = append(out, p.Elem().Interface().(Step))
	}
	*t = out
	return nil
}

// member is the only member of an object. Of several of one name, encoding/json would take the last.
func member(data []byte) (name string, arg json.RawMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return "", nil, errors.New("is no object")
	}
	n := 0
	for ; d.More(); n++ {
		token, err := d.Token()
		if err != nil {
			return "", nil, err
		}
		name = token.(string) // the decoder takes nothing else
		if err := d.Decode(&arg); err != nil {
			return "", nil, err
		}
	}
	if n != 1 {
		return "", nil, fmt.Errorf("names %d transforms, want 1", n)
	}
	return name, arg, nil
}

// Replay applies t to a product.
func (t Trace) Replay(s *Product) (*Product, error) {
	for i, step := range t {
		var err error
		if s, err = step.Apply(s); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, nil
}

// ReplayPreparation applies t to a preparation of activations.
func (t Trace) ReplayPreparation(s *Preparation) (*Preparation, error) {
	for i, step := range t {
		x, ok := step.(PreparationStep)
		if !ok {
			return nil, fmt.Errorf("step %d: %w", i, forProducts(step))
		}
		var err error
		if s, err = x.ApplyPreparation(s); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, nil
}

// ReplayOperator applies t to an operator.
func (t Trace) ReplayOperator(s *Operator) (*Operator, error) {
	for i, step := range t {
		x, ok := step.(OperatorStep)
		if !ok {
			return nil, fmt.Errorf("step %d: %w", i, illegal(step, "in an operator", "is for products and preparations"))
		}
		var err error
		if s, err = x.ApplyOperator(s); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, nil
}

// forProducts refuses to prepare activations by x.
func forProducts(x Step) error {
	return illegal(x, "in a preparation", "is for products; activations are prepared by loops alone")
}

// String is the trace on one line, for tables: "split m 16; bind l vector; ...". Parameters that are zero are left out.
// Only a zero before another number stays.
func (t Trace) String() string {
	var out []string
	for _, s := range t {
		v := reflect.ValueOf(s)
		words, zeros := []string{NameOf(s)}, []string(nil)
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case !f.IsZero() && f.CanInt():
				words, zeros = append(append(words, zeros...), fmt.Sprint(f.Int())), nil
			case f.Kind() == reflect.Bool && f.Bool():
				name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
				words = append(words, name)
			case !f.IsZero():
				words = append(words, strings.Trim(fmt.Sprint(f.Interface()), "[]"))
			case f.CanInt():
				zeros = append(zeros, "0")
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, "; ")
}

// Illegal says why a step does not apply. Reason classifies it for counting.
type Illegal struct {
	Step, Thing string
	Reason      string
}

func (e *Illegal) Error() string { return fmt.Sprintf("%s %s: %s", e.Step, e.Thing, e.Reason) }

func illegal(step Step, thing, reason string, args ...any) error {
	return &Illegal{NameOf(step), thing, fmt.Sprintf(reason, args...)}
}

// Overflow says that what could lose information: with the weight value Value,
// scaled by 2^Shift, and the activation Act everywhere, a sum of Terms products
// is Bound, beyond the Limit of its type. After hoist_zero, which makes weights
// unsigned, Value counts from the lowest level.
type Overflow struct {
	What         string
	Type         string
	Bound, Limit int64
	Terms        int
	Value, Shift int
	Act          int
}

func (e *Overflow) Error() string {
	scale := ""
	if e.Shift > 0 {
		scale = fmt.Sprintf(" (scaled by 2^%d)", e.Shift)
	}
	return fmt.Sprintf("%s (%s) could overflow: %d products of weight %d%s and activation %d are %d, beyond %d",
		e.What, e.Type, e.Terms, e.Value, scale, e.Act, e.Bound, e.Limit)
}
