// Package device measures what a Vulkan device can do at most: how fast it copies and reads memory, computes dot products and
// products of matrices in registers, and starts shaders. Products are held against that.
package device

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tmacc/tmacc/runtime/vulkan"
)

// Ceilings are the best rates of a device, each the best of several shaders by their median times.
type Ceilings struct {
	Copy     Rate   `json:"copy"`      // GB/s, bytes read and bytes written
	Read     Rate   `json:"read"`      // GB/s
	Dot      Rate   `json:"dot"`       // tera-operations/s of sums of four products of bytes: eight operations each
	Multiply Rate   `json:"multiply"`  // tera-operations/s of products and sums of words
	Matrices []Rate `json:"matrices"`  // tera-operations/s, by kind of cooperative matrices: s8*s8+s32
	LaunchNs Launch `json:"launch_ns"` //
	Parts    []Part `json:"parts"`
}

// Part is how fast a shader reads a part of memory that no cache has, as one of many in a sequence, each after the one before it. No
// product reads its weights faster.
type Part struct {
	Bytes int64   `json:"bytes"`
	GBs   float64 `json:"gb_s"`
	By    string  `json:"by"`
}

// Rate is the best of several shaders.
type Rate struct {
	Kind  string  `json:"kind,omitempty"` // of matrices
	Best  float64 `json:"best"`
	By    string  `json:"by"`            // what the best one does
	All   []Shown `json:"all,omitempty"` // the fastest first
	Error string  `json:"error,omitempty"`
}

// Shown is the rate of one shader.
type Shown struct {
	By   string  `json:"by"`
	Rate float64 `json:"rate"`
}

// Launch is how long a shader takes that ends at once: started alone by the host, which waits, and as one of many in a sequence, each
// after the one before it or beside it.
type Launch struct{ Alone, After, Beside float64 }

// Options say how large and how long measurements are. The zero value has those for a card.
type Options struct {
	Bytes  int64         // of the memory that is read or copied, several times the device's caches: 1 GiB
	Groups int           // workgroups of arithmetic: 4096
	Steps  int           // iterations of arithmetic: 256
	Rounds int           // runs of each shader: 9
	Warm   time.Duration // how long it runs before: 30 ms, or as Rounds says if that is not 0
}

func (o Options) full(d *vulkan.Device) Options {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	if o.Bytes == 0 {
		o.Bytes = 1 << 30
	}
	o.Bytes = min(o.Bytes, d.Limits.Range) / chunk * chunk
	set(&o.Groups, 4096)
	set(&o.Steps, 256)
	if o.Warm == 0 && o.Rounds == 0 {
		o.Warm = warm
	}
	set(&o.Rounds, 9)
	return o
}

// chunk divides the number of bytes that shaders read or copy.
const chunk = 16 << 20

// candidate is a shader to be measured.
type candidate struct {
	by       string
	code     []byte
	layout   vulkan.Layout
	buffers  []vulkan.Range
	groups   int
	push     []byte
	work     float64 // operations or bytes
	pipeline *vulkan.Pipeline
}

// Measure measures the ceilings of d. What cannot be measured has an Error in its Rate; others are there nevertheless.
func Measure(d *vulkan.Device, o Options) (c Ceilings, err error) {
	o = o.full(d)
	m := &measurement{d: d, o: o}
	defer m.free()
	if err := m.memory(); err != nil {
		return c, err
	}
	c.Copy = m.best("", 1e9, m.copies())
	if r, err := m.copyCommand(); err == nil && r.Rate > c.Copy.Best {
		c.Copy.Best, c.Copy.By = r.Rate, r.By
	}
	c.Read = m.best("", 1e9, m.reads())
	c.Dot, c.Multiply = m.best("", 1e12, m.arithmetic(true)), m.best("", 1e12, m.arithmetic(false))
	c.LaunchNs, err = m.launch()
	for bytes := int64(2 << 20); bytes <= m.o.Bytes/4; bytes *= 2 {
		c.Parts = append(c.Parts, m.part(bytes))
	}
	for _, kind := range kinds(d) {
		c.Matrices = append(c.Matrices, m.best(kind, 1e12, m.multiplied(kind)))
	}
	return c, err
}

