package ggml

import (
	"fmt"

	"github.com/tmacc/tmacc/search/measure/library"
)

// pointer points to something of ggml's.
type pointer = library.Pointer

// initParams is ggml_init_params.
type initParams struct {
	size    uint64
	memory  pointer
	noAlloc uint64 // bool and padding
}

// poolParams is ggml_threadpool_params, or more: ggml fills it in.
type poolParams [1024]byte

// functions are the functions of ggml that this package calls.
type functions struct {
	version func() string
	logTo   func(callback uintptr, data pointer)

	backendInit  func() pointer // the registry of the CPU backend
	deviceCount  func(reg pointer) uint64
	deviceGet    func(reg pointer, i uint64) pointer
	deviceStart  func(device, params pointer) pointer // a backend
	deviceRuns   func(device, op pointer) bool
	procAddress  func(reg pointer, name string) uintptr
	deviceReg    func(device pointer) pointer
	backendFree  func(backend pointer)
	setThreads   func(backend pointer, n int32)
	setPool      func(backend, pool pointer)
	compute      func(backend, graph pointer) int32
	poolInit     func(params *poolParams, n int32)
	poolNew      func(params *poolParams) pointer
	poolPause    func(pool pointer)
	poolFree     func(pool pointer)
	plainBuffer  func() pointer
	buftName     func(buft pointer) string
	buftAlloc    func(buft pointer, size uint64) pointer
	buftAlign    func(buft pointer) uint64
	buftSize     func(buft, tensor pointer) uint64
	bufferBase   func(buffer pointer) pointer
	bufferFree   func(buffer pointer)
	tensorPlace  func(buffer, tensor, at pointer) int32
	tensorSet    func(tensor, data pointer, offset, size uint64)
	tensorBytes  func(tensor pointer) uint64
	tensorMemory func() uint64
	graphMemory  func(size uint64, grads bool) uint64
	contextNew   func(params initParams) pointer
	contextFree  func(ctx pointer)
	tensorNew    func(ctx pointer, typ int32, ne0, ne1 int64) pointer
	mulMat       func(ctx, a, b pointer) pointer
	graphNew     func(ctx pointer, size uint64, grads bool) pointer
	graphAdd     func(graph, tensor pointer)
	typeName     func(typ int32) string
	typeValues   func(typ int32) int64 // in a block
	typeTraits   func(typ int32) *typeTraits

	deviceBuffer func(device pointer) pointer // the type of buffers in its memory
	deviceText   func(device pointer) string
	tensorGet    func(tensor, data pointer, offset, size uint64)
}

// typeTraits is ggml_type_traits_cpu.
type typeTraits struct {
	fromFloat, vecDot uintptr
	dotType           int32 // what activations are quantized to
}

// find looks the functions of the CPU backend up in a loaded library and those it depends on.
func (f *functions) find(lib uintptr) error {
	return bind(lib, append(f.graphs(), []function{
		{"ggml_backend_reg_get_proc_address", &f.procAddress},
		{"ggml_backend_dev_backend_reg", &f.deviceReg},
		{"ggml_backend_cpu_set_n_threads", &f.setThreads},
		{"ggml_backend_cpu_set_threadpool", &f.setPool},
		{"ggml_threadpool_params_init", &f.poolInit},
		{"ggml_threadpool_new", &f.poolNew},
		{"ggml_threadpool_pause", &f.poolPause},
		{"ggml_threadpool_free", &f.poolFree},
		{"ggml_backend_cpu_buffer_type", &f.plainBuffer},
		{"ggml_get_type_traits_cpu", &f.typeTraits},
	}...))
}

// function is where the address of a function of a library goes.
type function struct {
	name string
	to   any
}

func bind(lib uintptr, all []function) error {
	for _, x := range all {
		if err := library.Bind(lib, x.name, x.to); err != nil {
			return fmt.Errorf("lacks %s, which ggml 0.25.1 has: %w", x.name, err)
		}
	}
	return nil
}

// graphs are the functions of all backends.
func (f *functions) graphs() []function {
	return []function{
		{"ggml_version", &f.version},
		{"ggml_log_set", &f.logTo},
		{"ggml_backend_init", &f.backendInit},
		{"ggml_backend_reg_dev_count", &f.deviceCount},
		{"ggml_backend_reg_dev_get", &f.deviceGet},
		{"ggml_backend_dev_init", &f.deviceStart},
		{"ggml_backend_dev_supports_op", &f.deviceRuns},
		{"ggml_backend_free", &f.backendFree},
		{"ggml_backend_graph_compute", &f.compute},
		{"ggml_backend_buft_name", &f.buftName},
		{"ggml_backend_buft_alloc_buffer", &f.buftAlloc},
		{"ggml_backend_buft_get_alignment", &f.buftAlign},
		{"ggml_backend_buft_get_alloc_size", &f.buftSize},
		{"ggml_backend_buffer_get_base", &f.bufferBase},
		{"ggml_backend_buffer_free", &f.bufferFree},
		{"ggml_backend_tensor_alloc", &f.tensorPlace},
		{"ggml_backend_tensor_set", &f.tensorSet},
		{"ggml_nbytes", &f.tensorBytes},
		{"ggml_tensor_overhead", &f.tensorMemory},
		{"ggml_graph_overhead_custom", &f.graphMemory},
		{"ggml_init", &f.contextNew},
		{"ggml_free", &f.contextFree},
		{"ggml_new_tensor_2d", &f.tensorNew},
		{"ggml_mul_mat", &f.mulMat},
		{"ggml_new_graph_custom", &f.graphNew},
		{"ggml_build_forward_expand", &f.graphAdd},
		{"ggml_type_name", &f.typeName},
		{"ggml_blck_size", &f.typeValues},
	}
}

// maxExtra bounds the list of buffer types, which ends with a null.
const maxExtra = 16

// extraBuffers are the device's buffer types that repack weights.
func (f *functions) extraBuffers(device pointer) []pointer {
	addr := f.procAddress(f.deviceReg(device), "ggml_backend_dev_get_extra_bufts")
	if addr == 0 {
		return nil
	}
	var get func(device pointer) *[maxExtra]pointer
	library.BindAddress(addr, &get)
	list := get(device)
	for i := 0; list != nil && i < maxExtra; i++ {
		if list[i] == nil {
			return append([]pointer(nil), list[:i]...)
		}
	}
	return nil
}
