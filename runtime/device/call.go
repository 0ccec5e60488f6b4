package device

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// Parameters of kernels, in the order of abi.GemmArgs, then the parameters of groups of columns.
const (
	outParam = iota
	outStepParam
	weightsParam
	actParam    = weightsParam + numParts
	sumsParam   = actParam + 1
	scalesParam = actParam + 2
	listParam   = actParam + 5 // behind residuals and offsets
	tilesParam  = listParam + 2
	tileStep    = tilesParam + 1
	rowsStep    = tilesParam + 2
	sideStep    = tilesParam + 3
	sideRows    = tilesParam + 4
	countParam  = tilesParam + 5
	blocksParam = countParam + 1
	actStep     = blocksParam + 1
	sumsStep    = blocksParam + 2
	blockStep   = blocksParam + 3
	params      = blocksParam + 4

	numParts = len(format.PartNames)
)

// inputParams is how many parameters each input has of the operator that a product ends in.
const inputParams = 3

// behind is how many bytes a buffer has behind what kernels are given: a word, as its size is rounded up to words.
const behind = 8

// piece is a range of tiles of a matrix, in a buffer of its own.
type piece struct {
	from, to int // tiles
	buffer   *vulkan.Buffer
	at       int // bytes of the buffer before them
}

// Matrix implements abi.Loaded: a packed matrix on a device. Where it is larger than what a shader sees at once it is in several buffers.
type Matrix struct {
	r         *Runner
	tiles     []byte
	tileBytes int
	on        *opened // where pieces are
	pieces    []piece
	stack     *stack // that the matrix is in, nil: none
	number    int    // in the stack
}

// Load implements abi.Runner.
func (r *Runner) Load(tiles []byte, tileBytes int) (abi.Loaded, error) {
	return r.LoadMatrix(tiles, tileBytes)
}

// LoadMatrix is Load.
func (r *Runner) LoadMatrix(tiles []byte, tileBytes int) (*Matrix, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &Matrix{r: r, tiles: tiles, tileBytes: tileBytes}
	if _, err := x.ready(); err != nil {
		return nil, err
	}
	return x, nil
}

// ready is the open device with the matrix on it, which is copied again after a loss.
func (x *Matrix) ready() (*opened, error) {
	o, err := x.r.ready()
	if err != nil || x.on == o {
		return o, err
	}
	x.on, x.pieces = o, nil
	upload := x.upload
	if x.stack != nil {
		upload = x.inStack
	}
	if err := upload(); err != nil {
		x.free()
		return nil, o.note(err)
	}
	return o, nil
}

func (x *Matrix) upload() error {
	d, n := x.on.d, len(x.tiles)/x.tileBytes
	most := min(d.Limits.Range, d.Limits.Allocation)&^3 - int64(behind+(sides(x.r)-1)*x.tileBytes)
	each := int(min(most/int64(x.tileBytes), int64(n)))
	if side := sides(x.r); each > side {
		each -= each % side // so that no kernel writes beyond the rows of a piece, except of the last
	}
	if each < 1 {
		return fmt.Errorf("device: %s sees %d bytes at once, a tile has %d: choose another schedule", d.Name, d.Limits.Range, x.tileBytes)
	}
	if err := x.on.fits(int64(len(x.tiles))); err != nil {
		return err
	}
	for from := 0; from < n; from += each {
		to := min(from+each, n)
		b, err := x.on.buffer(int64(((to-from+sides(x.r)-1)*x.tileBytes+3)&^3 + behind))
		if err != nil {
			return err
		}
		x.pieces = append(x.pieces, piece{from: from, to: to, buffer: b})
		if err := b.Upload(0, x.tiles[from*x.tileBytes:to*x.tileBytes]); err != nil {
			return err
		}
	}
	return nil
}

// sides is the most tiles that a kernel has side by side.
func sides(r *Runner) int {
	most := 1
	for _, k := range r.variant.Kernels {
		most = max(most, k.Rows/r.layout.TileM)
	}
	if f := r.variant.Fused; f != nil {
		most = max(most, f.Rows/r.layout.TileM)
	}
	return most
}