// measurement has the memory of measurements.
type measurement struct {
	d        *vulkan.Device
	o        Options
	from, to *vulkan.Buffer
}

// memory makes two buffers, and fills one with random words.
func (m *measurement) memory() (err error) {
	if m.from, err = m.d.Buffer(m.o.Bytes); err != nil {
		return err
	}
	if m.to, err = m.d.Buffer(m.o.Bytes); err != nil {
		return err
	}
	return Fill(m.d, m.from)
}

// Fill fills a buffer with random bytes.
func Fill(d *vulkan.Device, b *vulkan.Buffer) error {
	data := make([]byte, min(chunk, b.Size()))
	rand.NewChaCha8([32]byte{1}).Read(data)
	if err := b.Upload(0, data); err != nil {
		return err
	}
	for done := int64(len(data)); done < b.Size(); {
		n := min(done, b.Size()-done)
		s, err := d.Record([]vulkan.Command{&vulkan.Copy{To: vulkan.Range{Buffer: b, Offset: done, Size: n}, From: vulkan.Range{Buffer: b, Size: n}}}, vulkan.RecordOptions{})
		if err != nil {
			return err
		}
		defer s.Free()
		if err := s.Run(); err != nil {
			return err
		}
		done += n
	}
	return nil
}

func (m *measurement) free() {
	for _, b := range []*vulkan.Buffer{m.from, m.to} {
		if b != nil {
			b.Free()
		}
	}
}

// launch measures shaders that do nothing.
func (m *measurement) launch() (l Launch, err error) {
	p, err := m.d.Pipeline(nothing(), vulkan.Layout{})
	if err != nil {
		return l, err
	}
	defer p.Free()
	const many = 1000
	for _, x := range []struct {
		n      int
		beside bool
		to     *float64
	}{{1, false, &l.Alone}, {many, false, &l.After}, {many, true, &l.Beside}} {
		var commands []vulkan.Command
		for range x.n {
			commands = append(commands, &vulkan.Dispatch{Pipeline: p, Beside: x.beside})
		}
		took, err := m.walled(commands)
		if err != nil {
			return l, err
		}
		*x.to = float64(took.Nanoseconds()) / float64(x.n)
	}
	return l, nil
}

