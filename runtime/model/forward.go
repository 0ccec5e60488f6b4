package model

import (
	"context"
	"fmt"
	"math"

	"github.com/tmacc/tmacc/runtime/ops"
)

// layer is the weights of a layer, by their roles, and how its positions meet.
type layer struct {
	vectors  [numRoles][]float32
	matrices [numRoles]*matrix
	stacks   [numRoles][]*matrix // of each expert
	apart    [numRoles]int       // bytes from one matrix of a stack to the next on the device; 0: they are not there, or separate
	separate error               // why they are separate
	mixer    mixer
	feed     feed
}

// forward computes the hidden states of a batch, and logits of the wanted rows. The sessions have made room.
func (ws *workspace) forward(ctx context.Context) error {
	ws.bad.Store(sound)
	if done, err := ws.model.resident.forward(ctx, ws); done || err != nil {
		return err
	}
	return ws.forwardLayers(ctx)
}

// forwardLayers is forward by products and the float operators of the CPU.
func (ws *workspace) forwardLayers(ctx context.Context) error {
	m, n := ws.model, ws.rows
	ws.live = n
	ws.stage = 0
	ws.each(n, (*workspace).begin)
	ws.normThen(n, m.layers[0].vectors[attentionNorm], (*workspace).norm)
	for i := range m.layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ws.forwardLayer(i); err != nil {
			return err
		}
	}
	ws.clock(&ws.times.Rest)
	if ws.logits = ws.logits[:0]; len(ws.wanted) > 0 {
		if err := ws.forwardHead(); err != nil {
			return err
		}
	}
	return ws.finite()
}

// forwardLayer computes a layer. It ends with the first norm of the next layer.
func (ws *workspace) forwardLayer(i int) error {
	m, l := ws.model, &ws.model.layers[i]
	ws.layer = l
	ws.clock(&ws.times.Rest)
	if err := l.mixer.mix(ws, i); err != nil {
		return err
	}
	n := ws.live
	if n == 0 {
		return nil
	}
	ws.bias, ws.ends = l.vectors[mixedBias], l.vectors[mixedEndNorm]
	ws.normThen(n, l.vectors[feedNorm], (*workspace).residual)
	ws.clock(&ws.times.Rest)
	if err := l.feed.feed(ws, n); err != nil {
		return err
	}
	ws.bias, ws.ends = nil, l.vectors[feedEndNorm]
	var next []float32
	if i+1 < len(m.layers) {
		next = m.layers[i+1].vectors[attentionNorm]
	}
	ws.normThen(n, next, (*workspace).residual)
	return nil
}

// narrow leaves only the rows whose logits are wanted, if the layer is the last one: in hidden, and in x, which has rows of
// `width` elements. It returns how many rows are left. No position needs the others any more.
func (ws *workspace) narrow(layer int, x []float32, width int) int {
	if layer+1 < len(ws.model.layers) {
		return ws.live
	}
	for i, row := range ws.wanted { // ascending, so that no row is overwritten before it has moved
		copy(ws.hiddenRow(i), ws.hiddenRow(int(row)))
		copy(x[i*width:][:width], x[int(row)*width:])
		ws.wanted[i] = int32(i)
	}
	ws.live = len(ws.wanted)
	return ws.live
}

// wantedSegments appends runs of neighbouring wanted rows, as segments of the rows that narrow leaves.
func (ws *workspace) wantedSegments(runs []segment) []segment {
	left := 0
	for _, x := range ws.segments {
		for last := -2; left < len(ws.wanted) && int(ws.wanted[left]) < x.row+x.n; left++ {
			row := int(ws.wanted[left])
			if row == last+1 {
				runs[len(runs)-1].n++
			} else {
				runs = append(runs, segment{session: x.session, item: x.item, row: left, angles: row, n: 1, position: x.position + row - x.row})
			}
			last = row
		}
	}
	return runs
}

// forwardHead norms the wanted rows and computes their logits, if any are wanted.
func (ws *workspace) forwardHead() error {
	m, n := ws.model, len(ws.wanted)
	ws.normThen(n, m.outputNorm, (*workspace).normWanted)
	ws.clock(&ws.times.Rest)
	if ws.noHead {
		return nil
	}
	ws.logits = grow(ws.logits, n*m.config.Vocabulary)
	err := ws.multiply(ws.normed, n, product{m.head, ws.logits})
	if m.config.LogitCap > 0 && err == nil {
		ws.each(n, (*workspace).capLogits)
	}
	ws.clock(&ws.times.Head)
	return err
}

