package timing

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTimeInterleaves(t *testing.T) {
	var order []int
	fns := []func(){
		func() { order = append(order, 0); time.Sleep(time.Millisecond) },
		func() { order = append(order, 1); time.Sleep(time.Millisecond) },
	}
	// Sleeping threads lose their core: all samples are dropped, so all count.
	s := Time(Options{Rounds: 3, MinSample: time.Microsecond}, fns...)
	last := order[len(order)-6:]
	if !slices.Equal(last, []int{0, 1, 0, 1, 0, 1}) {
		t.Errorf("the last rounds called %v", last)
	}
	for i, x := range s {
		if x.Min < 1e6 || len(x.Rounds) < 3 || len(x.Alone) != len(x.Rounds) {
			t.Errorf("function %d: %+v", i, x)
		}
	}
}

func TestTimeCalibrates(t *testing.T) {
	n := 0
	s := calibrated(Work{Run: func() { n++ }}, Options{MinSample: 50 * time.Microsecond})
	if ns, _ := s.sample(); ns*float64(s.calls) < 10e3 || s.calls < 1000 {
		t.Errorf("a sample of an empty function is %d calls, %v ns", s.calls, ns*float64(s.calls))
	}
	if got := Time(Options{}); len(got) != 0 {
		t.Errorf("no functions: %v", got)
	}
}

func TestResultDrops(t *testing.T) {
	s := series{calls: 7, kept: []float64{10, 11, 12, 31}, stolen: []float64{9}}
	if got, want := s.result(), (Sample{Min: 10}); !reflect.DeepEqual(got, want) {
		t.Errorf("have %+v, want %+v", got, want)
	}
	s = series{calls: 1, stolen: []float64{9, 10}}
	if got, want := s.result(), (Sample{Min: 9}); !reflect.DeepEqual(got, want) {
		t.Errorf("have %+v, want %+v", got, want)
	}
}

