package model

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
)

// Options says how a model runs. The zero value is usual.
type Options struct {
	// Threads is how many threads share the work of a call: AllThreads of package runtime for GOMAXPROCS, which 0 means, too.
	Threads int
	// Context is the most tokens of a session, up to those that the model was made for. 0 is that number, at most 4096.
	Context int
	// Chunk is the most tokens that one step of a call computes, of all its sessions. 0 is 512. Buffers grow with it.
	Chunk int
	// Cache is the type of the keys and values that sessions keep: CacheF16, CacheF32 or CacheQ8.
	Cache CacheType
	// Head, unless "", is the GGUF type of the output head's weights in memory, Q8_0 or Q6_K. A head whose type takes more is quantized to it, and so are an
	// embedding that is the head, too, and one of floats. It is an error if their rows are not whole blocks of 32 or 256 columns.
	Head string
	// Float dequantizes all weights and keeps activations as floats. It is slow, takes much memory, and is for comparisons.
	Float bool
	// MemoryLimit is how many bytes weights, buffers and one session of Context tokens may take, and later all sessions together.
	// 0 is what the system has, where that is known.
	MemoryLimit int64
	// Progress, unless nil, is called while weights are read, with the bytes done and in all.
	Progress func(done, total int64)
	// Packed, unless nil, keeps matrices as products want them, so that the next Open of the same file maps them.
	Packed Packed
	// Times, unless nil, gets the time that calls of Forward take added, by part. It may be read between calls.
	Times *Times
}

// CacheType is a type of keys and values in caches.
type CacheType uint8

// The types of caches. F16 takes half the memory and time of F32, which is for comparisons. Q8 takes half the memory of F16: integers of 8 bits, with
// a scale for each position and head, of keys and of values.
const (
	CacheF16 CacheType = iota
	CacheF32
	CacheQ8
)

// Model is a model whose weights are in memory. Its methods may be called concurrently, except Close.
type Model struct {
	config     Config
	row        *architecture
	layers     []layer
	embedding  *matrix
	head       *matrix // which may be the embedding
	headType   string
	outputNorm []float32
	resident   *resident     // steps that stay on the device of the products
	kept       func() error  // frees matrices that are mapped; nil: there are none
	angles     []*ops.Angles // of each kind of layers
	pages      *pages
	feed       feed // of all layers
	options    Options
	memory     Memory
	times      *Times
	mu         sync.Mutex // of free and times
	free       []*workspace
	closed     atomic.Bool
	identity   func() ([sha256.Size]byte, error) // newIdentity, once it was asked for
}

// Open reads the GGUF file at path, or all parts of a split model. Products of its formats come from k. Before weights are read,
// Open computes the memory that the model takes, and refuses it if there is not enough. The caller closes the model.
func Open(path string, k Kernels, opt Options) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return New(f, k, opt)
}

