package command

import (
	"maps"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
)

// intel is a machine that runs avx512 and avx2, and no other target.
func intel() timing.Host {
	return timing.Host{Arch: "amd64", CPU: "a CPU", Features: targets.Features(targets.ByName("avx512"))}
}

// -target is a list, whose order means nothing: the targets that programs try first are in front.
func TestTargetsOrder(t *testing.T) {
	const best = "amd64/avx512vbmi+zen5, amd64/avx512vbmi, amd64/avx2"
	for _, words := range []string{"avx512vbmi,avx2,zen5", "avx2,zen5,avx512vbmi", "zen5,avx512vbmi,avx2", "avx2,amd64/avx2,avx512vbmi,zen5,avx512vbmi"} {
		ts, err := new(cli).targetList(strings.Split(words, ","), nil)
		if err != nil || targeting.Names(ts) != best {
			t.Errorf("%s: %s, %v; want %s", words, targeting.Names(ts), err, best)
		}
	}
	all, err := new(cli).targetList([]string{"neon", allWord}, []string{allWord})
	if err != nil || len(all) != len(targets.All()) || all[len(all)-1].Machine().Name != "amd64/avx2" {
		t.Errorf("all: %s, %v", targeting.Names(all), err)
	}
	for words, want := range map[string]string{
		"all": "amd64/avx512, amd64/avx2", "avx2,all": "amd64/avx512, amd64/avx2", "avx2,host": "amd64/avx512, amd64/avx2", "avx2,avx2": "amd64/avx2",
	} {
		if ts, err := new(cli).finder().On(intel(), strings.Split(words, ","), nil); err != nil || targeting.Names(ts) != want {
			t.Errorf("%s: %s, %v; want %s", words, targeting.Names(ts), err, want)
		}
	}
	if _, err := new(cli).finder().On(intel(), []string{"zen2"}, nil); err == nil || err.Error() != "target amd64/avx2+zen2: the machine lacks that core: it is for CPUs of AuthenticAMD or HygonGenuine: it runs amd64/avx2, amd64/avx512" {
		t.Error(err)
	}
	if _, err := new(cli).finder().On(timing.Host{Arch: "riscv64", CPU: "a board"}, []string{allWord}, nil); err == nil || !strings.HasPrefix(err.Error(), "target all: a board runs none of amd64/avx2") {
		t.Error(err)
	}
}

// A package has the same bytes in whatever order its targets are named, in one list, in several flags or in a file. (gen
// is tested with every order.)
func TestTargetsPermuted(t *testing.T) {
	var first map[string]string
	for _, args := range []string{"-target avx512vbmi,avx2,dotprod", "-target dotprod,avx2,avx512vbmi", "-target avx2 -target avx512vbmi -target dotprod", ""} {
		config(t, "format: w8\nno-check: true\nmodule: none\ntarget: [dotprod, avx512vbmi, avx2]\n")
		ok(t, append([]string{"compile", "-q"}, strings.Fields(args)...)...)
		files := read(t, ".")
		if first == nil {
			first = files
		}
		if !maps.Equal(files, first) {
			t.Errorf("%q: other files than by another order", args)
		}
	}
	text := first["low_dispatch_amd64.go"]
	if vbmi, avx2 := strings.Index(text, `"amd64/avx512vbmi"`), strings.Index(text, `"amd64/avx2"`); vbmi < 0 || avx2 < vbmi {
		t.Errorf("targets are at %d and %d of the dispatch", vbmi, avx2)
	}
}

// A flag that takes one value is not given two, and says so; one that takes several collects the values of every use.
func TestRepeatedFlags(t *testing.T) {
	for _, r := range []refusal{
		{2, `compile: -model: takes one value, and is given two: "llama-2-7b" and "gpt"; see tmacc compile -h`, "compile -model llama-2-7b -model gpt"},
		{2, `compile: -output: takes one value, and is given two: "a" and "b"`, "compile -o a --output b"},
		{2, `compile: -max-k: takes one value, and is given two: "64" and "128"`, "compile -max-k 64 -max-k 128"},
		{2, `show: -target: takes one value, and is given two: "avx2" and "neon"`, "show -format w2 -target avx2 -target neon"},
		{2, `tune: -time: takes one value, and is given two: "1s" and "2s"`, "tune -time 1s -time 2s"},
		{2, `-target avx2,neon: want one target`, "show -format w2 -target avx2,neon"},
		{2, `-target all: want one target`, "compare -format w2 -near -target all"},
		{2, `-target avx2,avx512vbmi+zen5: want one target`, "compare -format w2 -near -target avx2,avx512vbmi+zen5"},
		{2, `-target: names no target: have host, all, amd64/avx2`, "compile -format w2 -target="},
		{2, `-target: names no target`, "bench -format w2 -target="},
	} {
		refused(t, r)
	}
	ok(t, "show", "-format", "w2", "-target", "avx2", "-target", "avx2", "-stage", "problem")
	out := ok(t, "compile", "-dry-run", "-format", "w2", "-target", "avx2", "-target", "neon")
	if !strings.Contains(out, " for arm64/neon, amd64/avx2\n") {
		t.Error(out)
	}
	out = ok(t, "show", "-format", "w2", "-target", "avx2", "-stage", "problem", "-stage", "expr")
	if !strings.Contains(out, "== problem") || !strings.Contains(out, "== expr") {
		t.Error(out)
	}
}
