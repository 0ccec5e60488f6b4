package vir

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// A plain list of all accesses, which is held against the few that Eval remembers.
type history struct {
	byByte map[[2]int][]access // by buffer and byte
	stores map[[2]int][]bool
}

// add says whether an access races with one before it. box is a shared buffer.
func (h *history) add(box bool, buf, at int, me access, store bool) (race bool) {
	key, known := [2]int{buf, at}, false
	for i, a := range h.byByte[key] {
		other := h.stores[key][i]
		known = known || other
		unordered := a.group != me.group || a.epoch == me.epoch && a.lane != me.lane
		race = race || unordered && (store || other)
	}
	h.byByte[key] = append(h.byByte[key], me)
	h.stores[key] = append(h.stores[key], store)
	return race || box && !store && !known
}

// touch is an instruction of lanes: an access to a word, or a barrier.
type touch struct {
	barrier, store  bool
	buf             int
	off, l0, l1, l2 int
}

func (x touch) line(i int, inner bool) string {
	if x.barrier {
		return "barrier\n"
	}
	at := fmt.Sprintf("%s+%d l0*%d l1*%d", []string{"a", "b", "box"}[x.buf], x.off, x.l0, x.l1)
	at = strings.NewReplacer(" l0*0", "", " l1*0", "").Replace(at)
	if inner && x.l2 != 0 {
		at += fmt.Sprintf(" l2*%d", x.l2)
	}
	if x.store {
		return "store " + at + " v0\n"
	}
	return fmt.Sprintf("v%d:i32x1 = load %s\n", i+1, at)
}

// planted is a random function of two workgroups of six lanes: text, and whether it has a race. Its second half may be a loop of two iterations.
func planted(rng *rand.Rand) (text string, race bool) {
	var all []touch
	for range 2 + rng.Intn(6) {
		all = append(all, touch{barrier: rng.Intn(4) == 0, store: rng.Intn(2) == 0, buf: rng.Intn(3), off: 4 * rng.Intn(3),
			l0: 4 * rng.Intn(7), l1: 4 * rng.Intn(3), l2: 4 * rng.Intn(3)})
	}
	moved := rng.Intn(2) // how many pointers move from group to group
	half, trips := len(all)/2, 1+rng.Intn(2)
	var b strings.Builder
	fmt.Fprintf(&b, "func f(a ptr, b ptr, n int, by int, box shared 128)\n%s\nloop l0 2 lane\nloop l1 3 lane\nv0:i32x1 = splat 1\n", []string{"groups n", "groups n a+by"}[moved])
	for i, x := range all {
		if i == half {
			fmt.Fprintf(&b, "loop l2 %d\n", trips)
		}
		b.WriteString(x.line(i, i >= half))
	}
	b.WriteString("end\nend\nend\n")
	return b.String(), hasRace(all, half, trips, moved)
}

// hasRace simulates what Eval does, lanes one after the other in each instruction.
func hasRace(all []touch, half, trips, moved int) (race bool) {
	h := &history{map[[2]int][]access{}, map[[2]int][]bool{}}
	epoch := 0
	do := func(group, it int, x touch, inner bool) {
		if x.barrier {
			epoch++
			return
		}
		for lane := range 6 {
			at, buf := x.off+lane/3*x.l0+lane%3*x.l1, x.buf
			if inner {
				at += it * x.l2
			}
			if buf == 0 {
				at += group * moved * 32
			}
			if buf == 2 {
				buf += group // each has its own
			}
			for i := range 4 {
				race = h.add(x.buf == 2, buf, at+i, access{group, lane, epoch}, x.store) || race
			}
		}
	}
	for group := range 2 {
		for _, x := range all[:half] {
			do(group, 0, x, false)
		}
		for it := range trips {
			for _, x := range all[half:] {
				do(group, it, x, true)
			}
		}
	}
	return race
}

// TestPlantedRaces: Eval finds every race of random functions, and no others.
func TestPlantedRaces(t *testing.T) {
	count := map[bool]int{}
	for seed := range int64(2000) {
		text, want := planted(rand.New(rand.NewSource(seed)))
		f, err := Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		err = Eval(f, []Arg{{Buf: make([]byte, 128)}, {Buf: make([]byte, 128)}, {Int: 2}, {Int: 32}})
		if (err != nil) != want {
			t.Fatalf("seed %d: %v, want a race: %v\n%s", seed, err, want, text)
		}
		count[want]++
	}
	if count[true] < 200 || count[false] < 200 {
		t.Errorf("%v functions with races", count)
	}
}
