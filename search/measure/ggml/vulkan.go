package ggml

import (
	"fmt"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/search/measure/library"
)

// VulkanRemedy says where ggml's Vulkan backend comes from.
const VulkanRemedy = "npm i --ignore-scripts @node-llama-cpp/linux-x64-vulkan@3.22.1 brings it in node_modules/@node-llama-cpp/linux-x64-vulkan/bins/linux-x64-vulkan"

// Vulkan is ggml's Vulkan backend in this process, on the first device that it takes. It stays loaded.
type Vulkan struct {
	Version, Device string
	l               Library
	backend, memory pointer
}

// OpenVulkan loads libggml-vulkan.so of a folder. GGML_VK_VISIBLE_DEVICES numbers the devices that it may take.
func OpenVulkan(dir string) (*Vulkan, error) {
	if err := library.Here(); err != nil {
		return nil, fmt.Errorf("ggml: %w", err)
	}
	path, err := filepath.Abs(filepath.Join(dir, "libggml-vulkan.so"))
	if err != nil {
		return nil, fmt.Errorf("ggml: %w", err)
	}
	h, err := library.Load(path)
	if err != nil {
		return nil, fmt.Errorf("ggml: %w; %s", err, VulkanRemedy)
	}
	v := &Vulkan{l: Library{Path: path}}
	f := &v.l.f
	if err := bind(h, append(f.graphs(), function{"ggml_backend_dev_buffer_type", &f.deviceBuffer},
		function{"ggml_backend_dev_description", &f.deviceText}, function{"ggml_backend_tensor_get", &f.tensorGet})); err != nil {
		return nil, fmt.Errorf("ggml: %s: %w", path, err)
	}
	f.logTo(library.Callback(func(level int32, text, data pointer) {}), nil)
	return v, v.start()
}

// start starts the backend on its first device.
func (v *Vulkan) start() error {
	f := &v.l.f
	v.Version = f.version()
	v.l.Version = v.Version
	reg := f.backendInit()
	if reg == nil || f.deviceCount(reg) == 0 {
		return fmt.Errorf("ggml: %s: finds no device", v.l.Path)
	}
	v.l.device = f.deviceGet(reg, 0)
	v.Device = f.deviceText(v.l.device)
	if v.backend = f.deviceStart(v.l.device, nil); v.backend == nil {
		return fmt.Errorf("ggml: %s: does not start on %s", v.l.Path, v.Device)
	}
	v.memory = f.deviceBuffer(v.l.device)
	return nil
}

// Close ends the backend. Its products must be closed before.
func (v *Vulkan) Close() { v.l.f.backendFree(v.backend) }

// VulkanProduct is activations times copies of one matrix in the device's memory.
type VulkanProduct struct {
	p   Product // for its tensors and buffers
	v   *Vulkan
	all []pointer // the products, in order
}

