package model

import (
	"cmp"
	"fmt"
	"math"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
)

// Memory is what a model takes, in bytes.
type Memory struct {
	Weights int64 // packed matrices, panels and vectors
	Head    int64 // of Weights, the matrix of the head, which may be the embedding
	Cache   int64 // keys and values of one session of Options.Context tokens
	Buffers int64 // of one call of Forward, with Options.Chunk tokens
}

// Total is all of it with one session.
func (m Memory) Total() int64 { return m.Weights + m.Cache + m.Buffers }

// logitRows is how many rows of logits Buffers counts.
const logitRows = 8

// newAttentions are the mixers of the kinds of layers, without memory for their pages.
func (m *Model) newAttentions() (all []*attention) {
	c := &m.config
	elem := map[CacheType]ops.Elem{CacheF16: ops.F16, CacheF32: ops.F32, CacheQ8: ops.I8}[m.options.Cache]
	width, shared := m.row.scoreWidth(c), new(pages)
	for i, kind := range c.Kinds {
		a := &attention{kind: i, heads: c.Heads, kvHeads: c.KVHeads, size: c.HeadSize, positions: m.options.Context, chunk: m.options.Chunk, window: m.options.Context,
			scale: float32(1 / math.Sqrt(float64(width))), cap: c.ScoreCap, epsilon: c.Epsilon, elem: elem, pages: shared}
		if kind.Window > 0 {
			a.window = min(kind.Window, a.positions)
		}
		shared.size = a.pageBytes()
		all = append(all, a)
	}
	return all
}

// plan computes the memory of the model, refuses it if it does not suffice, and gives the rest of it to the cache.
func (m *Model) plan(l *loader, kinds []*attention) error {
	for _, x := range l.plans {
		m.memory.Weights += x.bytes
		if x.role == headWeights || x.role == embedding && m.memory.Head == 0 {
			m.memory.Head, m.headType = x.bytes, x.typeName
		}
	}
	for _, kind := range m.config.KindOf {
		m.memory.Cache += kinds[kind].bytes(m.options.Context)
	}
	m.memory.Buffers = int64(m.options.Chunk)*(m.config.rowBytes()+m.feed.rowBytes()) + 4*logitRows*int64(m.config.Vocabulary) + mostApart
	limit := cmp.Or(m.options.MemoryLimit, systemMemory(), math.MaxInt)
	if total := m.memory.Total(); total > min(limit, math.MaxInt) {
		return errorf("memory", "the model takes %s: %s for weights, %s for a session of %d tokens, %s for buffers; there are %s. Ask for fewer tokens (option Context) or raise MemoryLimit",
			size64(total), size64(m.memory.Weights), size64(m.memory.Cache), m.options.Context, size64(m.memory.Buffers), size64(limit))
	}
	session := int64(0)
	for _, kind := range m.config.KindOf {
		session += kinds[kind].deviceBytes()
	}
	if err := l.fitsDevice(&m.options, session); err != nil {
		return err
	}
	shared := kinds[0].pages
	shared.total = (limit - m.memory.Weights - m.memory.Buffers) / int64(shared.size)
	shared.left = shared.total
	return nil
}

// fitsDevice refuses a model whose matrices, with the buffers of their products, the device has no room for, before any is there. A session needs none: without room
// for it the steps are computed by products.
func (l *loader) fitsDevice(opt *Options, session int64) error {
	var weights, buffers int64
	var on *runtime.Product
	for i := range l.plans {
		x := &l.plans[i]
		if x.p == nil || x.rowsOnly || l.float || x.p.Device() == "" {
			continue
		}
		rows := opt.Chunk
		if x.role == headWeights || x.role == embedding {
			rows = min(rows, logitRows)
		}
		act, err := x.p.ActSize(rows, x.k)
		if err != nil {
			return err
		}
		weights, buffers, on = weights+x.bytes, max(buffers, int64(act)+4*int64(rows)*int64(x.m)), x.p
	}
	if on == nil {
		return nil
	}
	room, err := on.Room()
	if need := weights + buffers; err == nil && need > room {
		err = errorf("memory of "+on.Device(), "the weights take %s, and buffers for %d tokens at once %s; %s are free: %s are missing, and %s more for a session of %d tokens that stays there. Free them, choose a smaller model, or run it on the CPU",
			size64(weights), opt.Chunk, size64(buffers), size64(room), size64(need-room), size64(session), opt.Context)
	}
	return err
}

// size64 writes a number of bytes for people.
func size64(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
