package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/tests/check"
)

// shape is a product: m rows of k weights by n columns of activations.
type shape struct {
	M, K, N int
}

func (s shape) String() string { return fmt.Sprintf("%dx%d n=%d", s.M, s.K, s.N) }

// timed is a product of a schedule.
type timed struct {
	Problem  string    `json:"problem"`
	Name     string    `json:"name"`
	Shape    shape     `json:"shape"`
	Bytes    int64     `json:"bytes"` // of packed weights, scales included
	Ns       float64   `json:"ns"`    // by the device's clock, of one of many in a sequence, each after the one before it
	GBs      float64   `json:"gb_s"`
	Tops     float64   `json:"tops"`
	Copies   int       `json:"copies"`
	Share    float64   `json:"share"`               // of the read bandwidth, or of the best rate of matrices if n > 8
	Lanes    int       `json:"lanes"`               // of a workgroup
	Compile  float64   `json:"compile_s"`           // by the driver
	Checked  string    `json:"checked,omitempty"`   // what was compared with the definition at this shape, "" if only small ones were
	HostNs   float64   `json:"host_ns,omitempty"`   // by the host's clock, as the peer is timed: what each of many more takes
	BesideNs float64   `json:"beside_ns,omitempty"` // as Ns, of one of many beside each other: none waits for the one before it
	BurstNs  float64   `json:"burst_ns,omitempty"`  // as Ns, after a pause
	Series   []float64 `json:"series_ns,omitempty"` // as Ns, of runs 1, 2, 3, 5, 10, 20, 50, 100, 200 and 300 after a pause
	Trace    any       `json:"trace,omitempty"`     // of the best ones

	c   *candidate
	new bool // the search has drawn it
}

// slower is how many times as long as the best one a schedule may take at the first shape to be timed at others.
const slower, slowerByMany = 2.5, 1.6 // by one column, by many

// shapes are those that products are timed at.
func (x *lab) shapes(columns []int) (all []shape) {
	rows := [][2]int{{4096, 4096}, {4096, 14336}, {14336, 4096}, {16384, 16384}}
	if x.small {
		rows = [][2]int{{256, 512}}
	}
	for _, r := range rows {
		for _, n := range columns {
			if x.small {
				n = min(n, 16)
			}
			if n == 1 || r[0] <= 4096 || r[0] == 14336 {
				all = append(all, shape{r[0], r[1], n})
			}
		}
	}
	return all
}