// walled is the median time of a sequence by the host's clock, from its start to the end of waiting.
func (m *measurement) walled(commands []vulkan.Command) (time.Duration, error) {
	s, err := m.d.Record(commands, vulkan.RecordOptions{})
	if err != nil {
		return 0, err
	}
	defer s.Free()
	var times []time.Duration
	for range 4 * m.o.Rounds {
		began := time.Now()
		if err := s.Run(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	return median(times), nil
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}

// shapes of shaders that go through memory: lanes of a workgroup, loads of a lane under way, and iterations.
var lanes, loads, iterations = []int{128, 256, 512, 1024}, []int{1, 4, 8}, []int{1, 4, 16}

// reads are shaders that read all memory.
func (m *measurement) reads() []candidate { return m.throughs(false) }

// copies are shaders that copy all memory.
func (m *measurement) copies() []candidate { return m.throughs(true) }

func (m *measurement) throughs(copies bool) (all []candidate) {
	for _, local := range lanes {
		if local > m.d.Limits.Invocations {
			continue
		}
		for _, n := range loads {
			code := through(local, n, copies)
			for _, times := range iterations {
				each := int64(local * n * times * 4 * wide) // bytes of a workgroup
				groups := m.o.Bytes / each
				if groups > int64(m.d.Limits.Groups[0]) {
					continue
				}
				work := float64(groups * each)
				if copies {
					work *= 2
				}
				all = append(all, candidate{by: fmt.Sprintf("%d lanes, %d loads of 16 bytes, %d times", local, n, times), code: code,
					layout: vulkan.Layout{Buffers: 2, PushBytes: 4}, buffers: []vulkan.Range{m.from.All(), m.to.All()},
					groups: int(groups), push: words(times), work: work})
			}
		}
	}
	return all
}

// part is the best rate of shaders that read parts of memory of some bytes.
func (m *measurement) part(bytes int64) (best Part) {
	best.Bytes = bytes
	small := *m
	small.o.Bytes = bytes
	all := small.reads()
	var failed []error
	m.compile(all, &failed)
	for _, c := range all {
		if c.pipeline == nil {
			continue
		}
		var commands []vulkan.Command
		for at := int64(0); at < min(m.o.Bytes, 512*bytes); at += bytes {
			buffers := []vulkan.Range{{Buffer: m.from, Offset: at, Size: bytes}, m.to.All()}
			commands = append(commands, &vulkan.Dispatch{Pipeline: c.pipeline, Groups: [3]int{c.groups}, Buffers: buffers, Push: c.push})
		}
		took, err := m.timed(commands...)
		c.pipeline.Free()
		if rate := c.work * float64(len(commands)) / took.Seconds() / 1e9; err == nil && rate > best.GBs {
			best.GBs, best.By = rate, c.by
		}
	}
	return best
}

// copyCommand is the rate of the device's own copies.
func (m *measurement) copyCommand() (Shown, error) {
	took, err := m.timed(&vulkan.Copy{To: m.to.All(), From: m.from.All()})
	return Shown{"the command that copies", 2 * float64(m.o.Bytes) / took.Seconds() / 1e9}, err
}

// arithmetic are shaders of dot products in registers, or of products of words.
func (m *measurement) arithmetic(packed bool) (all []candidate) {
	for _, local := range []int{128, 256} {
		for _, chains := range []int{4, 8, 16} {
			all = append(all, m.chains(local, chains, packed))
		}
	}
	return all
}

// chains is a shader of some chains of dot products or of products of words.
func (m *measurement) chains(local, chains int, packed bool) candidate {
	each := 2
	if packed {
		each = 8
	}
	return candidate{by: fmt.Sprintf("%d lanes, %d chains", local, chains), code: dots(local, chains, packed),
		layout: vulkan.Layout{Buffers: 1, PushBytes: 4}, buffers: []vulkan.Range{m.to.All()}, groups: m.o.Groups, push: words(m.o.Steps),
		work: float64(each*chains*chained*local) * float64(m.o.Groups*m.o.Steps)}
}

// kind names what cooperative matrices multiply and sum.
func kind(c vulkan.Cooperative) string { return c.A + "*" + c.B + "+" + c.C }

// measured says whether matrices of a shape are measured: of a subgroup, of known types, and with a result of the type of the sum.
func measured(c vulkan.Cooperative) bool {
	_, a := components[c.A]
	_, b := components[c.B]
	_, s := components[c.C]
	return a && b && s && c.Result == c.C && !c.Saturating && c.Scope == 3
}

// kinds are the kinds of cooperative matrices of d that are measured.
func kinds(d *vulkan.Device) (all []string) {
	for _, c := range d.Cooperative {
		if measured(c) && !slices.Contains(all, kind(c)) {
			all = append(all, kind(c))
		}
	}
	return all
}

// multiplied are shaders of cooperative matrices of a kind in registers.
func (m *measurement) multiplied(of string) (all []candidate) {
	for _, c := range m.d.Cooperative {
		if !measured(c) || kind(c) != of {
			continue
		}
		for _, t := range []tile{{1, 4}, {2, 2}, {2, 4}, {4, 4}} {
			for _, subgroups := range []int{4, 8} {
				local := subgroups * m.d.Subgroup.Size
				all = append(all, candidate{by: fmt.Sprintf("%dx%dx%d, %d by %d in each of %d subgroups", c.M, c.N, c.K, t.a, t.b, subgroups),
					code: matrices(c, local, t), layout: vulkan.Layout{Buffers: 2, PushBytes: 4, Subgroup: m.subgroup(), FullSubgroups: m.d.Features.FullSubgroups},
					buffers: []vulkan.Range{m.from.All(), m.to.All()}, groups: m.o.Groups / 4, push: words(m.o.Steps),
					work: 2 * float64(c.M*c.N*c.K*t.a*t.b*chained*subgroups) * float64(m.o.Groups/4*m.o.Steps)})
			}
		}
	}
	return all
}

// subgroup is the size of subgroups that pipelines ask for, 0 if they cannot.
func (m *measurement) subgroup() int {
	if m.d.Subgroup.Control {
		return m.d.Subgroup.Size
	}
	return 0
}

// words are push constants.
func words(numbers ...int) (out []byte) {
	for _, n := range numbers {
		out = append(out, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	return out
}

// best measures candidates, in units of work a second.
func (m *measurement) best(kind string, unit float64, all []candidate) (r Rate) {
	r.Kind = kind
	var failed []error
	m.compile(all, &failed)
	for _, c := range all {
		if c.pipeline == nil {
			continue
		}
		took, err := m.timed(&vulkan.Dispatch{Pipeline: c.pipeline, Groups: [3]int{c.groups}, Buffers: c.buffers, Push: c.push})
		c.pipeline.Free()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.by, err))
			continue
		}
		r.All = append(r.All, Shown{c.by, c.work / took.Seconds() / unit})
	}
	slices.SortFunc(r.All, func(a, b Shown) int { return cmp.Compare(b.Rate, a.Rate) })
	if len(r.All) > 0 {
		r.Best, r.By = r.All[0].Rate, r.All[0].By
	}
	if err := errors.Join(failed...); err != nil {
		r.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return r
}

// compile compiles the shaders of candidates, several at a time.
func (m *measurement) compile(all []candidate, failed *[]error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	free := make(chan bool, runtime.GOMAXPROCS(0))
	for i := range all {
		wait.Go(func() {
			free <- true
			defer func() { <-free }()
			p, err := m.d.Pipeline(all[i].code, all[i].layout)
			if all[i].pipeline = p; err != nil {
				mu.Lock()
				defer mu.Unlock()
				*failed = append(*failed, fmt.Errorf("%s: %w", all[i].by, err))
			}
		})
	}
	wait.Wait()
}

// warm is how long a shader runs before it is timed: what reads memory for a few milliseconds slows down on some cards.
const warm = 30 * time.Millisecond

// timed is the median time of commands, one after the other, by the device's clock.
func (m *measurement) timed(commands ...vulkan.Command) (time.Duration, error) {
	times, err := Series(m.d, commands, m.o.Warm, m.o.Rounds)
	if err != nil {
		return 0, err
	}
	return max(median(times), 1), nil
}

// Series times commands as often as rounds says, by the device's clock, after they have run once and for some time: how long all of them
// take together.
func Series(d *vulkan.Device, commands []vulkan.Command, warm time.Duration, rounds int) (times []time.Duration, err error) {
	s, err := d.Record(commands, vulkan.RecordOptions{Timed: true, Total: true})
	if err != nil {
		return nil, err
	}
	defer s.Free()
	if err := s.Run(); err != nil { // the first one may compile
		return nil, err
	}
	for began := time.Now(); time.Since(began) < warm; {
		if err := s.Run(); err != nil {
			return nil, err
		}
	}
	for range rounds {
		if err := s.Run(); err != nil {
			return nil, err
		}
		t, err := s.Times()
		if err != nil {
			return nil, err
		}
		times = append(times, t...)
	}
	return times, nil
}