// capLogits caps the logits of wanted row i.
func (ws *workspace) capLogits(i int) {
	n := ws.model.config.Vocabulary
	x := ws.logits[i*n:][:n]
	ops.Softcap(x, x, 1, ws.model.config.LogitCap)
}

// normThen does a step for n rows that ends with a norm by these weights, or with none.
func (ws *workspace) normThen(n int, weights []float32, step func(ws *workspace, row int)) {
	ws.weights = weights
	ws.each(n, step)
	if weights != nil {
		ws.stage++
	}
}

// hiddenRow and normedRow are row number `row` of hidden and of normed.
func (ws *workspace) hiddenRow(row int) []float32 {
	n := ws.model.config.Embedding
	return ws.hidden[row*n:][:n]
}

func (ws *workspace) normedRow(row int) []float32 {
	n := ws.model.config.Embedding
	return ws.normed[row*n:][:n]
}

// begin is the embedding of a row's token, and the angles of its position.
func (ws *workspace) begin(row int) {
	m := ws.model
	if err := m.embedding.row(ws.hiddenRow(row), int(ws.tokens[row])); err != nil {
		panic("BUG: model: " + err.Error()) // tokens have been checked
	}
	if m.row.scaled {
		ops.Scale(ws.hiddenRow(row), ws.hiddenRow(row), float32(math.Sqrt(float64(m.config.Embedding))))
	}
	for kind, a := range m.angles {
		cos, sin := ws.angles(kind, row)
		a.Fill(cos, sin, int(ws.positions[row]))
	}
}

// angles are the cosines and sines of a row in a kind of layers.
func (ws *workspace) angles(kind, row int) (cos, sin []float32) {
	n, most := ws.model.angles[kind].Pairs(), ws.model.config.extent(sizePairs)
	at := (kind*ws.rows + row) * most
	return ws.cos[at:][:n], ws.sin[at:][:n]
}

// residual adds what a part of a layer has computed for a row, and norms the sum.
func (ws *workspace) residual(row int) {
	hidden, mixed := ws.hiddenRow(row), ws.mixed[row*ws.model.config.Embedding:][:ws.model.config.Embedding]
	if ws.bias != nil {
		ops.Add(mixed, mixed, ws.bias)
	}
	if ws.ends != nil {
		ops.RMSNorm(mixed, mixed, ws.ends, ws.model.config.Epsilon)
	}
	ops.Add(hidden, hidden, mixed)
	if ws.weights != nil {
		ws.norm(row)
	}
}

// norm norms a row.
func (ws *workspace) norm(row int) { ws.normTo(row, row) }

// normWanted norms the hidden state of wanted row i.
func (ws *workspace) normWanted(i int) { ws.normTo(i, int(ws.wanted[i])) }

func (ws *workspace) normTo(to, row int) {
	out := ws.normedRow(to)
	ops.RMSNorm(out, ws.hiddenRow(row), ws.weights, ws.model.config.Epsilon)
	ws.check(out)
}

// normMixed norms what attention has computed for a row.
func (ws *workspace) normMixed(row int) {
	n := ws.model.config.extent(sizeQueries)
	x := ws.attended[row*n:][:n]
	ops.RMSNorm(x, x, ws.layer.vectors[mixedNorm], ws.model.config.Epsilon)
}

// sound is the stage of a batch whose norms are all finite.
const sound = 1 << 30

// check looks at the first element of a norm's result. If the norm's input has an infinity or a NaN, or the sum of its squares
// overflows, no element of the result is finite.
func (ws *workspace) check(normed []float32) {
	if ops.Finite(normed[:1]) {
		return
	}
	for {
		bad := ws.bad.Load()
		if bad <= ws.stage || ws.bad.CompareAndSwap(bad, ws.stage) {
			return
		}
	}
}

// finite is an error if the batch made numbers that are not finite. It names the part of the model that did.
func (ws *workspace) finite() error {
	stage := int(ws.bad.Load())
	where := ""
	switch {
	case stage == sound && ops.Finite(ws.logits):
		return nil
	case stage == sound:
		where = "the head"
	case stage == 0:
		where = "the embedding"
	case stage%2 == 1:
		where = fmt.Sprintf("the attention of layer %d", stage/2)
	default:
		where = fmt.Sprintf("the feed-forward part of layer %d", stage/2-1)
	}
	return errorf(where, "computes numbers that are not finite: the weights are damaged, or their activations are too large for 32-bit floats")
}
