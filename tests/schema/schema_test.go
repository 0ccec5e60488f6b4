// Package schema compares what package grammar makes of JSON schemas with an independent validator. It is a module of its own,
// so that the validator is no dependency of tmacc.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tmacc/tmacc/cmd/tmacc/tale"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model/grammar"
	"github.com/tmacc/tmacc/runtime/model/sample"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// object is a JSON object with its fields in order.
type object []field

type field struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var parts []string
	for _, f := range o {
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		parts = append(parts, string(name)+":"+string(value))
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

// maker makes random schemas.
type maker struct{ *rand.Rand }

func (r maker) chance(percent int) bool { return r.IntN(100) < percent }

var names = []string{"a", "ab", "abc", "name", "näme", "x\"y", "id", "list of things", "日本", ""}

// schema is a random schema. Its references are to definitions of a schema of root.
func (r maker) schema(depth int) any {
	if depth <= 0 {
		return r.scalar()
	}
	switch r.IntN(14) {
	case 0:
		return object{{"anyOf", []any{r.schema(depth - 1), r.schema(depth - 1), r.scalar()}}}
	case 1:
		return object{{"oneOf", []any{r.tagged("one", depth), r.tagged("two", depth), object{{"type", "array"}, {"items", r.schema(depth - 1)}}, object{{"type", "null"}}}}}
	case 2:
		return object{{"allOf", []any{r.object(depth), r.object(depth)}}}
	case 3:
		return object{{"$ref", "#/$defs/" + []string{"tree", "scalar", "list"}[r.IntN(3)]}}
	case 4, 5, 6:
		return r.array(depth)
	case 7:
		o := r.object(depth)
		return append(o, field{"anyOf", []any{object{{"required", []string{r.name()}}}, r.object(depth)}})
	case 8:
		return object{{"type", []string{"string", "null", "integer"}}, {"maxLength", r.IntN(9)}, {"minimum", r.IntN(50)}}
	case 9:
		return r.scalar()
	}
	return r.object(depth)
}

func (r maker) name() string { return names[r.IntN(len(names))] }

// tagged is an object with a field that tells it from others.
func (r maker) tagged(kind string, depth int) object {
	return object{{"type", "object"}, {"properties", object{{"kind", object{{"const", kind}}}, {"value", r.schema(depth - 1)}}}, {"required", []string{"kind"}}}
}

func (r maker) object(depth int) object {
	fields, required := object{}, []string{}
	for _, i := range r.Perm(len(names))[:r.IntN(4)] {
		fields = append(fields, field{names[i], r.schema(depth - 1)})
		if r.chance(50) {
			required = append(required, names[i])
		}
	}
	o := object{{"type", "object"}, {"title", "A title"}, {"properties", fields}, {"required", required}}
	if r.chance(30) {
		o = append(o, field{"additionalProperties", []any{true, false, r.scalar()}[r.IntN(3)]})
	}
	if r.chance(10) {
		o = append(o, field{"minProperties", len(fields) / 2})
	}
	if r.chance(10) {
		o = append(o, field{"maxProperties", r.IntN(4)})
	}
	return o
}

func (r maker) array(depth int) object {
	o := object{{"type", "array"}}
	if r.chance(80) {
		o = append(o, field{"items", []any{r.schema(depth - 1), r.schema(depth - 1), false}[r.IntN(3)]})
	}
	if r.chance(30) {
		o = append(o, field{"prefixItems", []any{r.schema(depth - 1), r.scalar()}[:1+r.IntN(2)]})
	}
	least := r.IntN(3)
	if r.chance(40) {
		o = append(o, field{"minItems", least})
	}
	if r.chance(40) {
		o = append(o, field{"maxItems", least + r.IntN(4)})
	}
	return o
}

var patterns = []string{"^[a-z]+$", "^(foo|bar){1,3}$", "^\\d{3}-\\d{4}$", "ab?c", "^\\w+@\\w+\\.(com|org)$", "^[^a-z\"]*$", "x$|^y", "^\\S\\s.$", "^$", "\\\\", "^(?:a|\\/)*?[à-ÿ]$"}

func (r maker) scalar() any {
	switch r.IntN(14) {
	case 0:
		return object{{"type", "boolean"}}
	case 1:
		return object{{"enum", []any{1, -2.5, "a\"b\\", nil, true, []any{1, "x"}, object{{"k", 1}}}[:1+r.IntN(7)]}}
	case 2:
		return object{{"const", []any{"é\n", 12, false, object{{"z", 1}, {"a", nil}}}[r.IntN(4)]}}
	case 3:
		return object{{"type", "string"}, {"pattern", patterns[r.IntN(len(patterns))]}}
	case 4:
		return object{{"type", "string"}, {"format", []string{"date", "time", "date-time", "uuid"}[r.IntN(4)]}}
	case 5, 6:
		least := r.IntN(5)
		return object{{"type", "string"}, {"minLength", least}, {"maxLength", least + r.IntN(5)}}
	case 7, 8:
		return r.number("integer", 1)
	case 9, 10:
		return r.number("number", []float64{1, 0.5, 0.013}[r.IntN(3)])
	case 11:
		return object{{"type", "null"}}
	case 12:
		return object{{"type", []string{"string", "boolean"}}}
	}
	return true
}

// number is a schema with bounds of many sizes.
func (r maker) number(kind string, unit float64) object {
	o := object{{"type", kind}}
	size := []int{1, 10, 300, 1e6}[r.IntN(4)]
	least := float64(r.IntN(2*size+1)-size) * unit
	if r.chance(60) {
		o = append(o, field{[]string{"minimum", "exclusiveMinimum"}[r.IntN(2)], least})
	}
	if r.chance(60) {
		o = append(o, field{[]string{"maximum", "exclusiveMaximum"}[r.IntN(2)], least + float64(1+r.IntN(size))*unit})
	}
	return o
}

// root is a schema with definitions.
func (r maker) root() string {
	defs := object{
		{"tree", object{{"type", "object"}, {"properties", object{{"leaf", r.scalar()}, {"kids", object{{"type", "array"}, {"items", object{{"$ref", "#/$defs/tree"}}}}}}}, {"required", []string{"kids"}}}},
		{"scalar", r.scalar()},
		{"list", object{{"anyOf", []any{object{{"type", "null"}}, object{{"type", "object"}, {"properties", object{{"next", object{{"$ref", "#/$defs/list"}}}}}, {"required", []string{"next"}}}}}}},
	}
	all := object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$defs", defs}, {"allOf", []any{r.schema(3)}}}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// tokenizer is the one of a file.
func tokenizer(t *testing.T, f *gguf.File, err error) *token.Tokenizer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tokens, err := token.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// writer writes texts by random logits.
type writer struct {
	*testing.T
	tokens *token.Tokenizer
	words  *grammar.Vocabulary
	noise  []float32
	rng    *rand.Rand
}

func newWriter(t *testing.T, tokens *token.Tokenizer) *writer {
	w := &writer{t, tokens, grammar.NewVocabulary(tokens), make([]float32, 20*tokens.Len()), rand.New(rand.NewPCG(1, 2))}
	for i := range w.noise {
		w.noise[i] = float32(w.rng.NormFloat64() * 2)
	}
	return w
}

// write is a text of at most limit tokens, and whether it is complete, which it is if any text is short enough.
func (w *writer) write(g *grammar.Grammar, limit int) (string, bool) {
	mask := grammar.NewMask(g, w.words)
	fewest := mask.Fewest()
	s, err := sample.New(sample.Options{Temperature: 1, Seed: w.rng.Uint64(), Mask: mask})
	if err != nil {
		w.Fatal(err)
	}
	s.Limit(limit)
	var text []byte
	for range limit {
		id := s.Next(w.noise[w.rng.IntN(len(w.noise)-w.tokens.Len()):][:w.tokens.Len()])
		if id == sample.None {
			w.Fatalf("after %q: %v", text, s.Err())
		}
		if w.tokens.EndOfGeneration(id) {
			return string(text), true
		}
		text = w.tokens.AppendPiece(text, id, false)
	}
	if !s.MayEnd() && fewest >= 0 && fewest <= limit {
		w.Errorf("%q is not complete after %d tokens, and %d suffice", text, limit, fewest)
	}
	return string(text), s.MayEnd()
}

// validator is the schema as the independent validator understands it.
func validator(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return s
}

// counts are how schemas and their texts ended.
type counts struct{ complete, short, refused int }

// compare checks texts of random schemas. A text that ends within its limit is valid.
func (w *writer) compare(seed uint64, schemas int) (n counts) {
	r := maker{rand.New(rand.NewPCG(seed, 0))}
	for n.complete+n.short < schemas {
		text := r.root()
		check := validator(w.T, text)
		g, err := grammar.ParseSchema([]byte(text))
		if err != nil {
			if e := (*grammar.Error)(nil); !errors.As(err, &e) {
				w.Errorf("%s\n%v", text, err)
			}
			n.refused++
			w.Log(err)
			continue
		}
		said, complete := w.write(g, []int{3, 20, 80, 300}[r.IntN(4)])
		if !complete {
			n.short++
			continue
		}
		n.complete++
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(said))
		if err == nil {
			err = check.Validate(instance)
		}
		if err != nil {
			w.Errorf("%s\n%s\n%v", text, said, err)
		}
	}
	return n
}

// Random schemas: what a random model writes validates, or the limit was too short for any value.
func TestSchemas(t *testing.T) {
	f, err := tale.Open()
	n := newWriter(t, tokenizer(t, f, err)).compare(1, 1000)
	t.Logf("%+v", n)
	if n.complete < 700 || n.refused > 100 {
		t.Errorf("%+v of 1000 schemas", n)
	}
}

// The same with large vocabularies.
func TestLargeVocabularies(t *testing.T) {
	data := os.Getenv("TMACC_DATA")
	if data == "" {
		t.Skip("TMACC_DATA is not set")
	}
	for _, name := range []string{"gpt-2", "llama-spm", "llama-bpe"} {
		f, err := gguf.Open(filepath.Join(data, fmt.Sprintf("ggml-vocab-%s.gguf", name)))
		if n := newWriter(t, tokenizer(t, f, err)).compare(2, 12); n.complete < 8 {
			t.Errorf("%s: %+v", name, n)
		}
	}
}
