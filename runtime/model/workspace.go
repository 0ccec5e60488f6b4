package model

import (
	"sync/atomic"
	"time"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/runtime/pool"
)

// workspace is the buffers of one call of Forward, kept for the next call. Steps work in place, so that nothing is allocated for
// a token.
type workspace struct {
	model    *Model
	threads  int // as pool.Threads counts them
	rows     int // of the present batch
	live     int // rows that the present step still needs: all, but in the last layer
	segments []segment
	tokens   []int32 // of each row

	hidden       []float32 // [rows][embedding]
	normed       []float32 // [rows][embedding], what the products of a layer read
	queries      []float32 // [rows][heads][size]
	keys, values []float32 // [rows][KV heads][size]
	attended     []float32 // [rows][heads][size]
	mixed        []float32 // [rows][embedding], added to hidden
	gates, ups   []float32 // [rows][elements between the matrices of the feed-forward part]
	cos, sin     []float32 // [kinds of layers][rows][pairs of a head]
	positions    []int32   // of each row
	wanted       []int32   // the rows whose logits or hidden states are wanted
	noHead       bool      // no logits are
	logits       []float32 // [wanted][vocabulary]

	// Of the present step over rows, and of the layer that it belongs to:
	step    func(ws *workspace, row int)
	layer   *layer
	weights []float32 // of the norm that ends the step, or nil
	bias    []float32 // added to hidden, or nil
	width   int       // of rows of gates
	ends    []float32 // weights of a norm of it, or nil
	stage   int32     // how many norms came before
	bad     atomic.Int32

	prepared  []*runtime.Product // whose activations acts holds
	acts      [][]byte
	calls     []runtime.Call
	floats    ops.Products
	attention attentionWork
	routed    routed
	times     Times
	since     time.Time
}

// segment is neighbouring rows of a batch: the next tokens of one session.
type segment struct {
	session  *Session
	item     int // of the call
	row      int // of the first
	angles   int // row of its angles
	n        int
	position int // of the first
}

// grow makes a slice of n elements of s, with old contents or none.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// lanes is how many threads share a step.
func (ws *workspace) lanes() int { return pool.Threads(ws.threads) }

// rowBytes is the memory that resize takes for a row.
func (c *Config) rowBytes() int64 {
	queries, keys := c.extent(sizeQueries), c.extent(sizeKeys)
	return 4 * int64(3*c.Embedding+3*queries+2*keys+len(c.Kinds)*c.rotated()+3)
}

// resize makes the buffers of n rows.
func (ws *workspace) resize(n int) {
	c := &ws.model.config
	queries, keys := c.extent(sizeQueries), c.extent(sizeKeys)
	ws.rows = n
	ws.tokens, ws.positions = grow(ws.tokens, n), grow(ws.positions, n)
	ws.hidden, ws.normed, ws.mixed = grow(ws.hidden, n*c.Embedding), grow(ws.normed, n*c.Embedding), grow(ws.mixed, n*c.Embedding)
	ws.queries, ws.attended = grow(ws.queries, n*queries), grow(ws.attended, n*queries)
	ws.keys, ws.values = grow(ws.keys, n*keys), grow(ws.values, n*keys)
	pairs := len(c.Kinds) * n * c.extent(sizePairs)
	ws.cos, ws.sin = grow(ws.cos, pairs), grow(ws.sin, pairs)
}

// eachGrain is how many rows a thread takes at least.
const eachGrain = 4

// each does a step for the first n rows.
func (ws *workspace) each(n int, step func(ws *workspace, row int)) {
	ws.step = step
	pool.Run(ws, n, eachGrain, ws.lanes())
}

// Do does a step for rows.
func (ws *workspace) Do(_, first, end int) {
	for row := first; row < end; row++ {
		ws.step(ws, row)
	}
}

// Times says where the time of Forward went. The parts add up to all of it.
type Times struct {
	Products  time.Duration // of all matrices but the head
	Attention time.Duration // and what belongs to it: rotation and storing into the cache
	Head      time.Duration
	Rest      time.Duration // norms, gates, residuals, embedding rows
}

// clock adds the time since its last call to a part.
func (ws *workspace) clock(part *time.Duration) {
	if ws.model.times == nil {
		return
	}
	now := time.Now()
	*part += now.Sub(ws.since)
	ws.since = now
}