// NewProduct places copies of a matrix and activations in the device's memory, for n products with one copy after the other. The error
// of a type that it does not multiply is ErrUnsupported. All products have one place, so that each waits for the one before it.
func (v *Vulkan) NewProduct(x Matrix, n int) (*VulkanProduct, error) {
	typ, err := v.l.typeOf(x.Type)
	if err != nil {
		return nil, err
	}
	if x.M < 1 || x.K < 1 || x.N < 1 || x.Copies < 1 || n < 1 || n > mostNodes || len(x.X) != x.N*x.K {
		return nil, fmt.Errorf("ggml: %d rows of %d weights times %d rows in %d activations, %d copies, %d times: not a product", x.M, x.K, x.N, len(x.X), x.Copies, n)
	}
	p := &VulkanProduct{p: Product{l: &v.l}, v: v}
	if err := p.build(x, typ, n); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *VulkanProduct) build(x Matrix, typ int32, n int) error {
	f := &p.v.l.f
	if int64(x.K)%f.typeValues(typ) != 0 {
		return fmt.Errorf("ggml: %d columns are not whole blocks of %d", x.K, f.typeValues(typ))
	}
	memory := uint64(x.Copies+n+2)*f.tensorMemory() + mostGraphs*f.graphMemory(mostNodes, false) + 1<<12
	if p.p.ctx = f.contextNew(initParams{size: memory, noAlloc: 1}); p.p.ctx == nil {
		return fmt.Errorf("ggml: no memory for %d products", x.Copies)
	}
	weights := make([]pointer, x.Copies)
	for i := range weights {
		weights[i] = f.tensorNew(p.p.ctx, typ, int64(x.K), int64(x.M))
	}
	if have := f.tensorBytes(weights[0]); have != uint64(len(x.Blocks)) {
		return fmt.Errorf("ggml: %d bytes of blocks; %d rows of %d weights of %s have %d", len(x.Blocks), x.M, x.K, x.Type, have)
	}
	act := f.tensorNew(p.p.ctx, 0, int64(x.K), int64(x.N)) // type 0 is F32
	for i := range n {
		p.all = append(p.all, f.mulMat(p.p.ctx, weights[i%x.Copies], act))
	}
	if !f.deviceRuns(p.v.l.device, p.all[0]) {
		return ErrUnsupported
	}
	for _, w := range weights { // a buffer each, as the largest is bounded
		if err := p.place(1, w); err != nil {
			return err
		}
		f.tensorSet(w, pointer(unsafe.SliceData(x.Blocks)), 0, uint64(len(x.Blocks)))
	}
	if err := p.place(1, act); err != nil {
		return err
	}
	f.tensorSet(act, pointer(unsafe.SliceData(x.X)), 0, uint64(4*len(x.X)))
	return p.place(0, p.all...)
}

// place puts tensors into a new buffer, at multiples of their size times step.
func (p *VulkanProduct) place(step uint64, tensors ...pointer) error {
	f := &p.v.l.f
	size := f.buftSize(p.v.memory, tensors[0])
	b := f.buftAlloc(p.v.memory, size)
	if b == nil {
		return fmt.Errorf("ggml: no buffer of %d bytes on %s", size, p.v.Device)
	}
	p.p.buffers = append(p.p.buffers, b)
	base := f.bufferBase(b)
	for i, t := range tensors {
		if status := f.tensorPlace(b, t, unsafe.Add(base, uint64(i)*step*size)); status != 0 {
			return fmt.Errorf("ggml: a tensor is not placed: status %d", status)
		}
	}
	return nil
}

// mostNodes and mostGraphs bound what a product computes.
const mostNodes, mostGraphs = 4096, 16

// Graph makes a graph of the first n products. A product has at most mostGraphs of them.
func (p *VulkanProduct) Graph(n int) (*VulkanGraph, error) {
	if n < 1 || n > mostNodes || n > len(p.all) || len(p.p.graphs) >= mostGraphs {
		return nil, fmt.Errorf("ggml: a graph of %d of %d products, after %d graphs: want 1 to %d, and %d graphs", n, len(p.all), len(p.p.graphs), mostNodes, mostGraphs)
	}
	g := p.v.l.f.graphNew(p.p.ctx, mostNodes, false)
	for _, t := range p.all[:n] {
		p.v.l.f.graphAdd(g, t)
	}
	p.p.graphs = append(p.p.graphs, g)
	return &VulkanGraph{p, g}, nil
}

// VulkanGraph is some products.
type VulkanGraph struct {
	p     *VulkanProduct
	graph pointer
}

// Run computes the graph once, waits, and says how long that took.
func (g *VulkanGraph) Run() (time.Duration, error) {
	began := time.Now()
	if status := g.p.v.l.f.compute(g.p.v.backend, g.graph); status != 0 {
		return 0, fmt.Errorf("ggml: a graph is not computed: status %d", status)
	}
	return time.Since(began), nil
}

// Read reads what the last product has made: row r with activations j at j*m+r.
func (p *VulkanProduct) Read(out []float32) {
	p.v.l.f.tensorGet(p.all[0], pointer(unsafe.SliceData(out)), 0, uint64(4*len(out)))
}

// Close frees everything.
func (p *VulkanProduct) Close() { p.p.Close() }
