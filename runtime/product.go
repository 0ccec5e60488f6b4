package runtime

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// Spec is for generated code: it describes a product, C[n][m] = sum over k of A[n][k]*W[m][k], in one weight
// format, to New.
type Spec struct {
	Name    string // in messages
	Weight  format.Weight
	Act     format.Act
	LimitK  int              // the kernels are proven exact up to this K
	Layouts []*format.Layout // of packed matrices; pure Go packs in the first
	// Variants are the kernels in this binary, the preferred ones first. The
	// first whose CPU features are there runs; pure Go if there is none.
	Variants []abi.Variant
}

// Validate reports what makes s unusable. Generators call it; New checks only
// what memory safety rests on.
func (s *Spec) Validate() error {
	if err := s.Weight.Validate(); err != nil {
		return err
	}
	for _, l := range s.Layouts {
		if err := l.Fits(s.Weight); err != nil {
			return err
		}
	}
	return s.check()
}

func (s *Spec) check() error {
	switch {
	case len(s.Layouts) == 0:
		return s.errorf("spec", "has no layout")
	case s.LimitK < 1 || s.LimitK > format.MostK:
		return s.errorf("spec", "limit K is %d; it must be 1 to %d", s.LimitK, format.MostK)
	}
	if err := s.Act.Fits(s.Weight); err != nil {
		return s.errorf("spec", "%v", err)
	}
	for _, v := range s.Variants {
		if err := s.checkVariant(v); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) checkVariant(v abi.Variant) error {
	if v.Layout < 0 || v.Layout >= len(s.Layouts) || len(v.Kernels) == 0 {
		return s.errorf(v.Target, "layout %d and %d kernels; it needs a layout and a kernel", v.Layout, len(v.Kernels))
	}
	if v.ABI != abi.Version {
		return s.errorf(v.Target, "the package was generated for version %d of the runtime's interface, this is version %d: run the tmacc of github.com/tmacc/tmacc as go.mod has it again (go generate)", v.ABI, abi.Version)
	}
	l, cols, group := s.Layouts[v.Layout], 0, s.groupK()
	if v.Fill != 0 && (group == 0 || s.Act.Floats() || v.Fill <= group || v.Fill > 2*group || v.Fill%4 != 0 || l.RecordK%group != 0) {
		return s.errorf(v.Target, "groups of %d in records of %d are filled up to %d; int8 activations must have groups, records must hold whole groups, and Fill must be a multiple of 4, at most twice the group", group, l.RecordK, v.Fill)
	}
	recordK := s.fill(&v).of(l.RecordK)
	if f := v.Fused; f != nil {
		switch {
		case v.Fill != 0 || s.Act.Floats():
			return s.errorf(v.Target+" "+f.Name, "takes floats, of filled groups or of tables; it must quantize them to 8-bit activations in groups of their own length")
		case f.Cols != 1 || f.Rows < 1 || f.Rows%l.TileM != 0 || f.Rows > format.MostTiles*l.TileM || f.StepK < 1 || l.RecordK%f.StepK != 0 || f.Room < 1 || f.Room > format.MostK:
			return s.errorf(v.Target+" "+f.Name, "%d rows by %d columns, steps of %d, room for %d floats; it must have whole tiles of %d rows, one column, steps that divide the record of %d, and room", f.Rows, f.Cols, f.StepK, f.Room, l.TileM, l.RecordK)
		case slices.ContainsFunc(slices.Concat(f.CountDiv, f.Pads), func(d int) bool { return d < 1 || d > format.MostK }):
			return s.errorf(v.Target+" "+f.Name, "counts floats by %v and pads to %v; they must be positive", f.CountDiv, f.Pads)
		}
	}
	for _, k := range v.Kernels {
		switch {
		case k.Cols <= cols:
			return s.errorf(v.Target+" "+k.Name, "%d columns; kernels must be of ascending width", k.Cols)
		case k.Rows < 1 || k.Rows > format.MostTiles*l.TileM || l.TileM%k.Rows != 0 && k.Rows%l.TileM != 0:
			return s.errorf(v.Target+" "+k.Name, "%d rows do not divide the tile of %d, nor are they whole tiles, %d at most", k.Rows, l.TileM, format.MostTiles)
		case k.StepK < 1 || recordK%k.StepK != 0:
			return s.errorf(v.Target+" "+k.Name, "steps of %d do not divide the record of %d", k.StepK, recordK)
		case k.Chunk < 1 || recordK%k.Chunk != 0:
			return s.errorf(v.Target+" "+k.Name, "chunks of %d do not divide the record of %d", k.Chunk, recordK)
		case k.Scratch < 0 || k.Scratch > mostScratch:
			return s.errorf(v.Target+" "+k.Name, "needs %d bytes of memory for itself; want 0 to %d", k.Scratch, mostScratch)
		case k.Scratch > 0 && v.Device != nil:
			return s.errorf(v.Target+" "+k.Name, "needs %d bytes of memory for itself, which no device lends", k.Scratch)
		case k.Tables && v.Fill != 0:
			return s.errorf(v.Target+" "+k.Name, "reads tables, of groups that are filled up")
		case s.Act.Floats() && !k.Tables:
			return s.errorf(v.Target+" "+k.Name, "reads codes of activations; these are f32: it must read tables")
		case k.Tables && (v.Prepare == nil || v.Prepare.Tables.K < 1 || k.Chunk%v.Prepare.Tables.K != 0):
			return s.errorf(v.Target+" "+k.Name, "reads tables in chunks of %d, which no kernel prepares", k.Chunk)
		case k.Tables && v.Prepare.Tables.Residual && (s.groupK() > 0 || k.StepK%k.Chunk != 0):
			return s.errorf(v.Target+" "+k.Name, "lists residuals in steps of %d: they must be whole chunks of %d, without groups", k.StepK, k.Chunk)
		case k.SumBy == 0 || k.SumBy != int(int32(k.SumBy)):
			return s.errorf(v.Target+" "+k.Name, "activation sums times %d; it must be another 32-bit number", k.SumBy)
		case k.ScaledSums && (!s.Weight.Min || s.block() > 1 || k.SumBy != 1):
			return s.errorf(v.Target+" "+k.Name, "scaled activation sums, times %d; only minimums of single groups are multiplied with them", k.SumBy)
		}
		cols = k.Cols
	}
	if p := v.Prepare; p != nil {
		if t := p.Tables; t.K < 0 || t.K > 1<<16 || t.Bytes < 0 || t.Bytes > 1<<24 || (t.K == 0) != (t.Bytes == 0) {
			return s.errorf(v.Target+" "+p.Name, "tables of %d bytes for every %d activations", t.Bytes, t.K)
		}
		if len(p.CountDiv) > len(abi.PrepareArgs{}.Count) || slices.ContainsFunc(append(p.CountDiv[:len(p.CountDiv):len(p.CountDiv)], p.Pads...), func(d int) bool { return d < 1 }) {
			return s.errorf(v.Target+" "+p.Name, "pads to %v and counts by %v; they must be positive, with at most %d counts", p.Pads, p.CountDiv, len(abi.PrepareArgs{}.Count))
		}
		if t := p.Tables; p.Chunk < 0 || p.Chunk > 0 && (t.K == 0 || p.Chunk%t.K != 0 || !slices.Contains(p.CountDiv, p.Chunk)) {
			return s.errorf(v.Target+" "+p.Name, "makes tables of %d activations in chunks of %d, counting by %v; chunks must be whole tables, and counted", t.K, p.Chunk, p.CountDiv)
		}
		if t := p.Tables; t.Residual && (p.Residuals < 0 || p.Residuals >= len(p.CountDiv) || t.Bytes < unitBytes || t.Bytes%unitBytes != 0 || t.K%(t.Bytes/unitBytes) != 0) {
			return s.errorf(v.Target+" "+p.Name, "has residuals of tables of %d bytes by count %d of %d", t.Bytes, p.Residuals, len(p.CountDiv))
		}
	}
	return nil
}

// fill is how kernels of v count elements of K.
func (s *Spec) fill(v *abi.Variant) fill {
	if v == nil || v.Fill == 0 {
		return fill{}
	}
	return fill{s.groupK(), v.Fill}
}

// groupK is how many elements of K one sum of products covers, 0 for all.
func (s *Spec) groupK() int {
	return s.Act.SumGroup(s.Weight)
}

// block is how many groups are one integer when floats scale it.
func (s *Spec) block() int { return s.Act.Block(s.Weight) }

// Product multiplies matrices of one format on this CPU. Its methods may be
// called concurrently; they allocate nothing unless their comment says so.
type Product struct {
	spec    Spec
	variant *abi.Variant // nil: pure Go
	info    string
	layout  *format.Layout
	hash    uint64 // of the layout
	weight  uint64 // identifies the format
	cut     cut
	parts   [numParts]*format.Part // nil if there is none
	has     []int                  // those that there are
	kernels []placed               // of the variant
	runner  abi.Runner             // of the device that runs them, nil: this CPU does
	device  string                 // the name that its caller gave it
	states  map[string]string      // of the kernels, by name: how the device runs them, or why not
	decode  func() *decoder
	packer  func() *format.Packer
	log     *logger   // nil: none
	pool    sync.Pool // of *scratch
	acts    sync.Pool // of *[]byte, activation buffers
}

// numParts is how many parts a packed matrix may have.
const numParts = len(format.PartNames)

// offsets are the places of a row's parts in its tile.
type offsets [numParts]int

// EnvCPU is the environment variable that narrows which kernels may run. It is
// a list of words separated by commas: "purego" for pure Go; a target such as
// "avx2" or "amd64/avx2" for that one or else pure Go; "-avx512vbmi" to do as if
// the CPU lacked a feature. New says on standard error, once for each product, which words
// mean nothing for it, and what runs; and once, why none of the targets runs that the list names.
const EnvCPU = cpu.Env

// New is for generated code: it makes a product ready for this CPU. It panics if s is not what tmacc
// generates.
func New(s Spec) *Product {
	m := cpu.ParseMask(os.Getenv(EnvCPU))
	i, why := choose(s.Name, s.candidates(), m)
	if i >= 0 && s.Variants[i].Device != nil {
		p, err := onDevice(s, i, "", why, m)
		if err == nil {
			return p
		}
		warn(fmt.Sprintf("%s=%s: %v: products run on the CPU", EnvCPU, m.Text, err))
		i, _ = cpu.Choose(s.candidates(), cpu.This(), cpu.Mask{})
		why = "there is no device: " + err.Error()
	}
	return newProduct(s, i, why, m)
}

// On is the product as the given target runs it: "amd64/avx2" or "avx2", also where it is tuned for another core only, or "purego" for
// pure Go. It is an error if this binary or this CPU cannot run it. Buffers of
// one may not fit the other.
//
// "spirv" is on a device of Vulkan, "spirv@NAME" on the one that NAME stands for as in TMACC_DEVICE, if the package was compiled for it. An error
// says why there is none. A Matrix of the product has a copy in the device's memory; Gemm of a packed matrix copies it for the call.
func (p *Product) On(target string) (*Product, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	target, device := splitTarget(target)
	all := func(string) bool { return true }
	if i, _ := cpu.Choose(p.spec.candidates(), cpu.Host{Has: all, ID: cpu.This().ID}, cpu.Only(target)); i >= 0 {
		v := &p.spec.Variants[i]
		if missing := cpu.Lacks(v.Need, cpu.Has); missing != "" {
			return nil, p.spec.errorf("target "+v.Target, "this CPU lacks %s; it runs %v", missing, p.Targets())
		}
		if v.Device != nil {
			return onDevice(p.spec, i, device, "chosen by the caller", cpu.Mask{})
		}
		return newProduct(p.spec, i, "chosen by the caller", cpu.Mask{}), nil
	}
	if target == cpu.PureGo {
		return newProduct(p.spec, -1, "chosen by the caller", cpu.Mask{}), nil
	}
	return nil, p.spec.errorf("target "+target, "is not in this binary; it has %v", p.Targets())
}

// Targets lists what this CPU, and the device that p runs on or else the preferred one, can run, the preferred ones first: arguments for On.
func (p *Product) Targets() []string {
	if p.ready() != nil {
		return nil
	}
	names, _ := p.targets()
	return names
}

// targets is Targets, and the errors of devices that there are and that do not work.
func (p *Product) targets() (names []string, broken error) {
	for _, v := range p.spec.Variants {
		name := v.Target
		if v.Device != nil {
			if _, err := v.Device.Open(p.device, &v, p.spec.Layouts[v.Layout]); err != nil {
				if !onlyMissing(err) {
					broken = errors.Join(broken, p.spec.wrap(err))
				}
				continue
			}
			if p.device != "" {
				name += "@" + p.device
			}
		}
		if cpu.Lacks(v.Need, cpu.Has) == "" {
			names = append(names, name)
		}
	}
	return append(names, cpu.PureGo), broken
}

// Target is the one that runs.
func (p *Product) Target() string {
	if p = p.orNone(); p.variant == nil {
		return cpu.PureGo
	}
	return p.variant.Target
}

// Name is what the generated package calls the product, and what its errors begin with.
func (p *Product) Name() string { return p.orNone().spec.Name }

// Info says which kernels run and why: a line for the product, then a line for
// every kernel in the binary, and one if a device may give other bits than the CPU.
func (p *Product) Info() string { return p.orNone().info }

// Step is what divides the row ranges of Gemm: the rows of a packed tile. Kernels for few columns may take several
// tiles at once, and for one that is alone as long: ranges of many tiles are faster.
func (p *Product) Step() int { return p.orNone().layout.TileM }

// PackedID identifies how the product packs: products with the same one take each other's packed matrices.
func (p *Product) PackedID() string {
	if p.ready() != nil {
		return ""
	}
	return fmt.Sprintf("%016x-%016x", p.hash, p.weight)
}

// Weight is the format of the weights.
func (p *Product) Weight() format.Weight { return p.orNone().spec.Weight }

// Act is how activations are prepared.
func (p *Product) Act() format.Act { return p.orNone().spec.Act }

// ready is an error if p is nil or a zero Product.
func (p *Product) ready() error {
	if p == nil || p.layout == nil {
		return errNoProduct
	}
	return nil
}

var errNoProduct = &Error{"runtime", "product", "is nil or a zero Product: use a variable of the package that tmacc compile wrote"}

// orNone is p, or instead of nil and a zero Product one that has no name, no target and nothing else.
func (p *Product) orNone() *Product {
	if p.ready() != nil {
		return none
	}
	return p
}

var none = &Product{layout: &format.Layout{}, variant: &abi.Variant{}, cut: cut{widths: []width{{}}}}

func newProduct(s Spec, variant int, why string, m cpu.Mask) *Product {
	if err := s.check(); err != nil {
		panic("runtime: " + err.Error())
	}
	p := &Product{spec: s, layout: s.Layouts[0]}
	if variant >= 0 {
		p.variant = &s.Variants[variant]
		p.layout = s.Layouts[p.variant.Layout]
	}
	p.hash, p.weight = layoutHash(p.layout), weightHash(s.Weight)
	p.cut = newCut(&s, p.variant, p.layout.RecordK)
	for i, name := range format.PartNames {
		if p.parts[i] = p.layout.Part(name); p.parts[i] != nil {
			p.has = append(p.has, i)
		}
	}
	p.decode = sync.OnceValue(func() *decoder { return newDecoder(p.layout, s.Weight) })
	p.packer = sync.OnceValue(func() *format.Packer {
		packer, err := format.NewPacker(s.Weight, p.layout)
		if err != nil {
			panic("BUG: runtime: " + err.Error()) // gen has checked this
		}
		return packer
	})
	p.pool.New = func() any { return new(scratch) }
	if p.variant != nil {
		p.placeKernels()
	}
	p.info = p.describe(why, m)
	p.log = newLogger(os.Getenv(EnvLog))
	return p
}

// placed is a kernel and where its rows are in tiles of a layout.
type placed struct {
	*abi.Kernel
	at    []offsets // where they begin in a tile, by row/Rows
	sides int       // how many tiles a call has side by side
	rows  int       // of each
}

// placeKernels tabulates where the kernels' rows are.
func (p *Product) placeKernels() {
	for i := range p.variant.Kernels {
		k := &p.variant.Kernels[i]
		x := placed{Kernel: k, sides: max(k.Rows/p.layout.TileM, 1), rows: min(k.Rows, p.layout.TileM)}
		for row := 0; row < p.layout.TileM; row += k.Rows {
			x.at = append(x.at, p.place(row))
		}
		p.kernels = append(p.kernels, x)
	}
}

func (p *Product) place(row int) (o offsets) {
	for _, i := range p.has {
		o[i] = p.parts[i].Offset(row, 0)
	}
	return o
}

// scratch is the working memory of a call, kept between calls.
type scratch struct {
	shape             shape             // of the last activations; n is 0 before
	header            [headerBytes]byte // of their buffers
	row               rowPlan           // how their rows are quantized
	packed            int               // bytes of the last packed matrix, 0 before
	packedHeader      [headerBytes]byte // of such matrices
	matrix            matrix            // likewise, without its data
	gemm              abi.GemmArgs
	prep              abi.PrepareArgs
	rest              abi.PrepareArgs // of a second call for residuals
	out               []float32       // a kernel's tile
	blocks            []byte          // of activations for a device
	lent              []uint64        // memory of kernels that need some
	x                 []float32       // a padded row of activations
	codes, table      []byte
	rows, residuals   []byte // of a block, one after the other
	pair, excess      []byte
	offsets           [1]int32
	unused            [1]uint32 // what the second call repeats
	listed            []uint64  // a bit for each step of the block: it has residuals
	wide              []int16
	sums              []int32
	multiplied        multiplied // what the sums of a product are
	scales            []uint32
	amax, finite, inv []uint32
	weights           []int8           // a decoded row
	scaling           []format.Scaling // of the row's groups
	alone             task             // of a call that shares nothing
	once              once             // what such a call was
}

// release returns s to its pool without keeping the caller's buffers alive.
func (p *Product) release(s *scratch) {
	s.forget()
	s.alone = task{}
	s.prep.X, s.prep.Act, s.prep.Sums, s.prep.ActScale, s.prep.Table, s.prep.Next, s.rest.Residual, s.rest.Next = nil, nil, nil, nil, nil, nil, nil, nil
	p.pool.Put(s)
}

// mostScratch bounds the memory of a kernel, in bytes.
const mostScratch = 1 << 20

// lend gives a kernel the memory that it needs.
func (s *scratch) lend(k *abi.Kernel) {
	if k.Scratch > 0 {
		s.lent = grow(s.lent, ceilDiv(k.Scratch, 8))
		s.gemm.Scratch = unsafe.Pointer(&s.lent[0])
	}
}

// forget leaves nothing of products in s that the next ones must not find.
func (s *scratch) forget() { s.gemm, s.multiplied = abi.GemmArgs{}, multiplied{} }

// grow makes a slice of n elements of s, with old contents or none.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// Error is a caller's fault: which product and what of it, the problem and the
// remedy, on one line.
type Error struct {
	Product string
	Thing   string // "argument dst"
	Problem string
}

func (e *Error) Error() string { return e.Product + ": " + e.Thing + ": " + e.Problem }

func (s *Spec) errorf(thing, problem string, args ...any) error {
	return &Error{s.Name, thing, fmt.Sprintf(problem, args...)}
}