func TestCycles(t *testing.T) {
	for _, c := range []struct {
		rounds, clock []float64
		want          float64
	}{
		{[]float64{100, 110}, []float64{4, 4}, 400},
		{[]float64{100, 110, 91, 90, 92}, []float64{4, 4, 4, 3.8, 3.8}, 360}, // 90 may have been by the clock before
		{[]float64{100, 110, 91, 92, 90}, []float64{4, 4, 4, 3.8, 3.8}, 342}, // the last was not
		{[]float64{90, 91}, []float64{4, 3.7}, 360},                          // the fastest, not that of the fewest cycles
		{[]float64{100, 90}, []float64{3.7, 4}, 360},                         // nor before a faster one
		{[]float64{100, 0, 98}, []float64{4, 0, 4}, 392},                     // 0 is a round that lost its core
		{[]float64{100, 90}, []float64{4, 0}, 360},                           // the round before had a clock
		{[]float64{100, 90, 90, 90}, []float64{4, 2, 2, 2}, 360},             // half a clock is none
		{[]float64{100, 90}, []float64{0, 0}, 0},
		{[]float64{0}, []float64{4}, 0},
		{nil, nil, 0},
	} {
		s := Sample{Rounds: c.rounds}
		for _, ns := range c.rounds {
			s.Alone = append(s.Alone, ns > 0)
		}
		if got := s.Cycles(c.clock); got != c.want {
			t.Errorf("%v ns by %v GHz: %v cycles, want %v", c.rounds, c.clock, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	if Median([]float64{3, 1, 2}) != 2 || Median([]float64{4, 1, 2, 3}) != 2.5 || !math.IsNaN(Median(nil)) {
		t.Error("the median is wrong")
	}
}

func TestCopies(t *testing.T) {
	data := []byte("a matrix that does not fill its cache lines, which are of 64 bytes")
	c, err := NewCopies(data, 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Len()*2*LineBytes <= 1000 {
		t.Errorf("%d copies", c.Len())
	}
	seen := map[*byte]bool{}
	for range c.Len() {
		b := c.Next()
		seen[&b[0]] = true
		if !bytes.Equal(b, data) || Address(b)%LineBytes != 0 {
			t.Errorf("copy at %#x is %q", Address(b), b)
		}
	}
	if len(seen) != c.Len() {
		t.Errorf("%d different copies of %d", len(seen), c.Len())
	}
	if b := c.Next(); !seen[&b[0]] {
		t.Error("no copy comes back")
	}
}

// TestBeside: copies of two things take turns in the same memory, and neither changes the other.
func TestBeside(t *testing.T) {
	one, two := bytes.Repeat([]byte{1}, 1000), bytes.Repeat([]byte{2}, 1200)
	c, err := NewSpacedCopies(one, 5000, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Beside(make([]byte, 1400)) != nil || c.Beside(make([]byte, 700)) != nil {
		t.Error("copies that are too long or too short lie between others")
	}
	b := c.Beside(two)
	if b == nil || b.Len() != c.Len() || !b.Lent() || c.Lent() || b.Beside(one) != nil || c.Beside(two) != nil {
		t.Fatal("no copies between others, or more than one")
	}
	for i := range 2 * c.Len() {
		x, y := c.Next(), b.Next()
		if !bytes.Equal(x, one) || !bytes.Equal(y, two) || Address(y)%LineBytes != 0 {
			t.Fatalf("copies %d are %v and %v", i, x, y)
		}
		if next := Address(x) + 1024; Address(y) != next {
			t.Errorf("copy %d at %#x, want %#x", i, Address(y), next)
		}
	}
	if b.Close() != nil || !bytes.Equal(c.Next(), one) {
		t.Error("closing the copies between others frees those")
	}
	if b = c.Beside(one); b == nil || !bytes.Equal(b.Next(), one) {
		t.Error("room that was freed is not")
	}
	tight, err := NewCopies(one, 5000, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tight.Close()
	if tight.Beside(one) != nil {
		t.Error("copies between those that have no room between them")
	}
	again, err := NewCopies(one, 10, b)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !bytes.Equal(b.Next(), one) || Address(again.Next()) == Address(b.Next()) {
		t.Error("lent memory is taken for new copies")
	}
}

func TestAllocate(t *testing.T) {
	for _, huge := range []bool{true, false} {
		m, err := Allocate(3<<20, huge)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Bytes) != 3<<20 || Address(m.Bytes)%LineBytes != 0 || bytes.IndexByte(m.Bytes, 0) >= 0 {
			t.Errorf("huge %v: %d bytes at %#x", huge, len(m.Bytes), Address(m.Bytes))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Allocate(0, false); err == nil {
		t.Error("no bytes are no error")
	}
	m := heap(100)
	if len(m.Bytes) != 100 || Address(m.Bytes)%LineBytes != 0 {
		t.Errorf("heap: %d bytes at %#x", len(m.Bytes), Address(m.Bytes))
	}
}

// Around each sample are Before and After, and nothing else is.
func TestTimeWork(t *testing.T) {
	var order []string
	log := func(s string) func() { return func() { order = append(order, s) } }
	s := TimeWork(Options{Rounds: 1, MinSample: 1}, Work{Run: log("run"), Before: log("before"), After: log("after")}, Work{Run: log("other")})
	if len(s) != 2 || len(order) == 0 {
		t.Fatalf("%v %v", s, order)
	}
	if a, b := s[0].Rounds, s[1].Rounds; len(a) == 0 || len(a) != len(b) || !(a[0] > 0) || !(b[0] > 0) {
		t.Errorf("rounds %v and %v: want a time of the first for both", a, b)
	}
	text := strings.Join(order, " ") + " "
	if rest := strings.NewReplacer("before run after ", "", "other ", "").Replace(text); rest != "" {
		t.Errorf("order %s", text)
	}
}

// What other functions have displaced from the caches is brought back before the clock starts, unless one call is a sample.
func TestSampleWarms(t *testing.T) {
	for calls, want := range map[int]int{1: 1, 2: 3, 10: 11} {
		n := 0
		s := series{Work: Work{Run: func() { n++ }}, calls: calls}
		if s.sample(); n != want {
			t.Errorf("a sample of %d calls made %d, want %d", calls, n, want)
		}
	}
}

// TestTimeStops: once Stop is closed, Time takes no further sample and returns nil.
func TestTimeStops(t *testing.T) {
	stop, calls := make(chan struct{}), 0
	out := Time(Options{Stop: stop, MinSample: 1}, func() {
		if calls++; calls == 3 {
			close(stop)
		}
	}, func() { calls += 1000 })
	if out != nil || calls >= 1000 {
		t.Errorf("%v after %d calls", out, calls)
	}
}

// TestActivations: all products of some activations have the same ones.
func TestActivations(t *testing.T) {
	x := activations(2, 100, Normal)
	if !slices.Equal(x, activations(2, 100, Normal)) {
		t.Error("the same product has other activations")
	}
	if slices.Equal(x[:100], x[100:]) || slices.Equal(x[:100], activations(1, 100, Normal)) {
		t.Error("two rows are equal")
	}
}
