package defaults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/records"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/drawn"
)

func named(t testing.TB, name string) ir.Problem {
	t.Helper()
	p, err := ir.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keeping is a chooser with a folder, which says nothing.
func keeping(t testing.TB, dir string) *Chooser {
	t.Helper()
	c := &Chooser{Say: func(text string) { t.Error(text) }}
	c.Keep(dir)
	t.Cleanup(func() { c.Close() })
	return c
}

// texts are the traces of uses and the assembly of their kernels and of the preparation.
func texts(t *testing.T, p ir.Problem, target lower.Target, uses []search.Use) (out []string) {
	t.Helper()
	v, err := build.Variant(t.Context(), p, target, uses)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range uses {
		out = append(out, u.Trace.String())
	}
	f, err := target.File("main", v.Functions("")...)
	if err != nil {
		t.Fatal(err)
	}
	return append(out, string(f.Data))
}

// Kept schedules are the ones that the beam chooses, and make the same bytes.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	type product struct {
		format string
		target lower.Target
	}
	var all []product
	for _, name := range []string{"w1", "w2", "w4-g32", "w1-f32act", "q3_k", "cb2x4"} {
		for _, target := range targets.All() {
			all = append(all, product{name, target})
		}
	}
	for _, x := range drawn.Some(drawn.New(t), len(all)/2, all) {
		p, at := named(t, x.format), x.format+" on "+x.target.Machine().Name
		plain, err := beam.Product(t.Context(), p, x.target)
		if err != nil {
			t.Fatal(err)
		}
		want := texts(t, p, x.target, plain)
		for i := range 2 {
			c := keeping(t, dir)
			c.NoRecords = true
			chosen, err := c.Choose(t.Context(), p, x.target)
			if err != nil {
				t.Fatal(err)
			}
			uses := chosen.Uses
			if chosen.Kept != (i == 1) || uses[0].Prepare == nil {
				t.Errorf("%s, time %d: kept: %t, preparation: %v", at, i, chosen.Kept, uses[0].Prepare)
			}
			if have := texts(t, p, x.target, uses); !slices.Equal(have, want) {
				t.Errorf("%s, time %d:\n%q\nwant\n%q", at, i, have, want)
			}
			if fresh := uses[0].Kernel != nil; fresh != (i == 0) {
				t.Errorf("%s, time %d: chosen anew: %t", at, i, fresh)
			}
		}
	}
}

// With the folder, choosing and compiling lower only the kernels of the variant and its preparation.
func TestQuick(t *testing.T) {
	p, target := named(t, "w2"), targets.ByName("amd64/avx2")
	c := keeping(t, t.TempDir())
	c.NoRecords = true
	lowered := func() (more int64) {
		before := lower.Done()
		uses, err := c.Uses(t.Context(), p, target)
		if err == nil {
			_, err = build.Variant(t.Context(), p, target, uses)
		}
		if err != nil {
			t.Fatal(err)
		}
		return lower.Done().Since(before).Lowered - int64(len(uses)+1)
	}
	if cold, warm := lowered(), lowered(); warm != 0 || cold <= 0 {
		t.Errorf("%d more kernels with the folder, %d without", warm, cold)
	}
}

// fields calls do with each leaf of a value. A leaf of a map counts once commit was called.
func fields(v reflect.Value, path string, commit func(), do func(path string, leaf reflect.Value, commit func())) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fields(v.Field(i), path+"."+v.Type().Field(i).Name, commit, do)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		fields(v.Index(0), path, commit, do)
	case reflect.Array:
		for i := range v.Len() {
			fields(v.Index(i), fmt.Sprint(path, "[", i, "]"), commit, do)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			x := reflect.New(v.Type().Elem()).Elem()
			x.Set(v.MapIndex(k))
			fields(x, fmt.Sprint(path, "[", k, "]"), func() { v.SetMapIndex(k, x) }, do)
		}
	default:
		do(path, v, commit)
	}
}

// change makes another value of a leaf.
func change(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	default:
		return false
	}
	return true
}

// onCore is a target with another core.
type onCore struct {
	lower.Target
	core core.Core
}

func (x onCore) Machine() lower.Machine {
	m := x.Target.Machine()
	m.Core = x.core
	return m
}

// Another program, instruction set, problem or field of the core is another identity.
func TestIdentity(t *testing.T) {
	p, target := named(t, "w2"), targets.ByName("amd64/avx2")
	seen := map[string]string{}
	see := func(what string, id []byte) {
		if other, ok := seen[string(id)]; ok {
			t.Errorf("%s has the identity of %s", what, other)
		}
		seen[string(id)] = what
	}
	see("the usual", identity("a", p, target))
	see("another program", identity("b", p, target))
	see("another instruction set", identity("a", p, targets.ByName("amd64/avxvnni")))
	see("another core", identity("a", p, targets.ByName("zen2")))
	see("another format", identity("a", named(t, "w1"), target))
	k := p
	k.MaxK = 1 << 20
	see("another K", identity("a", k, target))
	g := p
	g.Act.Group = 32
	see("other groups", identity("a", g, target))
	levels := p
	levels.Weight.Levels = slices.Clone(p.Weight.Levels)
	levels.Weight.Levels[0]--
	see("other levels under its name", identity("a", levels, target))
	data, err := json.Marshal(target.Machine().Core)
	if err != nil {
		t.Fatal(err)
	}
	var own core.Core
	if err := json.Unmarshal(data, &own); err != nil {
		t.Fatal(err)
	}
	n := 0
	fields(reflect.ValueOf(&own).Elem(), "core", func() {}, func(path string, v reflect.Value, commit func()) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		if !change(v) {
			t.Errorf("%s: %v is nothing that this test can change", path, v.Kind())
		}
		n++
		commit()
		see(path, identity("a", p, onCore{target, own}))
		v.Set(old)
		commit()
	})
	if n < 50 {
		t.Errorf("only %d fields", n)
	}
}

