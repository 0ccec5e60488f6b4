package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// onDevice is a product whose kernels run on the device that name stands for.
func onDevice(s Spec, variant int, name, why string, m cpu.Mask) (*Product, error) {
	v := s.Variants[variant]
	v.Prepare = s.preparation()
	r, states, err := opened(name, &v, s.Layouts[v.Layout])
	if err != nil {
		return nil, s.wrap(err)
	}
	all := s.Variants
	s.Variants = append([]abi.Variant(nil), all...)
	s.Variants[variant] = v
	why += ", " + r.String()
	p := newProduct(s, variant, why, m)
	p.spec.Variants, p.states = all, states // another device may run them all
	p.info = p.describe(why, m)
	if floats := r.Differs(); floats != "" {
		p.info += fmt.Sprintf("%s does not say how it computes some floats, which may have other bits than on the CPU: %s\n", r, floats)
	}
	p.runner, p.device = r, name
	return p, nil
}

// opened readies v on the device that name stands for, and takes the kernels from v that the device does not run. It says of each kernel, by its name,
// how it runs, or why not.
func opened(name string, v *abi.Variant, l *format.Layout) (abi.Runner, map[string]string, error) {
	all := *v
	r, err := v.Device.Open(name, &all, l)
	if err != nil {
		return nil, nil, err
	}
	states := map[string]string{}
	state := func(i int) (runs bool) {
		how, err := r.Kernel(i)
		if err != nil {
			how = "skipped, " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		states[all.Numbered(i).Name] = how
		return err == nil
	}
	v.Kernels, v.Shaders, v.Quantizers = nil, nil, nil
	for i, k := range all.Kernels {
		if !state(i) {
			continue
		}
		v.Kernels = append(v.Kernels, k)
		if i < len(all.Shaders) {
			v.Shaders = append(v.Shaders, all.Shaders[i])
		}
		if i < len(all.Quantizers) {
			v.Quantizers = append(v.Quantizers, all.Quantizers[i])
		}
	}
	if all.Fused != nil && !state(len(all.Kernels)) {
		v.Fused = nil
	}
	if len(v.Kernels) < len(all.Kernels) || v.Fused != all.Fused {
		r, err = v.Device.Open(name, v, l) // which numbers the kernels that run
	}
	return r, states, err
}

// Skipped are the kernels of p's target that the device does not run, by their names, and why.
func (p *Product) Skipped() (why []string) {
	if p.ready() != nil || p.variant == nil {
		return nil
	}
	for name, state := range p.states {
		if reason, ok := strings.CutPrefix(state, "skipped, "); ok {
			why = append(why, name+": "+reason)
		}
	}
	slices.Sort(why)
	return why
}

// onlyMissing says that there is no device for some kernels, which is no fault.
func onlyMissing(err error) bool {
	no := abi.NoDevice(nil)
	return errors.As(err, &no) && no.NoDevice()
}

// preparation is how this CPU quantizes activations for a device, nil for in pure Go.
func (s *Spec) preparation() *abi.Prepare {
	i, _ := cpu.Choose(s.candidates(), cpu.This(), cpu.Mask{})
	if i < 0 {
		return nil
	}
	if p := s.Variants[i].Prepare; p != nil && p.Tables.K == 0 {
		return p
	}
	return nil
}

// splitTarget is the target and the device of a word such as "spirv@1".
func splitTarget(word string) (target, device string) {
	target, device, _ = strings.Cut(word, "@")
	return target, device
}

// Device is where the product runs: the name of a device, "" for this CPU.
func (p *Product) Device() string {
	if p.ready() != nil || p.runner == nil {
		return ""
	}
	return p.runner.String()
}

// Differs says which floats the device that p runs on cannot be asked to compute as the CPU does, "" if it can be asked for all, and on this CPU.
func (p *Product) Differs() string {
	if p.ready() != nil || p.runner == nil {
		return ""
	}
	return p.runner.Differs()
}

// Room is how many more bytes of packed matrices the device that p runs on has memory for.
func (p *Product) Room() (int64, error) {
	if err := p.ready(); err != nil {
		return 0, err
	}
	if p.runner == nil {
		return 0, p.spec.errorf("product", "runs on this CPU, whose memory counts: ask for the room of a product on a device")
	}
	n, err := p.runner.Room()
	return n, p.spec.wrap(err)
}

// Steps is how the product of a matrix and of rows of activations is computed by steps on a device.
type Steps struct {
	On       abi.Computer
	Blocks   []StepBlocks
	ActBytes int  // of all blocks
	Padded   bool // blocks have elements behind the k of a row, which no quantizer writes: they are 0
	Columns  int  // rows of activations, with padding
	Whole    int  // rows of the matrix whose results are written at once
}

// StepBlocks are blocks of activations of one kernel. Their rows begin behind the blocks before.
type StepBlocks struct {
	abi.Run
	Cols, Rows int // of a block, and the rows of all blocks without padding
	Chunk      int // bytes of act from one row of a block to the next
	Quantizer  *abi.Operator
}

// Steps is for matrices of k columns and n rows of activations. The error says why steps on a device do not compute such a product.
func (p *Product) Steps(n, k int) (x Steps, err error) {
	s, err := p.actShape(n, k)
	if err != nil {
		return x, err
	}
	on, ok := p.runner.(abi.Computer)
	if !ok {
		return x, p.spec.errorf("product", "does not run on a device that computes all of a step")
	}
	x = Steps{On: on, ActBytes: s.bytes, Padded: s.padK > k}
	for _, run := range s.runs() {
		kernel := &p.variant.Kernels[run.Kernel]
		b := StepBlocks{Run: run, Cols: kernel.Cols, Rows: min(run.Blocks*kernel.Cols, n-x.Columns), Chunk: kernel.Chunk, Quantizer: p.quantizer(run.Kernel, k)}
		if b.Quantizer == nil {
			return x, p.spec.errorf("product", "has rows of %d activations that only CPUs prepare", k)
		}
		x.Blocks = append(x.Blocks, b)
		x.Columns += run.Blocks * kernel.Cols
		x.Whole = max(x.Whole, kernel.Rows, p.layout.TileM)
	}
	return x, nil
}

// quantizer prepares rows of k activations for a kernel, nil: none does.
func (p *Product) quantizer(kernel, k int) *abi.Operator {
	v := p.variant
	if kernel >= len(v.Quantizers) || v.Fill != 0 {
		return nil
	}
	for i := len(v.Quantizers[kernel]) - 1; i >= 0; i-- {
		if x := &v.Quantizers[kernel][i]; x.Fits(map[string]int{"K": k}) == nil {
			return x
		}
	}
	return nil
}

// load copies a packed matrix to the device that p runs on, if it does.
func (p *Product) load(packed []byte) (abi.Loaded, error) {
	if p.runner == nil {
		return nil, nil
	}
	w, err := p.open(packed)
	if err != nil {
		return nil, err
	}
	l, err := p.runner.Load(w.data, w.tileBytes)
	return l, p.spec.wrap(err)
}

// runLoaded multiplies the rows of t on a device: by a copy of the matrix that is there, or by one for this call.
func (t *task) runLoaded(loaded abi.Loaded) error {
	if t.lo == t.hi {
		return nil
	}
	if loaded == nil {
		l, err := t.p.runner.Load(t.w.data, t.w.tileBytes)
		if err != nil {
			return t.p.spec.wrap(err)
		}
		defer l.Free()
		loaded = l
	}
	tile := t.p.layout.TileM
	c := abi.DeviceCall{From: t.lo / tile, To: ceilDiv(t.hi, tile)}
	rows, columns := (c.To-c.From)*tile, 1
	if t.fused {
		c.Act, c.Runs = t.p.fused(t.act)
	} else {
		c.Act, c.Runs, columns = t.deviceAct(), t.a.runs(), t.columns()
	}
	t.out = grow(t.out, columns*rows)
	c.Out = t.out
	if err := loaded.Multiply(&c); err != nil {
		return t.p.spec.wrap(err)
	}
	t.store(0, t.a.n, t.lo, rows, rows, 0)
	return nil
}

// onDevice does all of t if its product runs on a device, which has x if x is not nil.
func (t *task) onDevice(x *Matrix) error {
	if t.p.runner == nil {
		return nil
	}
	var loaded abi.Loaded
	if x != nil {
		loaded = x.loaded
	}
	err := t.runLoaded(loaded)
	t.lo = t.hi // nothing is left
	return err
}

// columns is the number of columns that kernels multiply, with padding.
func (t *task) columns() int {
	return t.a.full*t.a.wide.cols + t.a.some*t.a.middle.cols + t.a.tail.cols
}

// runs are the blocks of activations.
func (s *shape) runs() (all []abi.Run) {
	add := func(b *block, at, blocks int) {
		if blocks > 0 && b.cols > 0 {
			all = append(all, abi.Run{Kernel: b.kernel, Blocks: blocks, At: at, Bytes: b.bytes, Sums: b.sums, Scales: b.scales, Count: int(b.count)})
		}
	}
	add(&s.wide, 0, s.full)
	rest := s.full * s.wide.bytes
	add(&s.middle, rest, s.some)
	add(&s.tail, rest+s.some*s.middle.bytes, 1)
	return all
}

// deviceAct are the blocks of t with sums as kernels want them.
func (t *task) deviceAct() []byte {
	t.blocks = grow(t.blocks, t.a.bytes)
	copy(t.blocks, t.act)
	if t.a.groups == 0 {
		return t.blocks
	}
	for i := range t.a.blocks() {
		b, _, offset := t.a.at(i)
		t.sums = grow(t.sums, t.a.groups*b.cols)
		t.p.multiplyBlock(t.sums, b, t.act[offset:])
		putWords(t.blocks[offset+b.sums:], t.sums, 1)
	}
	return t.blocks
}

// takesFloats says that a kernel can take n rows of k activations as floats.
func (p *Product) takesFloats(n, k int) bool {
	return p.runner != nil && p.variant.Fused != nil && n == 1 && k <= p.variant.Fused.Room && littleEndian
}

// fuses says that it is also worth it for m rows of weights.
func (p *Product) fuses(m, n, k int) bool { return p.takesFloats(n, k) && p.variant.Fused.Worth(m, k) }

// multiplyFused multiplies a matrix by one row of floats.
func (p *Product) multiplyFused(loaded abi.Loaded, dst []float32, packed []byte, x []float32, opt *Options) (err error) {
	s := p.pool.Get().(*scratch)
	defer p.release(s)
	t := &s.alone
	t.p, t.scratch, t.fused = p, s, true
	t.keep(dst, opt)
	if err := p.openPacked(s, packed, &t.w); err != nil {
		return err
	}
	if t.a, err = p.known(s, 1, len(x)); err != nil {
		return err
	}
	t.lo, t.hi = 0, t.w.m
	if err := p.checkGemm(t); err != nil {
		return err
	}
	if p.log != nil {
		p.log.say(t)
	}
	t.act = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
	return t.runLoaded(loaded)
}

// fused is what the fused kernel of p is given of a row of floats: the row with zeros behind it.
func (p *Product) fused(floats []byte) (act []byte, runs []abi.Run) {
	run := p.fusedRun(len(floats) / 4)
	act = make([]byte, run.Bytes)
	copy(act, floats)
	return act, []abi.Run{run}
}

// fusedRun is a call of the fused kernel for a row of k floats.
func (p *Product) fusedRun(k int) abi.Run {
	f, row := p.variant.Fused, roundUp(k, floatsPad)
	for _, pad := range f.Pads {
		row = max(row, roundUp(k, pad))
	}
	run := abi.Run{Kernel: len(p.variant.Kernels), Blocks: 1, Bytes: 4 * roundUp(row, floatsPad), Count: ceilDiv(k, f.StepK)}
	for _, div := range f.CountDiv {
		run.Counts = append(run.Counts, ceilDiv(k, div))
	}
	return run
}

// floatsPad is what rows of floats for a fused kernel are padded to, besides its Pads: lines of 64 bytes.
const floatsPad = 16

// StepFloats is how steps on a device multiply a matrix by a row of k activations as floats, which has zeros behind it up to Bytes of the run. ok says that they
// should: that a kernel takes such a row, and is predicted to be faster for rows of weights, of all matrices that share the activations.
func (p *Product) StepFloats(rows, k int) (run abi.Run, ok bool) {
	if p.ready() != nil || !p.fuses(rows, 1, k) {
		return run, false
	}
	return p.fusedRun(k), true
}

// DeviceFloats is what the fused kernel of a device is given of a row of activations, for those who run kernels themselves; ok says that p has one for such rows,
// and that Multiply takes it for a matrix of m rows.
func (p *Product) DeviceFloats(x []float32, m int) (act []byte, runs []abi.Run, ok bool) {
	if p.ready() != nil || !p.fuses(m, 1, len(x)) {
		return nil, nil, false
	}
	act, runs = p.fused(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)))
	return act, runs, true
}

// DeviceActs is what a device is given of an activation buffer: its blocks, with sums as kernels want them.
func (p *Product) DeviceActs(act []byte) ([]byte, []abi.Run, error) {
	if err := p.ready(); err != nil {
		return nil, nil, err
	}
	s := new(scratch)
	a, err := p.openAct(s, act)
	if err != nil {
		return nil, nil, err
	}
	t := task{p: p, a: a, act: act[headerBytes:], scratch: s}
	return t.deviceAct(), a.runs(), nil
}

// Tiles are the tiles of a packed matrix, and the bytes of each, for those who run kernels themselves.
func (p *Product) Tiles(packed []byte) (tiles []byte, tileBytes int, err error) {
	w, err := p.open(packed)
	return w.data, w.tileBytes, err
}
