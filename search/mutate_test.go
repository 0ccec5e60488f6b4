package search

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
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
