package grammar

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// schemas are for tests, with all keywords.
var schemas = []string{
	`{}`, `true`, `{"type":"integer","minimum":-3,"exclusiveMaximum":1234}`, `{"type":"number","minimum":0.25,"maximum":1}`,
	`{"type":"object","properties":{"a":{"type":"string","maxLength":5},"b":{"enum":[1,"x",null]},"c":{"type":"boolean"}},"required":["b"],"minProperties":2}`,
	`{"type":"object","properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}}`,
	`{"type":"array","prefixItems":[{"type":"boolean"}],"items":{"type":"string","format":"date"},"minItems":2,"maxItems":4}`,
	`{"type":"string","pattern":"^[a-c]+\\.(x|yz){2}$"}`,
	`{"$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},"k":{"type":"array","items":{"$ref":"#/$defs/t"}}},"required":["v","k"]}},"$ref":"#/$defs/t"}`,
	`{"oneOf":[{"type":"integer"},{"type":"string","maxLength":3},{"type":"object","properties":{"k":{"const":1}},"required":["k"]}]}`,
	`{"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":5},"b":{"const":7}},"required":["b"]}]}`,
}

// Values by hand: the ones before "not" are texts of the schema's grammar.
func TestSchema(t *testing.T) {
	const not = "not"
	for _, c := range []struct {
		schema string
		texts  []string
	}{
		{`{}`, []string{`{}`, `{"a":[1, {}]}`, not, `1`, `"a"`, `null`}},
		{`true`, []string{`1`, `"a"`, `null`, `[]`, `{"a":[1, {}]}`, `-0.5e-7`, not, ``, `01`, `[1,]`, `"\ud800"`, "\"\n\"", `{"a"}`, `.5`, ` 1`, `1 `}},
		{`{"type":"integer"}`, []string{"0", "-17", "999999999999999", not, "-0", "1.0", "01", "1e3"}},
		{`{"type":"integer","minimum":-3,"maximum":12}`, []string{"-3", "-1", "0", "7", "10", "12", not, "-4", "13", "-0", "00", "07"}},
		{`{"type":"integer","exclusiveMinimum":98,"exclusiveMaximum":1001.5}`, []string{"99", "100", "999", "1000", "1001", not, "98", "1002", "099"}},
		{`{"type":"integer","minimum":123456789012345678901234567890}`, []string{"123456789012345678901234567890", "200000000000000000000000000000", not, "123456789012345678901234567889", "1"}},
		{`{"type":"integer","maximum":-27}`, []string{"-27", "-64", "-100", not, "-26", "27", "0", "-3"}},
		{`{"type":"number","minimum":0,"maximum":1}`, []string{"0", "1", "0.50", "0.07", "1.00", not, "1.01", "-0.5", "2", "1e-1"}},
		{`{"type":"number","exclusiveMinimum":-0.5,"maximum":0.25}`, []string{"0", "-0.49", "0.25", "-0.01", not, "-0.50", "0.26", "1", "-0.00"}},
		{`{"minimum":5}`, []string{"5", "6.25", not, "4", "4.99", "true"}},
		{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"éé"`, `"\n\u00e9x"`, `"\"\\"`, not, `"a"`, `"abcd"`, `"\ud83d\ude00"`}},
		{`{"type":"string","pattern":"^a+(b|\\d)?$"}`, []string{`"a"`, `"aa7"`, not, `"ac"`, `""`, `"xa"`}},
		{`{"type":"string","pattern":"b[\\s\"]"}`, []string{`"b "`, `"xxb\"yy"`, `"b\n"`, not, `"b"`, `"bb"`}},
		{`{"type":"string","pattern":"^a|b$"}`, []string{`"ax"`, `"xb"`, `"a"`, `"b"`, not, `"xa"`, `"bx"`}},
		{`{"type":"string","pattern":"^[^\\w\\s]\\u0041\\x42\\/$"}`, []string{`"-AB/"`, not, `"aAB/"`, `"\u00a0AB/"`, "\"\u00a0AB/\""}},
		{`{"type":"string","format":"date"}`, []string{`"2024-02-28"`, `"1999-12-31"`, `"2024-04-30"`, not, `"2024-02-30"`, `"2024-04-31"`, `"2024-13-01"`}},
		{`{"type":"string","format":"date-time"}`, []string{`"2024-01-31T23:59:59Z"`, `"2024-01-31T00:00:00.25+02:00"`, not, `"2024-01-31"`, `"2024-01-31T24:00:00Z"`}},
		{`{"type":"string","format":"uuid"}`, []string{`"123e4567-e89b-12d3-a456-426614174000"`, not, `"123e4567"`}},
		{`{"enum":[1,"a\"b",{"x":[null]}]}`, []string{`1`, `"a\"b"`, `{"x":[null]}`, not, `2`, `1.0`}},
		{`{"type":"string","enum":[1,"abc","d"],"maxLength":2}`, []string{`"d"`, not, `1`, `"abc"`}},
		{`{"enum":[1,2,3],"const":2.0}`, []string{`2.0`, not, `1`}},
		{`{"type":["null","boolean"]}`, []string{`null`, `true`, `false`, not, `0`}},
		{`{"type":"array"}`, []string{`[]`, `[1,"a"]`, "[\n  1,\n  2\n]", not, `[1 2]`, `[,1]`}},
		{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2}`, []string{`[1]`, `[1, 2]`, not, `[]`, `[1,2,3]`, `[true]`}},
		{`{"type":"array","items":{"type":"integer"},"maxItems":0}`, []string{`[]`, not, `[1]`}},
		{`{"prefixItems":[{"type":"integer"},{"type":"null"}],"items":{"type":"boolean"},"maxItems":3}`, []string{`[1,null]`, `[1,null,true]`, not, `[1]`, `[1,null,true,true]`}},
		{`{"type":"array","items":[{"type":"integer"}],"additionalItems":false}`, []string{`[1]`, not, `[1,2]`}},
		{`{"prefixItems":[{"type":"integer"}],"minItems":2}`, []string{`[1,"x"]`, not, `[1]`}},
		{`{"type":"object"}`, []string{`{}`, `{"a":1,"b":[]}`, not, `{"a"}`, `{a:1}`}},
		{`{"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},"required":["b"]}`,
			[]string{`{"b":1}`, `{"b":1,"a":2}`, `{"b":1,"c":3}`, `{ "b": 1, "a": 2, "c": 3 }`, not, `{}`, `{"a":1}`, `{"b":1,"c":1,"a":1}`, `{"b":1,"d":1}`, `{"b":1,}`}},
		{`{"properties":{"a":{"type":"null"},"b":{"type":"null"}}}`, []string{`{}`, `{"a":null}`, `{"b":null}`, `{"a":null,"b":null}`, not, `{,"b":null}`, `{"b":null,"a":null}`}},
		{`{"properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}}`,
			[]string{`{}`, `{"ab":null}`, `{"ab":null,"a":1,"abc":2,"":3,"x":4}`, `{"ba":1}`, not, `{"ab":1}`, `{"x":null}`, `{"a\u0062":1}`, `{"a":1,"ab":null}`}},
		{`{"type":"object","properties":{"":{"type":"null"}},"additionalProperties":true}`, []string{`{"":null}`, `{"a":"x"}`, not, `{"":1}`}},
		{`{"type":"object","required":["x"]}`, []string{`{"x":[1]}`, not, `{}`}},
		{`{"properties":{"a":true,"b":true,"c":true},"minProperties":2,"maxProperties":2}`, []string{`{"a":1,"b":1}`, not, `{"a":1}`, `{"a":1,"b":1,"c":1}`}},
		{`{"$ref":"#/$defs/a~1b/items/0","$defs":{"a/b":{"items":[{"type":"null"}]}}}`, []string{`null`, not, `1`}},
		{`{"type":"object","properties":{"next":{"$ref":"#"}}}`, []string{`{}`, `{"next":{"next":{}}}`, not, `{"next":1}`}},
		{`{"anyOf":[{"type":"integer"},{"minimum":3}],"maximum":4}`, []string{`-5`, `3.25`, `4`, not, `2.5`, `5`}},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["b"]}]}`,
			[]string{`{"a":1}`, `{"b":null}`, `{"b":null,"a":1}`, not, `{}`}},
		{`{"oneOf":[{"properties":{"k":{"const":"x"}},"required":["k"]},{"type":"object","properties":{"k":{"enum":["y","z"]}}},{"type":"array","maxItems":0}]}`, []string{`[]`, not}},
		{`{"allOf":[{"properties":{"a":{"type":"integer"}},"additionalProperties":false},{"properties":{"a":{"minimum":5},"b":true},"required":["a"]}]}`,
			[]string{`{"a":5}`, not, `{"a":4}`, `{"a":5,"b":1}`}},
		{`{"type":"object","properties":{"a":false,"b":{"type":"null"}}}`, []string{`{}`, `{"b":null}`, not, `{"a":1}`}},
		{`{"title":"t","description":5,"default":{},"x-mine":1,"const":null}`, []string{`null`, not, `0`}},
	} {
		g, err := ParseSchema([]byte(c.schema))
		if err != nil {
			if len(c.texts) > 2 || !strings.Contains(err.Error(), "not told apart") {
				t.Errorf("%s: %v", c.schema, err)
			}
			continue
		}
		want := true
		for _, text := range c.texts {
			if text == not {
				want = false
				continue
			}
			if got, _ := accepts(t, g, text); got != want {
				t.Errorf("%s\n%s: %t, want %t", c.schema, text, got, want)
			}
		}
	}
}

// Faults have a place in the schema, or in its text, and a name.
func TestSchemaRefuses(t *testing.T) {
	for _, c := range [][2]string{
		{``, "line 1, column 1: JSON: the text ends too early"},
		{"{\n \"type\": }", "line 2, column 10: JSON: invalid character '}'"},
		{`{} x`, "line 1, column 4: want the end of the JSON text"},
		{`{"a":1,"a":2}`, "#/a: the name comes twice"},
		{`3`, "#: want a schema, which is an object, true or false, not 3"},
		{`false`, "#: no value is possible"},
		{`{"type":"text"}`, `#/type: there is no type "text": want null, boolean`},
		{`{"properties":{"a/b":{"type":5}}}`, `#/properties/a~1b/type: there is no type 5`},
		{`{"properties":[]}`, "#/properties: want an object with a schema for each name"},
		{`{"not":{}}`, "#/not: the keyword not is not possible"},
		{`{"items":{"multipleOf":2}}`, "#/items/multipleOf: the keyword multipleOf is not possible"},
		{`{"uniqueItems":true}`, "#/uniqueItems: the keyword uniqueItems is not possible"},
		{`{"enum":[]}`, "#/enum: want a list of values"},
		{`{"anyOf":{}}`, "#/anyOf: want a list of schemas"},
		{`{"allOf":{}}`, "#/allOf: want a list of schemas"},
		{`{"required":"a"}`, `#/required: want a list of names, not "a"`},
		{`{"required":[1]}`, "#/required/0: want a name, not 1"},
		{`{"minLength":-1}`, "#/minLength: want a whole number, 0 or more, not -1"},
		{`{"minLength":"1"}`, `#/minLength: want a whole number, 0 or more, not "1"`},
		{`{"minItems":100001}`, "#/minItems: more than 100000 are not possible"},
		{`{"minimum":"1"}`, `#/minimum: want a number, not "1"`},
		{`{"minimum":1e99999999}`, "#/minimum: the number 1e99999999 has too many digits"},
		{`{"pattern":1}`, "#/pattern: want a string, not 1"},
		{`{"pattern":"a","minLength":2}`, "#/pattern: pattern is not possible beside minLength"},
		{`{"pattern":"a(?=b)"}`, `#/pattern: the pattern "a(?=b)", character 2: groups that begin with (?= are not possible`},
		{`{"pattern":"é\\b"}`, `character 2: the escape \b is not possible`},
		{`{"pattern":"(a"}`, "character 1: the ( has no )"},
		{`{"pattern":"a)"}`, "character 2: there is no ( for the )"},
		{`{"pattern":"a$b"}`, "character 2: $ is possible at the end alone"},
		{`{"pattern":"a^"}`, "character 2: ^ is possible at the beginning alone"},
		{`{"pattern":"(a$)"}`, "character 3: $ is possible at the end alone"},
		{`{"pattern":"*"}`, `character 1: nothing comes before *`},
		{`{"pattern":"a{2,1}"}`, "character 2: want {m}, {m,} or {m,n}"},
		{`{"pattern":"[b-a]"}`, "character 3: want the larger character after -"},
		{`{"pattern":"[a"}`, "character 1: the [ has no ]"},
		{`{"pattern":"[]"}`, "character 1: no character that JSON can write is in the set"},
		{`{"pattern":"\\p{L}"}`, `character 1: the escape \p is not possible`},
		{`{"pattern":"(a)\\1"}`, `character 4: the escape \1 is not possible`},
		{`{"pattern":"\\u12"}`, `character 1: want 4 hexadecimal digits of a character`},
		{`{"allOf":[{"pattern":"a"},{"pattern":"b"}]}`, "#/allOf/1/pattern: there is another pattern, at #/allOf/0/pattern"},
		{`{"type":"string","format":"email"}`, "#/format: the format email is not possible, only date, time, date-time and uuid"},
		{`{"$ref":"http://example.com"}`, `#/$ref: cannot follow "http://example.com"`},
		{`{"$ref":"#/$defs/x"}`, "#/$ref: there is no #/$defs/x in the schema"},
		{`{"$ref":"#"}`, "#: the schema refers to itself"},
		{`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, "#: the schema refers to itself"},
		{`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, "#: the value of # never ends"},
		{`{"oneOf":[{"type":"integer"},{"type":"number"}]}`, "#/oneOf: alternatives 0 and 1 are not told apart"},
		{`{"oneOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"type":"object","properties":{"a":{}}}]}`, "#/oneOf: alternatives 0 and 1 are not told apart"},
		{`{"type":"object","minProperties":1}`, "#: minProperties is not possible for more fields than properties names"},
		{`{"enum":[{}],"properties":{}}`, "#: keywords for fields are not possible beside enum"},
		{strings.Repeat(`{"items":`, 600) + `{}` + strings.Repeat(`}`, 600), "there are more than 500 values in each other"},
		{`{"allOf":[` + strings.Repeat(`{"anyOf":[{"minLength":1},{"maxLength":5}]},`, 25) + `{}]}`, "the schema is too large"},
	} {
		_, err := ParseSchema([]byte(c[0]))
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%.200s\n%v\nwant %s", c[0], err, c[1])
		}
	}
}