// Free implements abi.Loaded.
func (x *Matrix) Free() {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	x.free()
	if x.stack != nil {
		x.stack.leave()
	}
}

func (x *Matrix) free() {
	for _, p := range x.pieces {
		if x.stack == nil {
			p.buffer.Free()
		}
	}
	x.on, x.pieces = nil, nil
}

// Multiply implements abi.Loaded. A device that is lost loses the call: the next one opens the device again and copies the matrix.
func (x *Matrix) Multiply(c *abi.DeviceCall) error {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	o, err := x.ready()
	if err != nil {
		return err
	}
	s := o.lend()
	defer o.giveBack(s)
	for _, p := range x.parts(x.outputs(c, 0, form{})) {
		if err := x.multiply(o, s, c, p); err != nil {
			return o.note(err)
		}
	}
	return nil
}

// multiply does a part of a product.
func (x *Matrix) multiply(o *opened, s *scratch, c *abi.DeviceCall, p part) error {
	if err := o.grow(&s.act, (p.to-p.from)&^3+behind); err != nil {
		return err
	}
	if err := s.act.Upload(0, c.Act[p.from:p.to]); err != nil {
		return err
	}
	if err := o.grow(&s.out, p.bytes+behind); err != nil {
		return err
	}
	var shared sums
	commands, err := x.commands(o, p.outputs, s.act, s.out, &shared)
	if err != nil {
		return err
	}
	if err := shared.place(o.card, &s.sums); err != nil {
		return err
	}
	recorded, err := o.d.Record(commands, vulkan.RecordOptions{})
	if err != nil {
		return err
	}
	defer recorded.Free()
	if err := recorded.Run(); err != nil {
		if s.sums != nil { // its contents are unknown
			s.sums.Free()
			s.sums = nil
		}
		return err
	}
	return x.download(s.out, c, p.outputs)
}

// call is what a dispatch multiplies: tiles of a piece, by blocks of a run.
type call struct {
	run           *abi.Run
	piece         piece
	from, to      int // tiles
	block, blocks int
	column        int          // of the output, of the first block
	act           int          // bytes of the activations where the first block begins
	at, rows      int          // bytes of the output, and rows of its columns
	apart         int          // bytes from one column to the next
	list          vulkan.Range // of a call whose blocks are multiplied by a matrix each; without a buffer: all are by one
	listAt        int          // where in it the list begins
	form          form
	inputs        []input // of the operator that it ends in
}

// input is an input of the operator that a product ends in.
type input struct {
	vulkan.Range
	at, row int   // where in the range the first column begins, and bytes from one column to the next
	bytes   int64 // from there on
}

// bytes is how many bytes the results of c have, from the first to the last.
func (c *call) bytes(k *abi.Kernel) int { return c.apart*(k.Cols*c.blocks-1) + 4*c.rows }

// outputs are the calls of a product, and how their results lie in the output.
type outputs struct {
	calls []call
	bytes int
}

// outputs divides a product into calls that the device can do: each sees a part of the weights, of the activations and of the output. Columns of the output are
// some bytes apart, or with 0 dense in each call. Kernels have a form.
func (x *Matrix) outputs(c *abi.DeviceCall, apart int, as form) (out outputs) {
	first := 0
	for i := range c.Runs {
		run := &c.Runs[i]
		k := x.r.variant.Numbered(run.Kernel)
		tiles, blocks := x.most(c, run, apart, as)
		for b := 0; b < run.Blocks; b += blocks {
			n := min(blocks, run.Blocks-b)
			for _, p := range x.pieces {
				for from := max(c.From, p.from); from < min(c.To, p.to); from += tiles {
					to := min(from+tiles, c.To, p.to)
					rows := x.rows(k, to-from)
					next := call{run: run, piece: p, from: from, to: to, block: b, blocks: n, column: first + b*k.Cols, act: run.At + b*run.Bytes, at: out.bytes, rows: rows, apart: max(apart, 4*rows), form: as}
					out.calls = append(out.calls, next)
					out.bytes += next.bytes(k)
				}
			}
		}
		first += run.Blocks * k.Cols
	}
	return out
}

