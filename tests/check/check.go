// Package check is the oracle of tests: random products, the definition of
// their result in plain Go, and the loops that run a kernel over all tiles.
package check

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/schedule"
)

// Case is one product: weights as codes, activations as quantized columns, or as
// columns of f32.
type Case struct {
	Problem ir.Problem
	M, N, K int
	Source  format.Source
	Act     [][]int8    // by column
	Scale   [][]float32 // by column, one per activation group (or one)
	X       [][]float32 // by column, if activations are f32
	Tiles   int         // the most tiles of a call, 0: 3
}

// Kind is what activations and codes look like.
type Kind int

// Random values, or extremes that find overflows.
const (
	Uniform Kind = iota
	Extreme      // |activation| = 127 and the largest level, equal signs
	Zeros
	Outlier   // small values, and a few neighbours of |activation| = 127
	NotFinite // one NaN scale, as PrepareAct makes it of NaN or Inf; of f32, one NaN or Inf
)

// outliers are how many neighbours there are.
const outliers = 6

// New makes a case.
func New(rng *rand.Rand, p ir.Problem, m, n, k int, kind Kind) *Case {
	c := &Case{Problem: p, M: m, N: n, K: k}
	w := p.Weight
	c.Source = w.NewSource(make([]byte, m*k), m, k, func(x format.Shared, _ int) float32 {
		if x.Limit > 0 {
			return float32(rng.Intn(x.Limit))
		}
		if x.Elem.Bits() == 8 {
			return x.Elem.Round(float32(rng.Intn(512) - 256))
		}
		return x.Elem.Round(float32(rng.NormFloat64()))
	})
	for i := range c.Source.Codes {
		c.Source.Codes[i] = byte(rng.Intn(w.Codes()))
	}
	if p.Act.Floats() {
		c.floats(rng, kind)
		return c
	}
	groups := 1
	if p.Act.Group > 0 {
		groups = (k + p.Act.Group - 1) / p.Act.Group
	}
	for range n {
		a, s := make([]int8, k), make([]float32, groups)
		for i := range a {
			a[i] = int8(rng.Intn(255) - 127)
		}
		for i := range s {
			s[i] = float32(math.Exp(rng.NormFloat64()))
		}
		c.Act, c.Scale = append(c.Act, a), append(c.Scale, s)
	}
	c.shape(rng, kind)
	return c
}

func (c *Case) shape(rng *rand.Rand, kind Kind) {
	w := c.Problem.Weight
	top := 0
	for i, v := range w.Levels {
		if max(v, -v) > max(w.Levels[top], -w.Levels[top]) {
			top = i
		}
	}
	for n, a := range c.Act {
		sign := int8(1 - 2*(n%2))
		for i := range a {
			switch kind {
			case Extreme:
				a[i] = 127 * sign
			case Zeros:
				a[i] = 0
			case Outlier:
				a[i] /= 64
			}
		}
		switch kind {
		case Outlier:
			first := rng.Intn(len(a))
			for i := range min(outliers, len(a)-first) {
				a[first+i] = int8(-127 + 254*rng.Intn(2))
			}
		case NotFinite:
			c.Scale[n][rng.Intn(len(c.Scale[n]))] = math.Float32frombits(0x7fc00000)
		}
	}
	if kind == Extreme {
		for i := range c.Source.Codes {
			c.Source.Codes[i] = byte(top % w.Codes())
		}
		for i := range c.Source.Books {
			c.Source.Books[i] = byte(top / w.Codes())
		}
	}
}

// Naive is the definition: out[n*M+m].
func (c *Case) Naive() []float32 {
	element := c.naiveInt
	if c.Problem.Act.Floats() {
		element = c.naiveFloat
	}
	out := make([]float32, c.N*c.M)
	for n := range c.N {
		for m := range c.M {
			v := element(n, m)
			if v != v {
				v = math.Float32frombits(0x7fc00000)
			}
			out[n*c.M+m] = v
		}
	}
	if c.Problem.Act.Floats() {
		c.mustBeNear(out)
	}
	return out
}

// group is how many elements of K are summed before they are scaled.
func (c *Case) group() int {
	if g := c.Problem.GroupK(); g > 0 {
		return g
	}
	return c.K
}