// New is Open of a file that is open already. The model does not use f after New.
func New(f *gguf.File, k Kernels, opt Options) (*Model, error) {
	l, err := newLoader(f, k, &opt)
	if err != nil {
		return nil, err
	}
	opt.Threads = cmp.Or(opt.Threads, runtime.AllThreads)
	opt.Chunk = cmp.Or(opt.Chunk, 512)
	m := &Model{config: l.config, row: l.row, feed: newFeed(&l.config), options: opt, times: opt.Times}
	m.identity = sync.OnceValues(m.newIdentity)
	if err := m.load(l); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Check refuses what New refuses by the metadata and the list of tensors. It takes no time: a caller can do so before kernels
// are made.
func Check(f *gguf.File, opt Options) error {
	_, err := newLoader(f, PureGo{}, &opt)
	return err
}

// Types are the GGUF types of blocks that New asks products for, in that order. The error is Check's, and it takes no more time.
func Types(f *gguf.File, opt Options) (names []string, err error) {
	l, err := newLoader(f, PureGo{}, &opt)
	if err != nil {
		return nil, err
	}
	for _, x := range l.plans {
		if x.p != nil && !l.float && !slices.Contains(names, x.typeName) {
			names = append(names, x.typeName)
		}
	}
	return names, nil
}

// newLoader reads the metadata and finds the tensors. It sets Options.Context.
func newLoader(f *gguf.File, k Kernels, opt *Options) (*loader, error) {
	if err := checkHead(opt.Head); err != nil {
		return nil, err
	}
	row, err := findArchitecture(f)
	if err != nil {
		return nil, err
	}
	config, err := newConfig(f, row)
	if err != nil {
		return nil, err
	}
	if opt.Context, err = config.positions(opt.Context); err != nil {
		return nil, err
	}
	l := &loader{context: opt.Context, f: f, row: row, config: config, kernels: k, float: opt.Float, head: opt.Head, progress: opt.Progress, packed: opt.Packed, products: map[string]*runtime.Product{}}
	if err := l.find(); err != nil {
		return nil, err
	}
	return l, nil
}

// load reads the weights that l has planned.
func (m *Model) load(l *loader) error {
	kinds := m.newAttentions()
	if err := m.plan(l, kinds); err != nil {
		return err
	}
	m.layers = make([]layer, m.config.Layers)
	for i := range m.layers {
		m.layers[i].mixer, m.layers[i].feed = kinds[m.config.KindOf[i]], m.feed
	}
	kept, free, err := l.kept()
	if err != nil {
		return err
	}
	m.kept = free
	for i := range l.plans {
		x := &l.plans[i]
		if x.role.matrix() && kept != nil {
			m.put(x, kept[0])
			kept = kept[1:]
			continue
		}
		if err := m.loadOne(l, x); err != nil {
			return err
		}
	}
	m.head = cmp.Or(m.head, m.embedding)
	if err := m.loadStacks(); err != nil {
		return err
	}
	for _, kind := range m.config.Kinds {
		m.angles = append(m.angles, ops.NewAngles(kind.Rope))
	}
	m.resident = newResident(m)
	return l.f.Unchanged()
}

// loadOne reads one tensor.
func (m *Model) loadOne(l *loader, x *plan) error {
	if !x.role.matrix() {
		v, err := l.vector(x)
		if err != nil {
			return err
		}
		l.advance(x.bytes)
		switch x.role {
		case outputNorm:
			m.outputNorm = v
		case ropeFactors, shortFactors, longFactors:
			rope := &m.config.Kinds[0].Rope
			rope.Factors = v
			if err := rope.Check(); err != nil {
				return errorf(quoted(x.tensor.Name), "%v", err)
			}
		default:
			m.layers[x.layer].vectors[x.role] = v
		}
		return nil
	}
	w, err := l.matrix(x)
	if err == nil {
		m.put(x, w)
		l.advance(x.bytes)
	}
	return err
}

// loadStacks copies the matrices of experts to the device of their products.
func (m *Model) loadStacks() error {
	for i := range m.layers {
		l := &m.layers[i]
		for role, stack := range l.stacks {
			if len(stack) == 0 || stack[0].packed == nil || stack[0].packed.Product().Device() == "" {
				continue
			}
			var all []*runtime.Matrix
			for _, x := range stack {
				all = append(all, x.packed)
			}
			apart, why, err := runtime.LoadStack(all)
			if err != nil {
				return err
			}
			l.apart[role], l.separate = apart, cmp.Or(l.separate, why)
		}
	}
	return nil
}

// put puts a matrix in its place.
func (m *Model) put(x *plan, w *matrix) {
	switch x.role {
	case embedding:
		m.embedding = w
	case headWeights:
		m.head = w
	default:
		if l := &m.layers[x.layer]; x.role.stack() {
			l.stacks[x.role] = append(l.stacks[x.role], w)
		} else {
			l.matrices[x.role] = w
		}
	}
}

// Config is the hyperparameters.
func (m *Model) Config() Config { return m.config }

// Context is the most tokens of a session.
func (m *Model) Context() int { return m.options.Context }

// HeadType is the GGUF type of the output head's weights: Options.Head, or that of the file.
func (m *Model) HeadType() string { return m.headType }

// Memory is what the model takes.
func (m *Model) Memory() Memory { return m.memory }

// Close frees the weights. No call may be using the model, and its sessions are of no more use.
func (m *Model) Close() error {
	if m == nil || m.closed.Swap(true) {
		return nil
	}
	m.resident.free()
	var errs []error
	for _, x := range m.matrices() {
		errs = append(errs, x.close())
	}
	if m.free = nil; m.kept != nil {
		errs = append(errs, m.kept())
	}
	return errors.Join(errs...)
}
