package search

import (
	"encoding/json"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
)

// Mutations leave their arguments alone, can be written down and read again, and
// almost always change something.
func TestMutate(t *testing.T) {
	w, err := format.Lookup("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	p := ir.Problem{Weight: w}
	rng := rand.New(rand.NewSource(1))
	m, unchanged := amd64.ByName("avx2").Machine(), 0
	for range 2000 {
		a, b := Sample(rng, p, m).Trace(p), Sample(rng, p, m).Trace(p)
		if rng.Intn(10) == 0 {
			b = nil
		}
		before := a.String() + b.String()
		x := Mutate(rng, a, b)
		if a.String()+b.String() != before {
			t.Fatalf("an argument changed from\n%s\nto\n%s", before, a.String()+b.String())
		}
		if x.String() == a.String() {
			unchanged++
		}
		data, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		var read schedule.Trace
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !reflect.DeepEqual(read, x) {
			t.Fatalf("%v, read back %v", x, read)
		}
	}
	if unchanged > 500 {
		t.Errorf("%d of 2000 mutations change nothing", unchanged)
	}
	if m := Mutate(rng, nil, nil); len(m) != 0 {
		t.Errorf("a mutation of nothing is %v", m)
	}
}

// A factor moves between the levels of a loop: every split is legal, and the product of the levels stays.
func TestMutateFactor(t *testing.T) {
	trace := schedule.Trace{
		schedule.Split{Loop: "k", By: 48, Into: [2]string{"kt", "kc"}},
		schedule.Split{Loop: "kc", By: 16, Into: [2]string{"ks", "kk"}},
		schedule.Split{Loop: "kk", By: 4, Into: [2]string{"u", "kj"}},
	}
	rng := rand.New(rand.NewSource(1))
	found := map[[2]int]bool{}
	for range 1000 {
		m := &mutation{rng: rng, t: slices.Clone(trace)}
		m.factor()
		top, by, inner := m.t[0].(schedule.Split).By, m.t[1].(schedule.Split).By, m.t[2].(schedule.Split).By
		if top != 48 || 48%by != 0 || by%inner != 0 || by == 16 && inner == 4 {
			t.Fatalf("%v of %v", m.t, trace)
		}
		found[[2]int{by, inner}] = true
	}
	want := map[[2]int]bool{{4, 4}: true, {8, 4}: true, {12, 4}: true, {24, 4}: true, {48, 4}: true, {16, 1}: true, {16, 2}: true, {16, 8}: true, {16, 16}: true}
	if !maps.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	m := &mutation{rng: rng, t: slices.Clone(trace[:1])}
	if m.factor(); !reflect.DeepEqual(m.t, trace[:1]) {
		t.Errorf("%v: a loop of unknown length is split otherwise", m.t)
	}
}

// Runs of row vectors are a matter of the layout: blocks of a call may be parts of a run or several.
func TestRuns(t *testing.T) {
	machine := amd64.ByName("avx512").Machine()
	for _, name := range []string{"w4", "w4-g32"} {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		hashes := map[string]int{}
		for _, run := range []int{0, 4, 2, 1} {
			hash := ""
			for _, block := range []int{8, 4, 2, 1} {
				c := layoutChoice(p, machine, coding{})
				c.Rows, c.Block, c.Run, c.Cols, c.Cells = 8, block, run, 1, 2
				k, err := schedule.Compile(p, c.Trace(p))
				if err != nil {
					t.Fatalf("%s: runs of %d, blocks of %d: %v", name, run, block, err)
				}
				if h := k.Weights.Hash(); hash != "" && h != hash {
					t.Errorf("%s: runs of %d, blocks of %d: another layout than by blocks of 8", name, run, block)
				} else {
					hash = h
				}
			}
			hashes[hash]++
		}
		if len(hashes) != 4 {
			t.Errorf("%s: four lengths of runs are %d layouts", name, len(hashes))
		}
	}
}

// With `Rest` all tiles except the first are prefetched, so that the first tile's prefetches are missing.
func TestRestOfTiles(t *testing.T) {
	p, err := ir.Named("w4")
	if err != nil {
		t.Fatal(err)
	}
	target := amd64.ByName("avx512")
	count := func(s nest.Streams, tiles int) (n int) {
		c := layoutChoice(p, target.Machine(), coding{})
		c.Rows, c.Block, c.Cols, c.Tiles, c.Streams = 2, 2, 1, tiles, s
		k, err := schedule.Compile(p, c.Trace(p))
		if err != nil {
			t.Fatal(err)
		}
		code, err := lower.BuildOnce(t.Context(), target, k.Nest)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range code.Ops {
			if op.Kind == lower.MInstr && op.In.Op == vir.OpPrefetch {
				n++
			}
		}
		return n
	}
	all, rest := count(nest.Streams{Ahead: 1024}, 2), count(nest.Streams{Ahead: 1024, Rest: true}, 2)
	if all == 0 || 2*rest != all {
		t.Errorf("%d prefetches of two tiles, %d of the rest", all, rest)
	}
	if got := count(nest.Streams{Ahead: 1024, Rest: true}, 1); got != all/2 {
		t.Errorf("%d prefetches of one tile, which has no rest, want %d", got, all/2)
	}
	if got := count(nest.Streams{Rest: true}, 2); got != 0 {
		t.Errorf("%d prefetches without a distance", got)
	}
}

func TestMend(t *testing.T) {
	c := Choice{Rows: 6, Block: 4, Run: 4, Tiles: 2, Streams: nest.Streams{Ahead: 2048, Far: 1024, Every: true}}
	c.mend()
	if want := (Choice{Rows: 6, Block: 6, Tiles: 2, Streams: nest.Streams{Ahead: 2048}}); c != want {
		t.Errorf("have %+v", c)
	}
	if want := reflect.TypeFor[Choice]().NumField() - 1 + reflect.TypeFor[nest.Streams]().NumField(); len(decisions) != want {
		t.Errorf("%d decisions, want %d", len(decisions), want)
	}
}

// TestRelayout: what takes the layout of another choice reads its packed matrices and activations, however codes and what
// groups share are stored.
func TestRelayout(t *testing.T) {
	m := amd64.ByName("avx512vbmi").Machine()
	for _, name := range []string{"ternary", "w3", "w4-g32", "q4_k", "tq2_0"} {
		p := ir.Problem{Weight: lookup(t, name)}
		rng := rand.New(rand.NewSource(1))
		legal, heads := 0, 0
		for range 1000 {
			from := Sample(rng, p, m)
			c := Relayout(Sample(rng, p, m), from)
			want, err := schedule.Compile(p, from.Trace(p))
			if err != nil || from.Table != nil {
				continue
			}
			have, err := schedule.Compile(p, c.Trace(p))
			if err != nil {
				continue
			}
			legal++
			if from.Head > 0 {
				heads++
			}
			if have.Weights.Hash() != want.Weights.Hash() || from.Chunk > 0 && have.Chunk != want.Chunk {
				t.Fatalf("%s: %+v\nhas not the layout of\n%+v", name, c, from)
			}
		}
		if legal < 50 || name == "ternary" && heads < 5 {
			t.Errorf("%s: %d are legal, %d of them of codewords with heads", name, legal, heads)
		}
	}
}

// Near changes nothing except prefetches, also as a step of an edited trace.
func TestNear(t *testing.T) {
	w, err := format.Lookup("w4")
	if err != nil {
		t.Fatal(err)
	}
	p := ir.Problem{Weight: w}
	uses, err := defaultOf(p, amd64.ByName("zen5"))
	if err != nil {
		t.Fatal(err)
	}
	c := uses[0].Choice
	near := Near(c)
	rests := 0
	for _, x := range near {
		if x.Rest {
			rests++
		}
		same := x
		if same.Streams = c.Streams; same != c || x == c {
			t.Errorf("%+v is near %+v", x, c)
		}
		edited := slices.Insert(c.Trace(p), 0, schedule.Step(schedule.ScaleAt{Where: "end"}))
		if got := Prefetching(edited, x.Trace(p)); got.String() != slices.Insert(x.Trace(p), 0, schedule.Step(schedule.ScaleAt{Where: "end"})).String() {
			t.Errorf("an edited trace with other prefetches: %v", got)
		}
	}
	if len(near) < 20 || rests == 0 {
		t.Errorf("%d are near, %d leave a tile to the hardware", len(near), rests)
	}
}

// Orders are the other orders of the loops inside a cell and the other loops at which weights are kept, for the same packed matrix, and most have a kernel.
func TestOrders(t *testing.T) {
	p, target := ir.Problem{Weight: lookup(t, "w4-g128")}, amd64.ByName("zen4")
	uses, err := defaultOf(p, target)
	if err != nil {
		t.Fatal(err)
	}
	c := uses[0].Choice
	seen, kernels := map[string]bool{c.Trace(p).String(): true}, 0
	for _, x := range Orders(c) {
		if trace := x.Trace(p).String(); seen[trace] {
			t.Errorf("twice: %s", trace)
		} else {
			seen[trace] = true
		}
		if _, err := newDefaults(t.Context(), p, target).build(x); err == nil {
			kernels++
		}
	}
	if len(seen) != len(orders)+len(stages)-1 || kernels < len(seen)/2 {
		t.Errorf("%d orders, %d kernels", len(seen), kernels)
	}
}

// Rows share bytes where a group of 2 or 4 bits can be spelled out and costs say so, by default only on machines that like it, which decode before they multiply too.
func TestRowFields(t *testing.T) {
	for _, x := range []struct {
		format, target string
		fields         int // of a byte that are rows, where a search begins
		byDefault      int
		stage          string
	}{
		{"w4-g128", "zen4", 2, 2, "s"}, {"w2-g32", "zen4", 2, 2, "s"}, {"w4-g256", "zen4", 1, 1, "s"}, {"w2", "zen4", 1, 1, "s"},
		{"w8", "zen4", 1, 1, ""}, {"iq4nl", "zen4", 1, 1, ""},
		{"w4-g128", "zen5", 2, 1, ""}, {"w4-g128", "avx512vbmi", 2, 1, ""}, {"w2-g64", "avxvnni", 1, 1, ""},
	} {
		p, target := ir.Problem{Weight: lookup(t, x.format)}, amd64.ByName(x.target)
		uses, err := RowFieldUses(t.Context(), p, target)
		if err != nil {
			t.Fatal(err)
		}
		if have := uses[0].Choice.RowFields; have != x.fields {
			t.Errorf("%s on %s: a search begins with %d rows in a byte, want %d", x.format, x.target, have, x.fields)
		}
		if uses, err = defaultOf(p, target); err != nil {
			t.Fatal(err)
		}
		if c := uses[0].Choice; c.RowFields != x.byDefault || c.Stage != x.stage || c.RowFields > 1 && c.Serial {
			t.Errorf("%s on %s has %+v", x.format, x.target, c)
		}
	}
}

func lookup(t *testing.T, name string) format.Weight {
	w, err := format.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