// naiveInt is the definition of element n, m for int8 activations.
func (c *Case) naiveInt(n, m int) float32 {
	w, g, inBlocks := c.Problem.Weight, c.group(), c.Problem.Block() > 1
	block := g * c.Problem.Block()
	acc := float32(0)
	for k0 := 0; k0 < c.K; k0 += block {
		sum, acts := 0, 0
		x := c.Source.Scaling(w, m, k0, c.K)
		scale, least := x.Scale, x.Min
		if inBlocks {
			scale, least = x.Super, x.SuperMin
		}
		for first := k0; first < min(k0+block, c.K); first += g {
			groupSum, groupActs := 0, 0
			x := c.Source.Scaling(w, m, first, c.K)
			for k := first; k < min(first+g, c.K); k++ {
				groupSum += (c.level(m, k) - int(x.Zero)) * int(c.Act[n][k])
				groupActs += int(c.Act[n][k])
			}
			if inBlocks {
				groupSum, groupActs = groupSum*int(x.Sub), groupActs*int(x.SubMin)
			}
			sum, acts = sum+groupSum, acts+groupActs
		}
		if sum != int(int32(sum)) {
			panic("the sum of a group or a block leaves i32")
		}
		s := float32(1)
		if c.Problem.Act.Group > 0 {
			s = c.actScale(n, k0)
		}
		term := float32(float32(sum) * float32(scale*s))
		if w.Min {
			term = float32(term - float32(least*float32(float32(acts)*s)))
		}
		acc = float32(acc + term)
	}
	if c.Problem.Act.Group == 0 {
		acc *= c.Scale[n][0]
	}
	return acc
}

// level is what the code of weight (m, k) means.
func (c *Case) level(m, k int) int {
	w, at := c.Problem.Weight, int(c.Source.Codes[m*c.K+k])
	if w.Books > 0 {
		at += int(c.Source.Books[(m*c.K+k)/w.BookGroup]) * len(w.Levels) / w.Books
	}
	return w.Levels[at]
}

func (c *Case) actScale(n, k int) float32 {
	if c.Problem.Act.Group == 0 {
		return c.Scale[n][0]
	}
	return c.Scale[n][k/c.Problem.Act.Group]
}

// Call runs one kernel call.
type Call func(args []vir.Arg) error

// Run computes the product with kernel k, some tiles of a column block a call.
func (c *Case) Run(k *schedule.Kernel, call Call) ([]float32, error) {
	return c.RunAll(k, func(all [][]vir.Arg) error {
		for _, args := range all {
			if err := call(args); err != nil {
				return err
			}
		}
		return nil
	})
}

// RunAll is Run with all calls at once.
func (c *Case) RunAll(k *schedule.Kernel, run func([][]vir.Arg) error) ([]float32, error) {
	all, err := c.calls(k)
	if err != nil {
		return nil, err
	}
	if err := run(all); err != nil {
		return nil, err
	}
	return c.result(k, all)
}

// calls lists the calls of kernel k that compute the product: of each column block some tiles each.
func (c *Case) calls(k *schedule.Kernel) ([][]vir.Arg, error) {
	packed, err := format.Pack(c.Problem.Weight, k.Weights, c.M, c.K, c.Source)
	if err != nil {
		return nil, err
	}
	tile := k.Weights.TileBytes(c.K)
	if sides := k.Rows / k.Weights.TileM; len(k.Nest.Grid) > 0 && sides > 1 { // a device has room for tiles behind the last ones
		packed = append(packed, make([]byte, (sides-1)*tile)...)
	}
	var all [][]vir.Arg
	for n0 := 0; n0 < c.N; n0 += c.cols(k) {
		b := c.blocks(k, n0)
		for m0 := 0; m0 < c.M; m0 += c.rows(k, m0) {
			all = append(all, c.args(k, packed, tile, m0, b))
		}
	}
	return all, nil
}

// Whole are the arguments of the one call of kernel k that multiplies m rows, packed as they are, by all columns. The rows of c are the
// first ones.
func (c *Case) Whole(k *schedule.Kernel, packed []byte, m int) ([]vir.Arg, error) {
	all := *c
	all.M, all.Tiles = m, m
	if all.cols(k) < c.N || all.rows(k, 0) < m {
		return nil, fmt.Errorf("a kernel of %d rows and %d columns does not multiply %d rows by %d columns in one call", k.Rows, k.Cols, m, c.N)
	}
	return all.args(k, packed, k.Weights.TileBytes(c.K), 0, all.blocks(k, 0)), nil
}

