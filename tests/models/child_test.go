package models

import (
	"context"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/tune"
)

// envChild, in the environment, makes this test binary a child: it reads a request and writes a reply.
const envChild = "TMACC_TEST_MODELS"

// request is what a child computes.
type request struct {
	Task task
	// Kernels are mapped, by tune.ProblemHash, where a child cannot start processes, as under qemu. Otherwise they are nil, and
	// the child compiles kernels as `tmacc run` does, for the target that the environment names, and keeps them in Folder.
	Kernels map[string]*live.Binary
	Folder  string
}

// task is a model and what to compute by it.
type task struct {
	Path   string // of the file
	Decode int    // tokens after a prompt
	Parts  []part
}

// part is a prompt and the ways to compute its logits. Ways that open the model alike are neighbours.
type part struct {
	Prompt []int32
	Ways   []way
}

// way is how a model is opened and how a prompt comes.
type way struct {
	Cache   model.CacheType
	Threads int
	Piece   int  // tokens of a call, 0: all
	Among   bool // seven other sequences are in each batch
}

// opens says that two ways open the model alike.
func (w way) opens(as way) bool { return w.Cache == as.Cache && w.Threads == as.Threads }

// reply is what a child has computed, and by what.
type reply struct {
	Operators string // what package ops says
	Products  []ran
	Logits    []logits
}

// ran is a product and the target that its kernels are for.
type ran struct{ Product, Target string }

// logits are hashes of the logits after each token of a prompt, and of the tokens that were decoded after it.
type logits struct {
	Part   int
	Way    way
	Rows   []uint64
	Tokens []int32
}

// provider is where a child has products from.
type provider interface {
	model.Kernels
	ran() []ran
}

// serve answers one request.
func serve(in io.Reader, out io.Writer) error {
	var q request
	if err := gob.NewDecoder(in).Decode(&q); err != nil {
		return err
	}
	p, err := q.provider()
	if err != nil {
		return err
	}
	r := reply{Operators: ops.Info()}
	if r.Logits, err = q.Task.evaluate(p); err != nil {
		return err
	}
	r.Products = p.ran()
	return gob.NewEncoder(out).Encode(r)
}

func (q *request) provider() (provider, error) {
	if q.Kernels != nil {
		return &mapped{of: q.Kernels, products: map[string]*runtime.Product{}}, nil
	}
	p, err := kernels.New(context.Background(), kernels.Options{Folder: q.Folder})
	return compiled{p}, err
}

// compiled are products as `tmacc run` has them.
type compiled struct{ *kernels.Provider }

func (c compiled) ran() (out []ran) {
	for _, x := range c.Made() {
		out = append(out, ran{x.Problem.Name(), x.Product.Target()})
	}
	return out
}

// mapped are products whose kernels came with the request.
type mapped struct {
	of       map[string]*live.Binary
	products map[string]*runtime.Product // by tune.ProblemHash
	made     []ran
}

func (m *mapped) Product(w format.Weight, a format.Act) (*runtime.Product, error) {
	problem := ir.Problem{Weight: w, Act: a}
	id := tune.ProblemHash(problem)
	if x := m.products[id]; x != nil {
		return x, nil
	}
	b := m.of[id]
	if b == nil {
		return nil, fmt.Errorf("no kernels of %s came with the request", problem.Name())
	}
	code, err := b.Map()
	if err != nil {
		return nil, err
	}
	x, err := code.Product()
	if err != nil {
		return nil, err
	}
	m.products[id] = x
	m.made = append(m.made, ran{problem.Name(), x.Target()})
	return x, nil
}

func (m *mapped) ran() []ran { return m.made }

// evaluate computes all logits of a task.
func (x *task) evaluate(p provider) (out []logits, err error) {
	var m *model.Model
	defer func() { m.Close() }()
	for i, part := range x.Parts {
		for at, w := range part.Ways {
			if at == 0 || !w.opens(part.Ways[at-1]) {
				m.Close()
				if m, err = model.Open(x.Path, p, model.Options{Cache: w.Cache, Threads: w.Threads}); err != nil {
					return nil, err
				}
			}
			l := logits{Part: i, Way: w}
			if err := l.compute(m, part.Prompt, x.Decode); err != nil {
				return nil, err
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// sequences is how many there are in a batch with others, and place is where the one is among them whose logits count.
const (
	sequences = 8
	place     = 3
)

// compute feeds a prompt, and then the most likely token again and again.
func (l *logits) compute(m *model.Model, prompt []int32, decode int) error {
	b, err := newBatch(m, l.Way.Among, prompt)
	if err != nil {
		return err
	}
	defer b.close()
	piece := l.Way.Piece
	if piece == 0 {
		piece = len(prompt)
	}
	for part := range slices.Chunk(prompt, piece) {
		if err := l.feed(b, part); err != nil {
			return err
		}
	}
	for range decode {
		next := []int32{b.best}
		l.Tokens = append(l.Tokens, next...)
		if err := l.feed(b, next); err != nil {
			return err
		}
	}
	return nil
}

// feed feeds tokens and hashes their logits.
func (l *logits) feed(b *batch, tokens []int32) error {
	rows, err := b.feed(tokens)
	for _, row := range rows {
		l.Rows = append(l.Rows, hash(row))
	}
	return err
}

// hash is of the bits of a row.
func hash(row []float32) uint64 {
	h := fnv.New64a()
	var word [4]byte
	for _, x := range row {
		binary.LittleEndian.PutUint32(word[:], math.Float32bits(x))
		h.Write(word[:])
	}
	return h.Sum64()
}

// batch is the sequence of a prompt, alone or among others.
type batch struct {
	model *model.Model
	items []model.Item
	at    int     // of the sequence in items
	text  []int32 // that the others have parts of
	calls int
	best  int32 // the most likely next token
}

func newBatch(m *model.Model, among bool, text []int32) (*batch, error) {
	b, n := &batch{model: m, text: text}, 1
	if among {
		n, b.at = sequences, place
	}
	for range n {
		s, err := m.NewSession()
		if err != nil {
			return nil, err
		}
		b.items = append(b.items, model.Item{Session: s})
	}
	return b, nil
}

func (b *batch) close() {
	for _, x := range b.items {
		x.Session.Close()
	}
}

// feed appends tokens to the sequence, and others to the others, fewer or more. It returns the logits after each token.
func (b *batch) feed(tokens []int32) (rows [][]float32, err error) {
	for i := range b.items {
		first := (11*i + 5*b.calls) % len(b.text)
		n := 1 + (i+b.calls)%min(3, len(tokens))
		b.items[i].Tokens, b.items[i].Want = b.text[first:min(first+n, len(b.text))], model.Want(i%2)
	}
	b.calls++
	item := &b.items[b.at]
	item.Tokens, item.Want = tokens, model.WantAll
	if err := b.model.Forward(context.Background(), b.items); err != nil {
		return nil, err
	}
	for row := range slices.Chunk(item.Logits, b.model.Config().Vocabulary) {
		rows = append(rows, row)
	}
	if len(rows) != len(tokens) {
		return nil, fmt.Errorf("%d tokens have %d rows of logits", len(tokens), len(rows))
	}
	last := rows[len(rows)-1]
	b.best = int32(slices.Index(last, slices.Max(last)))
	return rows, nil
}
