package ggml

import (
	"errors"
	"fmt"
	"unsafe"
)

// Product is activations times copies of one matrix: a graph of one ggml_mul_mat,
// float activations in and floats out, for each copy.
type Product struct {
	// ActGroup is how many activations share a scale when ggml has quantized them.
	ActGroup int
	// Out has the products, of row r with activations j at j*m+r.
	Out []float32

	l       *Library
	ctx     pointer
	buffers []pointer
	graphs  []pointer
	next    int
	threads []*Threads
}

// Threads are threads that compute a product together, the caller's among them.
type Threads struct {
	p             *Product
	backend, pool pointer
}

// Matrix is what to multiply: M rows of K weights in blocks of a type of GGUF with N
// rows of activations, and a number of copies of the weights.
type Matrix struct {
	Type    string
	Blocks  []byte
	X       []float32 // N*K
	M, K, N int
	Copies  int
}

// ErrUnsupported is returned for a buffer type that does not repack the blocks' type.
var ErrUnsupported = errors.New("ggml: the buffer type does not multiply this type")

// NewProduct copies weights, into buffers of a type that Buffers names, and
// activations. The error of a type of weights that it does not multiply is
// ErrUnsupported.
func (l *Library) NewProduct(x Matrix, buffer string) (*Product, error) {
	typ, err := l.typeOf(x.Type)
	if err != nil {
		return nil, err
	}
	buft, err := l.buffer(buffer)
	if err != nil {
		return nil, err
	}
	if x.M < 1 || x.K < 1 || x.N < 1 || x.Copies < 1 || len(x.X) != x.N*x.K {
		return nil, fmt.Errorf("ggml: %d rows of %d weights times %d rows in %d activations, %d copies: not a product", x.M, x.K, x.N, len(x.X), x.Copies)
	}
	p := &Product{l: l}
	if err := p.build(x, typ, buft); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// nodes is the number of tensors that a graph of one product has room for.
const nodes = 8

func (p *Product) build(x Matrix, typ int32, buft pointer) error {
	f := &p.l.f
	values := f.typeValues(typ)
	if int64(x.K)%values != 0 {
		return fmt.Errorf("ggml: %d columns are not whole blocks of %d", x.K, values)
	}
	p.ActGroup = int(f.typeValues(f.typeTraits(typ).dotType))
	memory := uint64(x.Copies)*(2*f.tensorMemory()+f.graphMemory(nodes, false)) + 2*f.tensorMemory() + 1<<12
	if p.ctx = f.contextNew(initParams{size: memory, noAlloc: 1}); p.ctx == nil {
		return fmt.Errorf("ggml: no memory for %d graphs", x.Copies)
	}
	weights := make([]pointer, x.Copies)
	for i := range weights {
		weights[i] = f.tensorNew(p.ctx, typ, int64(x.K), int64(x.M))
	}
	if have := f.tensorBytes(weights[0]); have != uint64(len(x.Blocks)) {
		return fmt.Errorf("ggml: %d bytes of blocks; %d rows of %d weights of %s have %d", len(x.Blocks), x.M, x.K, x.Type, have)
	}
	if err := p.place(weights, buft); err != nil {
		return err
	}
	act := f.tensorNew(p.ctx, 0, int64(x.K), int64(x.N)) // type 0 is F32
	if err := p.place([]pointer{act}, f.plainBuffer()); err != nil {
		return err
	}
	products := make([]pointer, x.Copies)
	for i, w := range weights {
		products[i] = f.mulMat(p.ctx, w, act)
	}
	if !f.deviceRuns(p.l.device, products[0]) {
		return ErrUnsupported
	}
	f.tensorSet(act, pointer(unsafe.SliceData(x.X)), 0, uint64(4*len(x.X)))
	for _, w := range weights {
		f.tensorSet(w, pointer(unsafe.SliceData(x.Blocks)), 0, uint64(len(x.Blocks)))
	}
	if err := p.shareOutput(products, x.M*x.N); err != nil {
		return err
	}
	for _, product := range products {
		g := f.graphNew(p.ctx, nodes, false)
		f.graphAdd(g, product)
		p.graphs = append(p.graphs, g)
	}
	return nil
}

// place puts tensors one after the other into a buffer of their own.
func (p *Product) place(tensors []pointer, buft pointer) error {
	f := &p.l.f
	align := f.buftAlign(buft)
	stride := (f.buftSize(buft, tensors[0]) + align - 1) / align * align
	base, err := p.allocate(buft, stride*uint64(len(tensors)))
	if err != nil {
		return err
	}
	for i, t := range tensors {
		if status := f.tensorPlace(p.buffers[len(p.buffers)-1], t, unsafe.Add(base, uint64(i)*stride)); status != 0 {
			return fmt.Errorf("ggml: a tensor is not placed: status %d", status)
		}
	}
	return nil
}

// allocate makes a buffer in huge pages, as timing.NewCopies does.
func (p *Product) allocate(buft pointer, size uint64) (base pointer, err error) {
	f := &p.l.f
	b := f.buftAlloc(buft, size)
	if b == nil {
		return nil, fmt.Errorf("ggml: no buffer of %d bytes", size)
	}
	p.buffers = append(p.buffers, b)
	base = f.bufferBase(b)
	hugePages(base, int(size))
	return base, nil
}

// shareOutput makes all products write to one buffer of `floats` floats.
func (p *Product) shareOutput(products []pointer, floats int) error {
	f := &p.l.f
	base, err := p.allocate(f.plainBuffer(), uint64(4*floats))
	if err != nil {
		return err
	}
	for _, t := range products {
		if status := f.tensorPlace(p.buffers[len(p.buffers)-1], t, base); status != 0 {
			return fmt.Errorf("ggml: a tensor is not placed: status %d", status)
		}
	}
	p.Out = unsafe.Slice((*float32)(base), floats)
	return nil
}

// maxThreads is GGML_MAX_N_THREADS.
const maxThreads = 512

// On makes a backend of n threads, which begin asleep. They go with the product.
func (p *Product) On(n int) (*Threads, error) {
	if n < 1 || n > maxThreads {
		return nil, fmt.Errorf("ggml: %d threads: want 1 to %d", n, maxThreads)
	}
	f := &p.l.f
	t := &Threads{p: p, backend: f.deviceStart(p.l.device, nil)}
	if t.backend == nil {
		return nil, errors.New("ggml: the CPU backend does not start")
	}
	p.threads = append(p.threads, t)
	var params poolParams
	f.poolInit(&params, int32(n))
	if t.pool = f.poolNew(&params); t.pool == nil {
		return nil, fmt.Errorf("ggml: %d threads do not start", n)
	}
	t.Sleep()
	f.setThreads(t.backend, int32(n))
	f.setPool(t.backend, t.pool)
	return t, nil
}

// Run computes Out with the next copy of the weights. It wakes threads that sleep.
func (t *Threads) Run() {
	p := t.p
	if status := p.l.f.compute(t.backend, p.graphs[p.next]); status != 0 {
		panic(fmt.Sprintf("BUG: ggml: a graph is not computed: status %d", status))
	}
	if p.next++; p.next == len(p.graphs) {
		p.next = 0
	}
}

// Sleep puts the threads to sleep that else look for work for a while.
func (t *Threads) Sleep() { t.p.l.f.poolPause(t.pool) }

// Close frees everything; neither Out nor threads may be used afterwards.
func (p *Product) Close() {
	f := &p.l.f
	for _, t := range p.threads {
		f.backendFree(t.backend)
		if t.pool != nil {
			f.poolFree(t.pool)
		}
	}
	for _, b := range p.buffers {
		f.bufferFree(b)
	}
	if p.ctx != nil {
		f.contextFree(p.ctx)
	}
	*p = Product{l: p.l}
}