// Column is column n of the output of the call of Whole for m rows.
func (c *Case) Column(k *schedule.Kernel, out []byte, m, n int) []byte {
	all := *c
	all.M, all.Tiles = m, m
	return out[n*outStep(k, all.rows(k, 0)):][:4*m]
}

// cols is the number of columns of a call: of one block, or of all if the blocks are workgroups.
func (c *Case) cols(k *schedule.Kernel) int {
	if len(k.Nest.Grid) < 2 {
		return k.Cols
	}
	return (c.N + k.Cols - 1) / k.Cols * k.Cols
}

// blocks are the activations of a call for the columns from n0 on.
func (c *Case) blocks(k *schedule.Kernel, n0 int) columns {
	b := c.block(k, n0)
	if len(k.Nest.Grid) < 2 {
		return b
	}
	b.act, b.sums, b.scales = whole(b.act), whole(b.sums), whole(b.scales)
	for n := n0 + k.Cols; n < n0+c.cols(k); n += k.Cols {
		x := c.block(k, n)
		b.act, b.sums, b.scales = append(b.act, whole(x.act)...), append(b.sums, whole(x.sums)...), append(b.scales, whole(x.scales)...)
	}
	return b
}

// whole is b in whole lines, as blocks of activations begin.
func whole(b []byte) []byte { return append(b, make([]byte, -len(b)&63)...) }

// tiles is how often the call for the rows from m0 on multiplies its rows: several times, if they are whole tiles.
func (c *Case) tiles(k *schedule.Kernel, m0 int) int {
	tile := k.Weights.TileM
	if k.Rows < tile {
		return 1
	}
	left := (c.M - m0 + tile - 1) / tile
	if sides := k.Rows / tile; len(k.Nest.Grid) > 0 && sides > 1 { // workgroups have all of their tiles
		return min(cmp.Or(c.Tiles, 3), (left+sides-1)/sides)
	}
	return min(cmp.Or(c.Tiles, 3), max(left/(k.Rows/tile), 1))
}

// apart is how many tiles apart those are that the call for the rows from m0 on has side by side: each
// takes all of a call, one after the other. It is 0 if the matrix has fewer, which stands for the first one again; workgroups have room for more.
func (c *Case) apart(k *schedule.Kernel, m0 int) int {
	if k.Rows > k.Weights.TileM && c.M-m0 <= k.Rows-k.Weights.TileM && len(k.Nest.Grid) == 0 {
		return 0
	}
	return c.tiles(k, m0)
}

// rows is the number of rows of the product that the call for the rows from m0 on makes.
func (c *Case) rows(k *schedule.Kernel, m0 int) int {
	if c.apart(k, m0) == 0 {
		return k.Weights.TileM
	}
	return k.Rows * c.tiles(k, m0)
}

// result is the product that calls of kernel k have stored. If k is not exact, it must be within
// its bound.
func (c *Case) result(k *schedule.Kernel, calls [][]vir.Arg) ([]float32, error) {
	out := make([]float32, c.N*c.M)
	for n0 := 0; n0 < c.N; n0 += c.cols(k) {
		for m0, rows := 0, 0; m0 < c.M; m0 += rows {
			rows = c.rows(k, m0)
			if err := c.collect(k, calls[0][0].Buf, out, m0, n0); err != nil {
				return nil, err
			}
			calls = calls[1:]
		}
	}
	if !k.Exact() {
		return out, c.within(k.Deviation, out)
	}
	return out, nil
}