// call runs a kernel once, as vir.Eval does: buffers of args are what it leaves.
func (x *lab) call(c *candidate, args []vir.Arg) error {
	b := &binding{x: x, c: c, args: args, own: map[int]*vulkan.Buffer{}}
	defer b.free()
	if err := b.upload(nil, 1); err != nil {
		return err
	}
	s, err := x.d.Record([]vulkan.Command{b.dispatch(vulkan.Range{}, 0)}, vulkan.RecordOptions{})
	if err != nil {
		return err
	}
	defer s.Free()
	if err := s.Run(); err != nil {
		return err
	}
	for _, i := range c.shader.Buffers {
		if len(args[i].Buf) > 0 {
			if err := b.own[i].Download(0, args[i].Buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// binding has the buffers of a call.
type binding struct {
	x    *lab
	c    *candidate
	args []vir.Arg
	own  map[int]*vulkan.Buffer // by parameter: all buffers except of weights that lie elsewhere
	sums *vulkan.Buffer         // zeros in which workgroups share sums: a place for each dispatch that may run beside others; nil: they share none
}

// firstPart is the parameter of the first part of weights.
const firstPart = 2

// behind is how many bytes a buffer has behind what a shader reads.
const behind = 16

// place is how many bytes a dispatch needs for the sums that its workgroups share, rounded up to where another may begin.
func (b *binding) place() int64 {
	if b.c.shader.Parts == 0 {
		return 0
	}
	words := int64(b.c.shader.Sums) + int64(b.c.shader.EachSums)*b.args[b.c.shader.Iterations].Int
	for _, count := range b.c.shader.Grid {
		words *= b.args[count].Int
	}
	unit := max(b.x.d.Limits.RangeAlignment, 4)
	return (4*words + unit - 1) / unit * unit
}

// upload makes buffers of all parameters, or of all but the weights' parts if elsewhere has them, and places for the sums of some dispatches.
func (b *binding) upload(elsewhere *vulkan.Buffer, dispatches int) error {
	if bytes := b.place() * int64(dispatches); bytes > 0 {
		var err error
		if b.sums, err = b.x.d.Buffer(bytes); err != nil {
			return err
		}
		for at := int64(0); at < bytes; at += 1 << 20 {
			if err := b.sums.Upload(at, make([]byte, min(1<<20, bytes-at))); err != nil {
				return err
			}
		}
	}
	for _, i := range b.c.shader.Buffers {
		if elsewhere != nil && i >= firstPart && i < firstPart+len(format.PartNames) {
			continue
		}
		buf, err := b.x.d.Buffer(int64(len(b.args[i].Buf)&^3 + behind))
		if err != nil {
			return err
		}
		b.own[i] = buf
		if len(b.args[i].Buf) == 0 {
			continue
		}
		if err := buf.Upload(0, b.args[i].Buf); err != nil {
			return err
		}
	}
	return nil
}

func (b *binding) free() {
	for _, buf := range b.own {
		buf.Free()
	}
	if b.sums != nil {
		b.sums.Free()
	}
}

// dispatch is the call, with weights in a range if they are not in buffers of their own. Its workgroups share sums in the place of that number.
func (b *binding) dispatch(weights vulkan.Range, number int) *vulkan.Dispatch {
	c := b.c
	d := &vulkan.Dispatch{Pipeline: c.pipeline}
	for _, i := range c.shader.Params {
		word := uint32(0)
		if c.params[i].Int {
			word = uint32(b.args[i].Int)
		} else if b.own[i] == nil {
			layout := c.kernel.Weights
			word = uint32(layout.Address(layout.Part(format.PartNames[i-firstPart]), 0, 0, 0))
		}
		d.Push = binary.LittleEndian.AppendUint32(d.Push, word)
	}
	for _, i := range c.shader.Buffers {
		r := weights
		if own := b.own[i]; own != nil {
			r = own.All()
		}
		d.Buffers = append(d.Buffers, r)
	}
	for i, count := range c.shader.Grid {
		d.Groups[i] = int(b.args[count].Int)
	}
	if b.sums != nil {
		d.Groups[len(c.shader.Grid)] = c.shader.Parts
		d.Buffers = append(d.Buffers, vulkan.Range{Buffer: b.sums, Offset: int64(number) * b.place(), Size: b.place()})
	}
	return d
}

// allProducts checks and times all schedules: of each problem in a process of its own, because a wrong one may lose the device.
func (x *lab) allProducts() error {
	problems := strings.Split(x.problems, ",")
	for i, name := range problems {
		left := time.Until(x.deadline)
		if left < time.Second || x.ctx.Err() != nil {
			return fmt.Errorf("the time was up before %s", strings.Join(problems[i:], ", "))
		}
		x.failed("products of "+name, x.process("products", left/time.Duration(len(problems)-i), "-problems", name))
	}
	return nil
}

// add adds a report, with the best products of both.
func (x *lab) add(r report) {
	x.Products, x.Refused, x.Errors = append(x.Products, r.Products...), append(x.Refused, r.Refused...), append(x.Errors, r.Errors...)
	x.Chosen, x.Prepared, x.Peer = append(x.Chosen, r.Chosen...), append(x.Prepared, r.Prepared...), append(x.Peer, r.Peer...)
	x.Ceilings, x.Speeds = cmp.Or(r.Ceilings, x.Ceilings), cmp.Or(r.Speeds, x.Speeds)
	for _, t := range r.Best {
		i := slices.IndexFunc(x.Best, func(o *timed) bool { return o.Problem == t.Problem && o.Shape == t.Shape })
		switch {
		case i < 0:
			x.Best = append(x.Best, t)
		case t.Ns < x.Best[i].Ns:
			x.Best[i] = t
		}
	}
	slices.SortStableFunc(x.Best, func(a, b *timed) int {
		return cmp.Or(cmp.Compare(a.Shape.N, b.Shape.N), cmp.Compare(b.Shape.M*b.Shape.K, a.Shape.M*a.Shape.K), cmp.Compare(a.Shape.M, b.Shape.M), cmp.Compare(a.Problem, b.Problem))
	})
	x.shares()
}

// products checks and times the schedules of the one problem.
func (x *lab) products() error {
	entries, err := x.schedules()
	if err != nil {
		return err
	}
	all := x.compileAll(entries)
	x.log("%d of %d schedules of %s are compiled and right", len(all), len(entries), x.problems)
	if len(all) == 0 {
		return fmt.Errorf("none of %d schedules runs and is right: the refused ones say why", len(entries))
	}
	bench, err := x.newBench()
	if err != nil {
		return err
	}
	defer bench.weights.Free()
	for _, s := range hardest(slices.Concat(x.shapes([]int{1}), x.shapes([]int{512}), x.shapes([]int{256}))) {
		x.failed(s.String(), caught(func() error {
			all = append(all, x.at(bench, all, s)...)
			return x.save()
		}))
	}
	return nil
}

// hardest is shapes, each once, the largest weights first: schedules that are found for these are tried at others.
func hardest(all []shape) []shape {
	slices.SortStableFunc(all, func(a, b shape) int { return cmp.Compare(b.M*b.K, a.M*a.K) })
	return slices.Compact(all)
}

// at times all schedules at a shape, and looks for more of products by one column, which it returns.
func (x *lab) at(b *bench, all []*candidate, s shape) (more []*candidate) {
	byProblem := x.timeAll(b, all, s)
	for _, name := range slices.Sorted(maps.Keys(byProblem)) {
		if s.N == 1 && x.improve > 0 && (s.K > 4096 || x.small) && !x.over() { // short rows get the schedules that were found for long ones
			found, err := x.searched(b, byProblem[name], s)
			x.failed(name+" "+s.String(), err)
			more = append(more, found...)
			byProblem[name] = append(byProblem[name], x.timeAll(b, found, s)[name]...)
		}
		x.finish(b, byProblem[name])
	}
	return more
}

// timeAll times schedules at a shape, by problem.
func (x *lab) timeAll(b *bench, all []*candidate, s shape) map[string][]*timed {
	byProblem, warm := map[string][]*timed{}, b.first()
	for _, c := range all {
		if s.N == 1 && c.kernel.Cols > 1 || s.N > 1 && (c.kernel.Cols == 1 || len(c.kernel.Nest.Grid) < 2) || c.slow || x.over() {
			continue
		}
		t, err := b.time(c, s, warm, 3)
		if warm = 0; err != nil {
			x.failed(c.Problem+" "+c.Name+" "+s.String(), err)
			continue
		}
		byProblem[c.Problem] = append(byProblem[c.Problem], t)
		x.Products = append(x.Products, t)
	}
	for _, all := range byProblem {
		sortByTime(all)
		for _, t := range all {
			t.c.slow = t.Ns > slower*all[0].Ns || s.N > 1 && t.Ns > slowerByMany*all[0].Ns
		}
	}
	return byProblem
}

// finalists is how many of the fastest products of a problem and a shape are timed longer.
const finalists = 6

// finish finds the best of the products of a problem and a shape: the fastest ones are timed again, and the best is checked.
func (x *lab) finish(b *bench, all []*timed) {
	sortByTime(all)
	all = all[:min(finalists, len(all))]
	key := all[0].Problem + " " + all[0].Shape.String()
	for _, t := range all {
		if !x.over() {
			x.failed(key, caught(func() error { return b.again(t) }))
		}
	}
	sortByTime(all)
	t := all[0]
	x.failed(key, caught(func() error { return b.confirm(t) }))
	t.Trace = t.c.Trace
	x.Best = append(x.Best, t)
	x.log("%s: %s %.0f ns, %.0f GB/s, %.1f TOPS, %.1f %%, %s", key, t.Name, t.Ns, t.GBs, t.Tops, 100*t.Share, t.Checked)
}

func sortByTime(all []*timed) {
	slices.SortFunc(all, func(a, b *timed) int { return cmp.Compare(a.Ns, b.Ns) })
}

// bench has the memory of timed products: random bytes in which copies of weights lie.
type bench struct {
	x       *lab
	weights *vulkan.Buffer
	nothing []byte                 // as long as any packed matrix
	cases   map[string]*check.Case // activations, by problem, k and n
	hot     bool                   // it has run
}

// total is how many bytes of copies products go through, at least four times the largest second-level caches of 2026.
const total = 512 << 20

func (x *lab) newBench() (*bench, error) {
	size := int64(1 << 30)
	if x.small {
		size = 1 << 20
	}
	w, err := x.d.Buffer(size)
	if err != nil {
		return nil, err
	}
	return &bench{x: x, weights: w, nothing: make([]byte, 512<<20), cases: map[string]*check.Case{}}, device.Fill(x.d, w)
}

// first is how long the first product runs before it is timed: the clock of a card is low after schedules have been compiled, and rises
// slowly.
func (b *bench) first() time.Duration {
	if b.hot || b.x.small {
		return 0
	}
	b.hot = true
	return 2 * time.Second
}

// rowsOf is the number of rows of a case: enough for one call of any kernel.
const rowsOf = 256

// activations are a case of random rows with the columns of a shape.
func (b *bench) activations(c *candidate, s shape) *check.Case {
	key := fmt.Sprint(c.Problem, s.K, s.N)
	if b.cases[key] == nil {
		b.cases[key] = check.New(rand.New(rand.NewSource(1)), c.problem, min(rowsOf, s.M), s.N, s.K, check.Uniform)
	}
	return b.cases[key]
}

// whole is a candidate's product of a shape: its call, and how many bytes its packed weights have.
func (b *bench) whole(c *candidate, s shape) (*binding, int64, error) {
	layout := c.kernel.Weights
	size := (s.M + layout.TileM - 1) / layout.TileM * layout.TileBytes(s.K)
	if size > len(b.nothing) {
		return nil, 0, fmt.Errorf("packed weights of %d bytes", size)
	}
	args, err := b.activations(c, s).Whole(c.kernel, b.nothing[:size], s.M)
	if err != nil {
		return nil, 0, err
	}
	return &binding{x: b.x, c: c, args: args, own: map[int]*vulkan.Buffer{}}, int64(size), nil
}

// time times a candidate at a shape, with random bytes as weights.
func (b *bench) time(c *candidate, s shape, warm time.Duration, rounds int) (*timed, error) {
	bind, size, err := b.whole(c, s)
	if err != nil {
		return nil, err
	}
	defer bind.free()
	commands, copies, err := b.commands(bind, size)
	if err != nil {
		return nil, err
	}
	ns, err := b.x.each(commands, warm, rounds)
	if err != nil {
		return nil, err
	}
	t := &timed{Problem: c.Problem, Name: c.Name, Shape: s, Bytes: size, Ns: ns, Copies: copies, Compile: c.took.Seconds(), c: c, Lanes: vir.Product(c.shader.Lanes)}
	t.figures()
	return t, nil
}

// figures are rates that follow from the time.
func (t *timed) figures() { t.GBs, t.Tops = t.Shape.rates(t.Bytes, t.Ns) }

// rates of a product that takes some ns and reads some bytes of weights.
func (s shape) rates(bytes int64, ns float64) (gbs, tops float64) {
	return float64(bytes) / ns, 2 * float64(s.M) * float64(s.K) * float64(s.N) / ns / 1e3
}

// shares compares all products with the ceilings of the whole run.
func (x *lab) shares() {
	for _, t := range slices.Concat(x.Products, x.Best) {
		t.Share = x.share(t.Shape, t.GBs, t.Tops)
	}
	for i := range x.Peer {
		p := &x.Peer[i]
		p.Share = x.share(p.Shape, p.GBs, p.Tops)
	}
}

// share is the part of the ceiling that bounds products of a shape: of reading by few columns, of matrices by many. It is 0 if that was not measured.
func (x *lab) share(s shape, gbs, tops float64) float64 {
	part, of := gbs, x.readPeak()
	if s.N > 8 {
		part, of = tops, x.matrixPeak()
	}
	if of == 0 {
		return 0
	}
	return part / of
}

// readPeak is the best rate of reading, copying, and of ggml's products.
func (x *lab) readPeak() (peak float64) {
	if c := x.Ceilings; c != nil {
		peak = max(c.Read.Best, c.Copy.Best)
	}
	for _, p := range x.Peer {
		if p.Shape.N == 1 {
			peak = max(peak, p.GBs)
		}
	}
	return peak
}

// matrixPeak is the best rate of cooperative matrices in registers, and of ggml's F16 products.
func (x *lab) matrixPeak() (peak float64) {
	if c := x.Ceilings; c != nil {
		peak = c.Dot.Best
		for _, r := range c.Matrices {
			peak = max(peak, r.Best)
		}
	}
	return max(peak, x.halves())
}

// commands are products of copies of the weights, one after the other. Each has a place for sums that its workgroups share, so that they may also run
// beside each other. It uploads what they read besides.
func (b *bench) commands(bind *binding, size int64) (all []vulkan.Command, copies int, err error) {
	const align = 256
	step := (size + behind + align - 1) / align * align
	most := int64(512)
	if bind.c.kernel.Cols > 1 { // it does not wait for memory
		most = 8
	}
	copies = int(max(1, min(b.weights.Size()/step, max(8, total/step), most)))
	if err := bind.upload(b.weights, copies); err != nil {
		return nil, 0, err
	}
	for i := range copies {
		r := vulkan.Range{Buffer: b.weights, Offset: int64(i) * step, Size: min(size+behind, b.weights.Size()-int64(i)*step)}
		all = append(all, bind.dispatch(r, i))
	}
	return all, copies, nil
}

// each is the median time in ns of a command, of all of them together, after they have run for some time.
func (x *lab) each(commands []vulkan.Command, warm time.Duration, rounds int) (float64, error) {
	times, err := device.Series(x.d, commands, warm, rounds)
	if err != nil {
		return 0, err
	}
	slices.Sort(times)
	return float64(max(times[len(times)/2], 1)) / float64(len(commands)), nil
}

// again times a product longer.
func (b *bench) again(t *timed) error {
	n, err := b.time(t.c, t.Shape, b.x.warm(), 15)
	if err != nil {
		return err
	}
	t.BurstNs, t.Ns, t.GBs, t.Tops, t.Share = t.Ns, n.Ns, n.GBs, n.Tops, n.Share
	return nil
}

// warm is how long products of the fastest schedules run before they are timed.
func (x *lab) warm() time.Duration {
	if x.small {
		return 0
	}
	return 50 * time.Millisecond
}

// confirm compares a product of real weights with the definition, and times it by the host's clock.
func (b *bench) confirm(t *timed) error {
	bind, size, err := b.whole(t.c, t.Shape)
	if err != nil {
		return err
	}
	defer bind.free()
	commands, _, err := b.commands(bind, size)
	if err != nil {
		return err
	}
	if err := b.compare(bind, t); err != nil {
		return err
	}
	var beside []vulkan.Command
	for i := range commands {
		d := *commands[i].(*vulkan.Dispatch)
		d.Beside = true
		beside = append(beside, &d)
	}
	if t.BesideNs, err = b.x.each(beside, b.x.warm(), 15); err != nil {
		return err
	}
	if t.HostNs, err = b.x.hosted(commands); err != nil || t.Shape.N > 1 || t.Shape.M < 16384 {
		return err
	}
	series, err := device.Series(b.x.d, commands, 0, 300)
	for i, took := range series {
		if slices.Contains([]int{0, 1, 2, 4, 9, 19, 49, 99, 199, 299}, i) {
			t.Series = append(t.Series, float64(took)/float64(len(commands)))
		}
	}
	return err
}

// compare multiplies weights whose rows repeat, and compares all rows of some columns with the definition.
func (b *bench) compare(bind *binding, t *timed) error {
	c, k := bind.c, bind.c.kernel
	some := *b.activations(c, t.Shape)
	unit := k.Weights.TileM
	some.M = max(1, min(rowsOf, t.Shape.M)/unit) * unit
	all := check.New(rand.New(rand.NewSource(2)), c.problem, some.M, 1, some.K, check.Uniform)
	some.Source = all.Source
	packed, err := format.Pack(c.problem.Weight, k.Weights, some.M, some.K, some.Source)
	if err != nil {
		return err
	}
	tiles := (t.Shape.M + unit - 1) / unit * k.Weights.TileBytes(some.K)
	full := bytes.Repeat(packed, (tiles+len(packed)-1)/len(packed))[:tiles]
	w, err := b.x.d.Buffer(int64(len(full)&^3 + behind))
	if err != nil {
		return err
	}
	defer w.Free()
	if err := w.Upload(0, full); err != nil {
		return err
	}
	if _, err := b.x.each([]vulkan.Command{bind.dispatch(w.All(), 0)}, 0, 1); err != nil {
		return err
	}
	out := make([]byte, len(bind.args[0].Buf))
	if err := bind.own[0].Download(0, out); err != nil {
		return err
	}
	columns := []int{0, some.N / 3, some.N - 1}
	for _, n := range slices.Compact(columns) {
		one := some
		one.N, one.Act, one.Scale = 1, some.Act[n:n+1], some.Scale[n:n+1]
		want, column := one.Naive(), some.Column(k, out, t.Shape.M, n)
		for m := range t.Shape.M {
			have, wants := binary.LittleEndian.Uint32(column[4*m:]), math.Float32bits(want[m%some.M])
			if have != wants && k.Exact() {
				t.Checked = "WRONG"
				return fmt.Errorf("%s %s %v: column %d row %d: %08x, want %08x", t.Problem, t.Name, t.Shape, n, m, have, wants)
			}
		}
	}
	t.Checked = fmt.Sprintf("all %d rows of columns %v", t.Shape.M, slices.Compact(columns))
	return nil
}

// hosted is what each of commands takes by the host's clock: sequences of all of them and of a quarter of them are compared.
func (x *lab) hosted(commands []vulkan.Command) (float64, error) {
	for !x.small && len(commands) < 64 {
		commands = append(commands, slices.Clone(commands)...)
	}
	few := commands[:max(1, len(commands)/4)]
	if len(few) == len(commands) {
		return 0, nil
	}
	var times [2][]time.Duration
	for i, some := range [][]vulkan.Command{few, commands} {
		s, err := x.d.Record(some, vulkan.RecordOptions{})
		if err != nil {
			return 0, err
		}
		defer s.Free()
		for range 11 {
			began := time.Now()
			if err := s.Run(); err != nil {
				return 0, err
			}
			times[i] = append(times[i], time.Since(began))
		}
		slices.Sort(times[i])
	}
	return float64(times[1][5]-times[0][5]) / float64(len(commands)-len(few)), nil
}
