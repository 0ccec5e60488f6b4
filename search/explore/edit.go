package explore

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tmacc/tmacc/schedule"
)

// Add puts a step in front of the cursor, which then stands behind it.
func (e *Explorer) Add(x schedule.Step) {
	t, at := e.Place()
	e.Set(slices.Insert(slices.Clone(t), at, x), at+1)
}

// Replace puts x in the place of a step.
func (e *Explorer) Replace(step int, x schedule.Step) error {
	t, err := e.with(step)
	if err != nil {
		return err
	}
	t[step] = x
	e.Set(t, step)
	return nil
}

// Delete removes steps from one to another, the last one included.
func (e *Explorer) Delete(from, to int) error {
	if from > to {
		return fmt.Errorf("steps %d to %d: the last one is before the first", from, to)
	}
	if _, err := e.with(to); err != nil {
		return err
	}
	t, err := e.with(from)
	if err != nil {
		return err
	}
	e.Set(slices.Delete(t, from, to+1), from)
	return nil
}

// Move makes a step the one of another number.
func (e *Explorer) Move(from, to int) error {
	if _, err := e.with(to); err != nil {
		return err
	}
	t, err := e.with(from)
	if err != nil {
		return err
	}
	x := t[from]
	e.Set(slices.Insert(slices.Delete(t, from, from+1), to, x), to)
	return nil
}

// with is a copy of the trace, which has the step.
func (e *Explorer) with(step int) (schedule.Trace, error) {
	t := e.Now()
	if step < 0 || step >= len(t) {
		return nil, fmt.Errorf("there is no step %d: the trace has %d, from 0", step, len(t))
	}
	return slices.Clone(t), nil
}

// ParseStep reads a step: as traces have it, {"split":{"loop":"m","by":32,"into":["mt","mi"]}}, or in words as they are printed, split m 32
// mt mi, with field=value for what words leave open: pack tensor=codes order=mt,kt,r fields=s,f map=dense.
func ParseStep(text string) (schedule.Step, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return decoded(text)
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, fmt.Errorf("a step: want a name and its values: %s", strings.Join(schedule.StepNames(), ", "))
	}
	x, err := decoded(fmt.Sprintf("{%q:{}}", words[0]))
	if err != nil {
		return nil, err
	}
	return edited(x, words[1:])
}

// decoded is the step of a JSON object.
func decoded(text string) (schedule.Step, error) {
	var t schedule.Trace
	if err := json.Unmarshal([]byte("["+text+"]"), &t); err != nil {
		return nil, fmt.Errorf("%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "trace: "), "step 0: "))
	}
	if len(t) != 1 {
		return nil, fmt.Errorf("want one step, not %d", len(t))
	}
	return t[0], nil
}

// edited is x with other values: field=value, or values alone for the fields in their order, as a printed step has them.
func edited(x schedule.Step, words []string) (schedule.Step, error) {
	values := map[string]json.RawMessage{}
	data, err := json.Marshal(schedule.Trace{x})
	if err != nil {
		panic("BUG: explore: " + err.Error())
	}
	var whole []map[string]map[string]json.RawMessage
	name := schedule.NameOf(x)
	if err := json.Unmarshal(data, &whole); err == nil {
		values = whole[0][name]
	}
	fields, bare := fieldsOf(x), []string(nil)
	for _, w := range words {
		key, value, named := strings.Cut(w, "=")
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
		switch {
		case !named:
			bare = append(bare, w)
			continue
		case i < 0:
			return nil, fmt.Errorf("%s has no field %.40q: it has %s", name, key, namesOf(fields))
		}
		if values[key], err = fields[i].value([]string{value}); err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
	}
	if err := inOrder(fields, bare, values); err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	data, _ = json.Marshal(map[string]any{name: values})
	return decoded(string(data))
}

// field is a field of a step.
type field struct {
	name string
	typ  reflect.Type
}

func fieldsOf(x schedule.Step) (out []field) {
	t := reflect.TypeOf(x)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, field{name, t.Field(i).Type})
	}
	return out
}

func namesOf(fields []field) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// isList says that f takes several words.
func (f field) isList() bool { return f.typ.Kind() == reflect.Slice || f.typ.Kind() == reflect.Array }

// takes says that a word may be a value of f.
func (f field) takes(word string) bool {
	_, err := strconv.Atoi(word)
	switch {
	case f.typ.Kind() == reflect.Bool:
		return word == f.name
	case f.typ.Kind() == reflect.Int, f.isList() && f.typ.Elem().Kind() == reflect.Int:
		return err == nil
	}
	return err != nil
}

// value is f's JSON of words; a list may also be one word with commas.
func (f field) value(words []string) (json.RawMessage, error) {
	var v any = words[0]
	switch n, err := strconv.Atoi(words[0]); {
	case f.isList():
		return f.list(words), nil
	case f.typ.Kind() == reflect.Int && err != nil:
		return nil, fmt.Errorf("%s %.40q: want a whole number that fits 64 bits", f.name, words[0])
	case f.typ.Kind() == reflect.Int:
		v = n
	case f.typ.Kind() == reflect.Bool:
		v = words[0] == f.name || words[0] == "true"
	}
	data, err := json.Marshal(v)
	return data, err
}

func (f field) list(words []string) json.RawMessage {
	var all []any
	for _, w := range words {
		for item := range strings.SplitSeq(strings.Trim(w, `[]`), ",") {
			if n, err := strconv.Atoi(item); err == nil && f.typ.Elem().Kind() == reflect.Int {
				all = append(all, n)
			} else if item = strings.Trim(item, `" `); item != "" {
				all = append(all, item)
			}
		}
	}
	data, _ := json.Marshal(all)
	return data
}

// inOrder gives words to the fields that take them, in their order. A list takes all words that are left, if it is the only one.
func inOrder(fields []field, words []string, values map[string]json.RawMessage) (err error) {
	lists := 0
	for _, f := range fields {
		if f.isList() {
			lists++
		}
	}
	for _, f := range fields {
		switch {
		case len(words) == 0:
			return nil
		case f.isList() && lists > 1:
			continue
		case f.isList():
			n := slices.IndexFunc(words, func(w string) bool { return !f.takes(w) })
			if n < 0 {
				n = len(words)
			}
			values[f.name], words = f.list(words[:n]), words[n:]
		case f.takes(words[0]):
			if values[f.name], err = f.value(words[:1]); err != nil {
				return err
			}
			words = words[1:]
		}
	}
	if len(words) > 0 {
		return fmt.Errorf("does not know what to do with %q: name its field, as in %s=%s", words[0], fields[len(fields)-1].name, words[0])
	}
	return nil
}