func (c *Case) args(k *schedule.Kernel, packed []byte, tile, m0 int, b columns) []vir.Arg {
	tiles, apart := c.tiles(k, m0), c.apart(k, m0)
	rows := min(k.Rows, k.Weights.TileM) // of a side
	end, step := (m0/k.Weights.TileM+max(c.rows(k, m0)/k.Weights.TileM, 1))*tile, outStep(k, k.Rows*tiles)
	part := func(name string) vir.Arg {
		p := k.Weights.Part(name)
		if p == nil {
			return vir.Arg{Buf: make([]byte, 1)}
		}
		return vir.Arg{Buf: packed[k.Weights.Address(p, m0, 0, tile):end]}
	}
	count := (k.FilledK(c.K) + k.StepK - 1) / k.StepK
	tileOut := bytes.Repeat([]byte{untouched}, (c.cols(k)-1)*step+4*k.Rows*tiles)
	args := []vir.Arg{{Buf: tileOut}, {Int: int64(step)}}
	for _, name := range format.PartNames {
		args = append(args, part(name))
	}
	for _, buf := range [][]byte{b.act, b.sums, b.scales, b.residuals, b.offsets, b.list} {
		args = append(args, vir.Arg{Buf: buf})
	}
	for _, n := range []int{len(b.list) / 4, tiles, tile, 4 * rows, apart * tile, 4 * apart * rows, count} {
		args = append(args, vir.Arg{Int: int64(n)})
	}
	if k.Scratch > 0 {
		args = append(args, vir.Arg{Buf: bytes.Repeat([]byte{untouched}, k.Scratch)})
	}
	if blocks := c.cols(k) / k.Cols; len(k.Nest.Grid) > 1 {
		for _, n := range []int{blocks, len(b.act) / blocks, len(b.sums) / blocks, k.Cols * step} {
			args = append(args, vir.Arg{Int: int64(n)})
		}
	}
	return args
}

// columns are the activations of a column block, as a kernel reads them; what it does not
// read is empty.
type columns struct {
	act, sums, scales        []byte
	residuals, offsets, list []byte
}

// outStep is the distance in bytes between output columns of `rows` rows: farther than they are long, and aligned as k says.
func outStep(k *schedule.Kernel, rows int) int {
	if align := k.Nest.Aligned[nest.StepParam("out")]; align > 0 {
		return 4*rows + max(16, align)
	}
	return 4 * (rows + 3)
}

// untouched is in every byte of the output before a call, and between columns after it.
const untouched = 0xa5

func (c *Case) collect(k *schedule.Kernel, tile []byte, out []float32, m0, n0 int) error {
	rows := k.Rows * c.tiles(k, m0)
	step := outStep(k, rows)
	for n := range c.cols(k) - 1 {
		if gap := tile[n*step:][4*rows : step]; bytes.Count(gap, []byte{untouched}) != len(gap) {
			return fmt.Errorf("stored behind the %d rows of column %d", rows, n)
		}
	}
	for n := n0; n < min(n0+c.cols(k), c.N); n++ {
		for m := m0; m < min(m0+c.rows(k, m0), c.M); m++ {
			bits := binary.LittleEndian.Uint32(tile[(n-n0)*step+4*(m-m0):])
			out[n*c.M+m] = math.Float32frombits(bits)
		}
	}
	return nil
}

// block lays out the activations of the columns from n0 on.
func (c *Case) block(k *schedule.Kernel, n0 int) (b columns) {
	padK := (k.FilledK(c.K) + k.StepK - 1) / k.StepK * k.StepK
	b.act = make([]byte, padK*k.Cols)
	if k.Tables != nil {
		b.act = make([]byte, padK/k.Tables.Digits()*k.Tables.UnitBytes()*k.Cols)
		b.residuals, b.offsets = make([]byte, len(b.act)), make([]byte, 4*k.Cols)
	}
	for col := range min(k.Cols, c.N-n0) {
		if k.Tables != nil {
			c.tables(k, b, col, n0, padK)
			continue
		}
		for i, a := range c.Act[n0+col] {
			i = k.FilledK(i)
			b.act[i/k.Chunk*k.Chunk*k.Cols+col*k.Chunk+i%k.Chunk] = byte(a)
		}
	}
	if k.Tables != nil && k.Tables.Residual {
		b.list = listed(b.residuals, padK/k.StepK)
	}
	if !c.Problem.Act.Floats() {
		b.sums, b.scales = c.sums(k, n0, padK)
	}
	return b
}