// rows is how many rows of the output a kernel writes for some tiles: tiles that it takes at once are whole.
func (x *Matrix) rows(k *abi.Kernel, tiles int) int {
	side := max(1, k.Rows/x.r.layout.TileM)
	return (tiles + side - 1) / side * side * x.r.layout.TileM
}

// most is how many tiles, and blocks of a run, a call has at most.
func (x *Matrix) most(c *abi.DeviceCall, run *abi.Run, apart int, as form) (tiles, blocks int) {
	shader := x.on.formed(run.Kernel, as).Shader
	k, l := x.r.variant.Numbered(run.Kernel), &x.on.d.Limits
	room := min(int(l.Range-l.RangeAlignment)-behind, x.room())
	side, sums := max(1, k.Rows/x.r.layout.TileM), 4*shader.SumWords(run.Count)
	groups := max(1, min(l.Groups[0], room/max(4*k.Rows*k.Cols, sums)))
	tiles = groups * side
	if len(shader.Grid) < 2 {
		return tiles, 1
	}
	block := max(apart, 4*x.rows(k, min(tiles, c.To-c.From))) * k.Cols
	groups = min(groups, (c.To-c.From+side-1)/side)
	return tiles, max(1, min(run.Blocks, room/max(block, sums*groups), room/run.Bytes, l.Groups[1]))
}

// part is calls whose activations, which are the bytes from from to to, and results are on the device at once.
type part struct {
	outputs
	from, to int
	sums     int // bytes of sums that workgroups share
}

// mostPart bounds the bytes of activations and of results that are on a device at once: what a link carries in some milliseconds.
const mostPart = 256 << 20

// begins is what activations of a part begin at a multiple of: RangeAlignment of no device is larger.
const begins = 1 << 8

// room is how many bytes of activations or results fit a buffer.
func (x *Matrix) room() int {
	return int(min(mostPart, x.on.d.Limits.Allocation&^3)) - behind - begins
}

// parts divides calls so that their buffers may be allocated.
func (x *Matrix) parts(all outputs) (parts []part) {
	most := x.room() + begins
	for _, c := range all.calls {
		from, to := c.act&^(begins-1), c.act+c.blocks*c.run.Bytes
		k := x.r.variant.Numbered(c.run.Kernel)
		bytes, sums := c.bytes(k), 4*x.on.kernels[c.run.Kernel].SumWords(c.run.Count)*c.rows/k.Rows*c.blocks+begins
		n := len(parts)
		if n == 0 || from < parts[n-1].from || parts[n-1].bytes+bytes > most || parts[n-1].sums+sums > most || to-parts[n-1].from > most {
			parts, n = append(parts, part{from: from}), n+1
		}
		p := &parts[n-1]
		c.act, c.at = c.act-p.from, p.bytes
		p.to, p.bytes, p.sums, p.calls = max(p.to, to), p.bytes+bytes, p.sums+sums, append(p.calls, c)
	}
	return parts
}

// commands are the dispatches of calls. Those whose workgroups share sums still need a place for them.
func (x *Matrix) commands(o *opened, out outputs, act, result *vulkan.Buffer, shared *sums) (all []vulkan.Command, err error) {
	for i := range out.calls {
		d, err := x.dispatch(o, &out.calls[i], act, result, shared)
		if err != nil {
			return nil, err
		}
		d.Beside = i > 0
		all = append(all, d)
	}
	return all, nil
}

