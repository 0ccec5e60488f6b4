package core_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
)

// text is a core of the user's own in JSON, like a built-in one.
func text(t testing.TB, like core.Core) string {
	like.Name = "my-core"
	data, err := like.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Every built-in core is read as it was printed.
func TestRoundTrip(t *testing.T) {
	for _, c := range targets.Cores() {
		got, err := core.Parse([]byte(text(t, c)))
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		want := c
		want.Name, want.Own = "my-core", true
		if len(got.CPUs) == 0 {
			got.CPUs = want.CPUs
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v\nwant %+v", c.Name, got, want)
		}
	}
}

// A file that is no core is an error of one line that names the field.
func TestParseRefused(t *testing.T) {
	good := text(t, targets.Cores()[0])
	for _, c := range []struct{ old, new, want string }{
		{`"version": 5`, `"version": 6`, "version is 6: this tmacc reads up to version 5: use a newer tmacc"},
		{`"version": 5`, `"version": 2`, "version is 2: want 5"},
		{`"version": 5`, `"version": 99, "later": 1`, "version is 99: this tmacc reads up to version 5"},
		{`"version": 5,`, ``, "version is missing: want 5, with the fields that tmacc cores -json NAME prints"},
		{`"version": 5`, `"version": "5"`, "version is JSON string; want an integer"},
		{`"fills": 16`, `"fills": 0`, "hierarchy.fills is 0: want 1 to 1024"},
		{`"shared": 33`, `"shared": 33, "follows": 5000`, "hierarchy.follows is 5000: want a power of two"},
		{`"shared": 33`, `"shared": 33, "follows": 512`, "hierarchy.follows is 512: want 1024 to 65536"},
		{`"shared": 33`, `"shared": 33, "follows": -4096`, "hierarchy.follows is -4096: want 1024 to 65536"},
		{`"shared": 33`, `"shared": 33, "follows": 131072`, "hierarchy.follows is 131072: want 1024 to 65536"},
		{`"shared": 33`, `"shared": 33, "follows": 4096.5`, "hierarchy.follows is JSON number 4096.5; want an integer"},
		{`"shared": 33`, `"shared": 33, "ahead": -1`, "hierarchy.ahead is -1: want 1 to 1024"},
		{`"shared": 33`, `"shared": 33, "ahead": 1025`, "hierarchy.ahead is 1025: want 1 to 1024"},
		{`"shared": 33`, `"shared": 33, "ahead": 99999999999999999999`, "hierarchy.ahead is JSON number 99999999999999999999; want an integer"},
		{`"shared": 33`, `"shared": 33, "trains": 1`, "hierarchy.trains is JSON number; want true or false"},
		{`"shared": 33`, `"shared": 33, "misses": 1`, "hierarchy.misses is JSON number; want true or false"},
		{`"shared": 33`, `"shared": 33, "trains": null`, "hierarchy.trains is JSON null; want true or false"},
		{`"shared": 33`, `"shared": -1`, "hierarchy.shared is -1: want 0.1 to 16384"},
		{`"first": 49152`, `"first": 1`, "hierarchy.first is 1: want 8192 to 1048576"},
		{`"latency": [ 15, `, `"latency": [ 0, `, "hierarchy.latency[0], of l2, is 0: want 1 to 16384"},
		{`"latency": [ 15, 200, 400 ]`, `"latency": [ 15, 200, 40 ]`, "hierarchy.latency[2], of dram, is 40: want at least the 200 of l3, which is nearer"},
		{`"latency": [ 15, 200, 400 ]`, `"latency": [ 15, 2, 400 ]`, "hierarchy.latency[1], of l3, is 2: want at least the 15 of l2, which is nearer"},
		{`"latency": [ 15, 200, 400 ]`, `"latency": [ 15, 200 ]`, "hierarchy.latency is a list of 2: want 3 values"},
		{`"my-core"`, `"My core"`, `name is "My core": want up to 40 small letters`},
		{`"my-core"`, `""`, `name is "": want`},
		{`"my-core"`, `"my--core"`, `name is "my--core": want`},
		{`"my-core"`, `"../core"`, `name is "../core": want`},
		{`"my-core"`, `"my-linux"`, `name is "my-linux": want one that does not end in "linux"`},
		{`"my-core"`, `"` + strings.Repeat("a", 41) + `"`, `want up to 40 small letters`},
		{`"cpus": []`, `"cpus": [{"vendor": ""}]`, `cpus[0].vendor is "": want 1 to 64 bytes`},
		{`"cpus": []`, `"cpus": [{"vendor": "x", "first_family": -1}]`, `cpus[0].first_family is -1: want 0 to`},
		{`"cpus": []`, `"cpus": [{"vendor": "x", "first_model": 7, "last_model": 6}]`, `cpus[0].last_model is 6: want 0, for no limit, or 7 to`},
		{`"cpus": []`, `"cpus": [null]`, `cpus[0] is JSON null; want an object`},
		{`"cpus": []`, `"cpus": [{"vendor": "x", "stepping": 1}]`, `unknown field "stepping" in cpus[0]; there are vendor, first_family, `},
		{`"alu": { "tenths": 3,`, `"alu": { "tenths": -3,`, `costs.alu.tenths is -3: want 1 to 10000`},
		{`"alu": { "tenths": 3,`, `"alu": { "tenths": 0,`, `costs.alu.tenths is 0: want 1 to 10000`},
		{`"alu": { "tenths": 3,`, `"alu": { "tenths": 1000000,`, `costs.alu.tenths is 1000000: want`},
		{`"alu": { "tenths": 3,`, `"alu": { "tenths": 2.5,`, `costs.alu.tenths is JSON number 2.5; want an integer`},
		{`"alu": { "tenths": 3,`, `"alu": { "tenths": NaN,`, `invalid character 'N'`},
		{`"alu": { "tenths": 3,`, `"alu": { "busy": [1, 2, 3, 4, 5], "tenths": 3,`, `costs.alu.busy has 5 numbers: want 1 to 4`},
		{`"alu": { "tenths": 3,`, `"alu": { "busy": [1, -2], "tenths": 3,`, `costs.alu.busy[1] is -2: want 0 to 10000`},
		{`"alu": { "tenths": 3,`, `"alu": { "cycles": 1, "tenths": 3,`, `unknown field "cycles" in costs.alu; there are tenths, busy, wide, wide_busy, latency, ports, wide_ports`},
		{`"alu": { "tenths": 3, "wide": 5,`, `"alu": { "tenths": 3, "wide_busy": [5],`, `costs.alu.wide is missing: want it with wide_busy`},
		{`"ports": "015", "wide_ports": "05"`, `"ports": "0!"`, `costs.alu.ports: "0!" has a port '!' that is no small letter or digit, or is there twice`},
		{`"ports": "015", "wide_ports": "05"`, `"ports": "015", "wide_ports": "00"`, `costs.alu.wide_ports: "00" has a port '0'`},
		{`"ports": "015", "wide_ports": "05"`, `"ports": "0+"`, `costs.alu.ports: "0+" has a micro-operation without ports`},
		{`"ports": "015", "wide_ports": "05"`, `"ports": "0*x"`, `costs.alu.ports: "0*x" has "x" cycles: want 1 to 100`},
		{`"ports": "015", "wide_ports": "05"`, `"ports": "0+0+0+0+0+0+0+0+0"`, `has more than 8 micro-operations`},
		{`"latency": 1, "ports": "015"`, `"latency": -1, "ports": "015"`, `costs.alu.latency is -1: want 0 to 200`},
		{`"width": 6`, `"width": 0`, `pipeline.width is 0: want 1 to 32`},
		{`"window": 512`, `"window": 5000`, `pipeline.window is 5000: want 1 to 4096`},
		{`"waiting": 97`, `"waiting": 0`, `pipeline.waiting is 0: want 1 to 4096`},
		{`"alu": { "tenths": 3,`, `"alu": { "tenths": "3",`, `costs.alu.tenths is JSON string; want an integer`},
		{`"alu": { "tenths": 3,`, `"a\nb": { "tenths": 0,`, `costs."a\nb".tenths is 0: want 1 to 10000`},
		{`"fills"`, `"filled"`, `unknown field "filled" in hierarchy; there are first, fills, holds, `},
		{`"pipeline"`, `"pipelines"`, `unknown field "pipelines"; there are version, `},
		{`"results": 280`, `"results": -1`, "pipeline.results is -1: want 0 to 4096"},
		{`"results": 280`, `"results": 4097`, "pipeline.results is 4097: want 0 to 4096"},
		{`"wide_results": 180`, `"wide_results": 281`, "pipeline.wide_results is 281: want at most the 280 of pipeline.results"},
		{`"closed": "1"`, `"closed": "1+5"`, `pipeline.closed: "1+5": want the letters of ports only, such as 15`},
		{`"closed": "1"`, `"closed": "1*2"`, `pipeline.closed: "1*2": want the letters of ports only`},
		{`"shared": 33`, `"shared": 3`, "hierarchy.shared is 3: want at least the 11.5 of hierarchy.several"},
		{`"scalar": "0156a"`, `"scalar": ""`, "pipeline.scalar is empty: want the ports"},
		{`"holds": false`, `"holds": null`, `hierarchy.holds is JSON null; want true or false`},
		{`"holds": false`, `"holds": 1`, `hierarchy.holds is JSON number; want true or false`},
		{`"holds": false`, `"fills": 1`, `field "fills" is there twice`},
		{good, `[]`, `the value is JSON array; want an object`},
		{good, `{`, `unexpected end of JSON input`},
		{good, `{"version": 5}`, `name is missing: want a text`},
		{good, `{"version": 5, "name": "x"}`, `isas is missing: want a list`},
		{good[strings.Index(good, `"isas": [`) : strings.Index(good, `]`)+1], `"isas": []`, `isas is empty: want instruction sets, see tmacc targets`},
	} {
		if !strings.Contains(good, c.old) {
			t.Fatalf("the core has no %s:\n%s", c.old, good)
		}
		_, err := core.Parse([]byte(strings.Replace(good, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %s", c.new, err, c.want)
		}
	}
}

// A file of the version before reads, and what it lacks is estimated. So does one of this version without the field.
func TestOlderFiles(t *testing.T) {
	like := targets.Cores()[0]
	like.Hierarchy.Shared = 0
	now := text(t, like)
	for _, file := range []string{now, strings.Replace(now, `"version": 5`, `"version": 4`, 1), strings.Replace(now, `"version": 5`, `"version": 3`, 1)} {
		c, err := core.Parse([]byte(file))
		if err != nil || c.Hierarchy.Share() != 4*like.Hierarchy.Several {
			t.Errorf("a share of %v cycles, want %v; %v", c.Hierarchy.Share(), 4*like.Hierarchy.Several, err)
		}
	}
	like.Hierarchy.Shared = 7
	if got := like.Hierarchy.Share(); got != 7 {
		t.Errorf("a share of %v cycles, want 7", got)
	}
}

// A file that lacks one of the fields that are printed is refused, except fields that may be left out, with the path of that field. A zero would be another
// core, for all other CPUs if `cpus` is missing.
func TestMissingFields(t *testing.T) {
	var whole map[string]any
	if err := json.Unmarshal([]byte(text(t, targets.Cores()[0])), &whole); err != nil {
		t.Fatal(err)
	}
	checked := 0
	var without func(path string, object map[string]any)
	without = func(path string, object map[string]any) {
		for name, value := range object {
			at := path + name
			if inside, ok := value.(map[string]any); ok && name != "costs" {
				without(at+".", inside)
			}
			delete(object, name)
			data, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := core.Parse(data); at == "hierarchy.shared" || at == "pipeline.results" || at == "pipeline.wide_results" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.HasPrefix(err.Error(), at+" is missing: want ") {
				t.Errorf("without %s: %v", at, err)
			}
			object[name] = value
			checked++
		}
	}
	without("", whole)
	if checked < 15 { // 7, 4 of the pipeline, 6 of the hierarchy
		t.Errorf("only %d fields were left out", checked)
	}
}

// No input makes Parse or the targets of a core panic, errors have one line, and an accepted core has the
// same text when it is printed and read again.
func FuzzParse(f *testing.F) {
	for _, c := range targets.Cores() {
		f.Add([]byte(text(f, c)))
	}
	f.Add([]byte(`{"version": 5, "name": "x", "isas": [""], "costs": {"": {}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := core.Parse(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		first, err := c.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := core.Parse(first)
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		if second, err := again.JSON(); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%v\n%s\nis read as\n%s", err, first, second)
		}
		if ts, err := targets.Tuned(c); err == nil && len(ts) != len(c.ISAs) {
			t.Errorf("%d targets of %v", len(ts), c.ISAs)
		}
	})
}