// sums are the sums and the scales of the activations of a column block.
func (c *Case) sums(k *schedule.Kernel, n0, padK int) (sums, scales []byte) {
	groups, g := 1, c.Problem.GroupK()
	if g > 0 {
		groups = padK / k.FilledK(g)
	}
	sums, scales = make([]byte, 4*groups*k.Cols), make([]byte, 4*groups*k.Cols)
	for col := range min(k.Cols, c.N-n0) {
		total := make([]int32, groups)
		for i, a := range c.Act[n0+col] {
			if g > 0 {
				total[i/g] += int32(a)
			} else {
				total[0] += int32(a)
			}
		}
		for i, t := range total {
			sum := uint32(t * int32(k.SumBy))
			if k.ScaledSums {
				scaled := float32(t)
				if c.Problem.Act.Group > 0 && i*g < c.K {
					scaled *= c.actScale(n0+col, i*g)
				}
				sum = math.Float32bits(scaled)
			}
			binary.LittleEndian.PutUint32(sums[4*(i*k.Cols+col):], sum)
		}
		for i, s := range c.Scale[n0+col] {
			binary.LittleEndian.PutUint32(scales[4*(i*k.Cols+col):], math.Float32bits(s))
		}
	}
	return sums, scales
}

// listed returns the numbers of the steps along K, of `steps`, that have a residual.
func listed(residuals []byte, steps int) (list []byte) {
	size := len(residuals) / steps
	for i := range steps {
		if slices.Max(residuals[i*size:][:size]) > 0 {
			list = binary.LittleEndian.AppendUint32(list, uint32(i))
		}
	}
	return list
}

// tables fills in the tables of one column of a block.
func (c *Case) tables(k *schedule.Kernel, b columns, col, n0, padK int) {
	t := k.Tables
	units := k.Chunk / t.Digits() // of a chunk
	offsets := 0
	floats, acts := c.Problem.Act.Floats(), make([]int, t.Digits()) // acts: the activations of a unit
	act := func(digit int) int { return acts[digit] }
	for unit := range padK / t.Digits() {
		chunk := (unit/units*k.Cols + col) * units * t.UnitBytes()
		for i := range acts {
			if !floats {
				acts[i] = int(padded(c.Act[n0+col], unit*len(acts)+i))
			}
		}
		offset := 0
		if t.Residual {
			offset = t.Offset(act)
			offsets += offset
		}
		for part := range t.Parts {
			first, size := t.Place(unit%units, part, 0, 0), t.Place(0, 0, 0, 1)
			upper := t.Place(unit%units, part, 1, 0) - first
			for e := range t.Stored(part) {
				at := func(half int) []byte { return b.act[chunk+first+half*upper+e*size:] }
				if floats {
					v := t.FloatEntry(part, e, func(digit int) float32 { return padded(c.X[n0+col], unit*t.Digits()+digit) })
					binary.LittleEndian.PutUint32(at(0), math.Float32bits(v))
					continue
				}
				v := t.Entry(part, e, act)
				switch low, high := t.Halves(v); {
				case t.Residual:
					low, residual := t.Residue(v + offset)
					at(0)[0], b.residuals[chunk+first+upper+e*size] = byte(low), byte(residual)
				case t.Split():
					at(0)[0], at(1)[0] = byte(low), byte(high)
				case t.Rounded():
					at(0)[0] = byte(high)
				default:
					binary.LittleEndian.PutUint16(at(0), uint16(v))
				}
			}
		}
	}
	if t.Residual {
		binary.LittleEndian.PutUint32(b.offsets[4*col:], uint32(offsets))
	}
}

// padded is element i of x, 0 behind its end.
func padded[T any](x []T, i int) (v T) {
	if i < len(x) {
		v = x[i]
	}
	return v
}

// Equal is Compare of a product of k with the definition if k is exact. If not, Run has
// found it within its bound.
func Equal(k *schedule.Kernel, got, want []float32, m int) error {
	if !k.Exact() {
		return nil
	}
	return Compare(got, want, m)
}

// Compare reports the first difference in bits.
func Compare(got, want []float32, m int) error {
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return fmt.Errorf("column %d row %d: %v (%08x), want %v (%08x)", i/m, i%m,
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
	return nil
}

// OddNaNs gives NaNs among scales a sign and a payload, which the product must not have.
func (c *Case) OddNaNs() {
	for _, scales := range c.Scale {
		for i, s := range scales {
			if s != s {
				scales[i] = math.Float32frombits(0xffc12345)
			}
		}
	}
}