// dispatch is one call of a kernel. If its workgroups share sums, it is added to these.
func (x *Matrix) dispatch(o *opened, c *call, act, result *vulkan.Buffer, shared *sums) (*vulkan.Dispatch, error) {
	k, s, l := x.r.variant.Numbered(c.run.Kernel), o.formed(c.run.Kernel, c.form), x.r.layout
	if s.lacks != nil {
		return nil, fmt.Errorf("device: kernel %s: %w", k.Name, s.lacks)
	}
	side := max(1, k.Rows/l.TileM)
	apart := (c.to - c.from + side - 1) / side // tiles of a side
	rows := min(k.Rows, l.TileM)
	words := [params]int{outStepParam: c.apart, tilesParam: apart, tileStep: x.tileBytes, rowsStep: 4 * rows,
		sideStep: apart * x.tileBytes, sideRows: 4 * apart * rows, countParam: c.run.Count,
		blocksParam: c.blocks, actStep: c.run.Bytes, sumsStep: c.run.Bytes, blockStep: k.Cols * c.apart}
	ranges := make([]vulkan.Range, params+len(c.run.Counts), params+len(c.run.Counts)+inputParams*len(c.inputs))
	set := func(param int, b *vulkan.Buffer, at, bytes int) {
		begin := at &^ int(o.d.Limits.RangeAlignment-1)
		ranges[param], words[param] = vulkan.Range{Buffer: b, Offset: int64(begin), Size: min(b.Size()-int64(begin), int64(at-begin+bytes+behind))}, at-begin
	}
	set(outParam, result, c.at, c.bytes(k))
	set(actParam, act, c.act, c.blocks*c.run.Bytes)
	for i, at := range []int{c.run.Sums, c.run.Scales} {
		ranges[sumsParam+i], words[sumsParam+i] = ranges[actParam], words[actParam]+at
	}
	for i, name := range format.PartNames {
		if p := l.Part(name); p != nil {
			begin := c.piece.at + (c.from-c.piece.from)*x.tileBytes
			set(weightsParam+i, c.piece.buffer, begin, int(c.piece.buffer.Size()))
			words[weightsParam+i] += p.Offset(0, 0)
		}
	}
	ranges[listParam], words[listParam] = c.list, c.listAt
	d := &vulkan.Dispatch{Pipeline: s.pipeline}
	all := append(words[:], c.run.Counts...)
	for _, in := range c.inputs {
		all, ranges = append(all, in.at, in.row, k.Cols*in.row), append(ranges, in.Range, vulkan.Range{}, vulkan.Range{})
	}
	for _, p := range s.Params {
		if p < 0 || p >= len(all) {
			return nil, fmt.Errorf("device: the shader of %s has a parameter %d, which no product has", k.Name, p)
		}
		if all[p] < 0 || uint64(all[p]) > math.MaxUint32 {
			return nil, fmt.Errorf("device: parameter %d of %s is %d: multiply fewer rows at once", p, k.Name, all[p])
		}
		d.Push = binary.LittleEndian.AppendUint32(d.Push, uint32(all[p]))
	}
	for _, p := range s.Buffers {
		r := vulkan.Range{}
		if p >= 0 && p < len(ranges) {
			r = ranges[p]
		}
		if r.Buffer == nil {
			return nil, fmt.Errorf("device: the shader of %s reads parameter %d, which its product has not", k.Name, p)
		}
		if most := o.d.Limits.Range; r.Size > most {
			return nil, fmt.Errorf("device: kernel %s reads or writes %d bytes at once, %s sees %d: choose a schedule for fewer columns", k.Name, r.Size, o.d.Name, most)
		}
		d.Buffers = append(d.Buffers, r)
	}
	for i, p := range s.Grid {
		d.Groups[i] = words[p]
	}
	if s.Parts > 0 {
		d.Groups[len(s.Grid)] = s.Parts
		shared.add(o.card, d, s.SumWords(c.run.Count), s.Grid)
	}
	return d, nil
}

// download copies results to c.Out.
func (x *Matrix) download(from *vulkan.Buffer, c *abi.DeviceCall, out outputs) error {
	tile, total := x.r.layout.TileM, (c.To-c.From)*x.r.layout.TileM
	raw := make([]byte, out.bytes)
	if err := from.Download(0, raw); err != nil {
		return err
	}
	for _, k := range out.calls {
		for col := range k.blocks * x.r.variant.Numbered(k.run.Kernel).Cols {
			column := c.Out[(k.column+col)*total+(k.from-c.From)*tile:][:(k.to-k.from)*tile]
			copy(bytesOf(column), raw[k.at+4*col*k.rows:])
		}
	}
	return nil
}

// bytesOf is the memory of floats, which are little-endian on all machines that have devices.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