// An entry that is damaged, or that is no list of schedules, is made again.
func TestDamaged(t *testing.T) {
	p, target := named(t, "w1"), targets.ByName("amd64/avx2")
	want, err := beam.Product(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := keeping(t, dir)
	c.NoRecords = true
	if _, err := c.Uses(t.Context(), p, target); err != nil {
		t.Fatal(err)
	}
	check := func(what string, anew bool) {
		t.Helper()
		uses, err := c.Uses(t.Context(), p, target)
		if err != nil || len(uses) != len(want) || uses[0].Trace.String() != want[0].Trace.String() || (uses[0].Kernel != nil) != anew {
			t.Errorf("%s: %d uses, %v", what, len(uses), err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("damaged", true)
	check("made again", false)
	for _, text := range []string{"[]", "[[]]", `[[{"cols":1,"trace":[{"nonsense":{}}]}]]`} {
		if err := errors.Join(c.keep.folder.Clear(), c.keep.folder.Put(identity(cache.ThisProgram(), p, target), []byte(text))); err != nil {
			t.Fatal(err)
		}
		check(text, true)
	}
}

// A folder that others can write, or that cannot be made, is not used, and that is said.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	c := &Chooser{NoRecords: true, Say: func(text string) { said = append(said, text) }}
	c.Keep(filepath.Join(file, "schedules"))
	defer c.Close()
	if uses, err := c.Uses(t.Context(), named(t, "w1"), targets.ByName("amd64/avx2")); err != nil || len(uses) == 0 {
		t.Error(uses, err)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "default schedules are not kept: cache: ") {
		t.Errorf("%q", said)
	}
}

// Many may choose at once, in one folder.
func TestAtOnce(t *testing.T) {
	p, target := named(t, "w1"), targets.ByName("amd64/avx2")
	dir := t.TempDir()
	var all sync.WaitGroup
	lines := make([]string, 4)
	for i := range lines {
		c := keeping(t, dir)
		all.Go(func() {
			uses, err := c.Uses(t.Context(), p, target)
			if lines[i] = fmt.Sprint(err); err == nil {
				lines[i] = uses[0].Trace.String()
			}
		})
	}
	all.Wait()
	for _, line := range lines {
		if line != lines[0] {
			t.Errorf("%s\n%s", line, lines[0])
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("%v", files)
	}
}

// An interrupt is an error, and keeps nothing.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	c := keeping(t, dir)
	if uses, err := c.Uses(ctx, named(t, "w1"), targets.ByName("amd64/avx2")); !errors.Is(err, context.Canceled) {
		t.Error(uses, err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 0 {
		t.Errorf("%v", files)
	}
}

// recorded is a record of this program, and its product and target.
func recorded(t *testing.T) (ir.Problem, lower.Target, *tune.Entry) {
	t.Helper()
	all, err := records.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		for _, e := range l.Entries {
			p := named(t, e.Product)
			p.Act.Group = e.ActGroup
			return p, targets.ByName(e.Target), &e
		}
	}
	t.Fatal("no records")
	return ir.Problem{}, nil, nil
}

// A record goes before the default, unless it is left out, or the core is a user's, or K is larger than what it is exact for.
func TestRecord(t *testing.T) {
	p, target, e := recorded(t)
	var c *Chooser
	x, err := c.Choose(t.Context(), p, target)
	if err != nil || x.Origin() != Record || x.Record.Problem != e.Problem || len(x.Uses) != len(e.Kernels) || x.Uses[0].Trace.String() != e.Kernels[0].Trace.String() {
		t.Errorf("%+v, %v", x.Record, err)
	}
	own := onCore{target, target.Machine().Core}
	own.core.Own = true
	if e := c.Record(p, own); e != nil {
		t.Errorf("a user's core has the record %+v", e)
	}
	large := p
	large.MaxK = format.MostK
	if e := c.Record(large, target); e != nil && overflows(large, e) {
		t.Error("a record that is not exact")
	}
	other := p
	other.Weight.Levels = slices.Clone(p.Weight.Levels)
	other.Weight.Levels[0]--
	if e := c.Record(other, target); e != nil {
		t.Error("the record of other levels")
	}
}

// A record that does not compile any more is not used, and that is said once. Nor is one that is left out.
func TestBrokenRecord(t *testing.T) {
	p, target, e := recorded(t)
	broken := *e
	broken.Kernels = slices.Clone(e.Kernels)
	broken.Kernels[0].Trace = broken.Kernels[0].Trace[:1]
	var said []string
	c := &Chooser{Say: func(text string) { said = append(said, text) }}
	c.Keep(t.TempDir())
	defer c.Close()
	var traces []string
	for range 2 {
		x, err := c.choose(t.Context(), p, target, &broken)
		if err != nil || x.Origin() != Default || len(x.Uses) == 0 {
			t.Fatalf("%+v, %v", x, err)
		}
		traces = append(traces, x.Uses[0].Trace.String())
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "a record is not used: "+p.Name()+" on "+target.Machine().Name) {
		t.Errorf("%q", said)
	}
	c.NoRecords = true
	x, err := c.Choose(t.Context(), p, target)
	if err != nil || x.Origin() != Default || x.Record != nil || x.Uses[0].Trace.String() != traces[0] || traces[1] != traces[0] {
		t.Errorf("%+v, %v", x.Record, err)
	}
}