// Large schemas are grammars or errors within a moment.
func TestHostileSchemas(t *testing.T) {
	list := func(n int, each func(i int) string) string {
		var parts []string
		for i := range n {
			parts = append(parts, each(i))
		}
		return strings.Join(parts, ",")
	}
	number := func(i int) string { return fmt.Sprint(i) }
	name := func(i int) string { return fmt.Sprintf(`"n%d"`, i) }
	long := strings.Repeat("x", 100_000)
	for what, text := range map[string]string{
		"enum":                `{"enum":[` + list(40_000, number) + `]}`,
		"enums":               `{"allOf":[{"enum":[` + list(18_000, number) + `]},{"enum":[` + list(18_000, number) + `]}]}`,
		"allOf":               `{"allOf":[` + list(60_000, func(int) string { return `{}` }) + `]}`,
		"anyOf":               `{"anyOf":[` + list(20_000, func(int) string { return `true` }) + `]}`,
		"oneOf":               `{"oneOf":[` + list(10_000, func(i int) string { return fmt.Sprintf(`{"const":%d}`, i) }) + `]}`,
		"oneOf in oneOf":      `{"oneOf":[` + list(500, func(i int) string { return fmt.Sprintf(`{"oneOf":[%s]}`, list(20, func(int) string { return "{}" })) }) + `]}`,
		"required":            `{"required":[` + list(25_000, name) + `]}`,
		"properties":          `{"properties":{` + list(15_000, func(i int) string { return name(i) + `:true` }) + `},"additionalProperties":true}`,
		"properties twice":    `{"allOf":[{"properties":{` + list(7_000, func(i int) string { return name(i) + `:{}` }) + `}},{"properties":{` + list(7_000, func(i int) string { return name(i) + `:{}` }) + `}}]}`,
		"paths":               `{"enum":[{"` + long + `":[` + list(20_000, number) + `]}]}`,
		"prefixItems":         `{"prefixItems":[` + list(30_000, func(int) string { return `true` }) + `]}`,
		"choices":             `{"allOf":[` + list(1000, func(int) string { return `{"anyOf":[{"minimum":1},{"maxLength":2}]}` }) + `]}`,
		"names":               `{"properties":{` + list(2, func(i int) string { return fmt.Sprintf(`"%s%d":true`, long, i) }) + `},"additionalProperties":true}`,
		"numbers":             `{"prefixItems":[` + list(3000, func(i int) string { return fmt.Sprintf(`{"type":"number","minimum":%d.%d,"maximum":1e50}`, i, i) }) + `]}`,
		"a long wrong type":   `{"type":"` + long + `"}`,
		"a long pattern":      `{"pattern":"` + long + `{100000}"}`,
		"patterns in a group": `{"pattern":"` + strings.Repeat("(", 400) + "a" + strings.Repeat("{2}){2}", 400) + `"}`,
	} {
		began := time.Now()
		g, err := ParseSchema([]byte(text))
		if took := time.Since(began); took > 20*time.Second || g == nil && (err == nil || len(err.Error()) > 500_000) {
			t.Errorf("%s: %v", what, took)
		}
		t.Logf("%s, %d bytes: %v, %.150v", what, len(text), time.Since(began), err)
	}
}
