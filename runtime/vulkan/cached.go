package vulkan

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// openCache opens the user's folder of drivers' results. Without it pipelines are compiled again by each process.
func (d *Device) openCache() {
	path, err := cache.Path("vulkan")
	if err == nil {
		d.cache, err = cache.Open(path)
	}
	d.cacheFailed(err)
}

func (d *Device) cacheFailed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.cacheErr = err
	}
}

// CacheError is why pipelines were not kept in the user's folder of files, nil if they were or need not be.
func (d *Device) CacheError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cacheErr
}

// identity is all that decides what the driver makes of a module.
func (p *Pipeline) identity(spirv []byte) []byte {
	l := p.layout
	text := fmt.Appendf(nil, "pipeline 1\n%s\n%x\n%q %d %d %d %v", p.d.Info.identity, sha256.Sum256(spirv), l.Entry, l.Buffers, l.PushBytes, l.Subgroup, l.FullSubgroups)
	for _, id := range slices.Sorted(maps.Keys(l.Constants)) {
		text = fmt.Appendf(text, " %d=%d", id, l.Constants[id])
	}
	return text
}

// cacheHeader is the length of the header of a driver's result. Some drivers keep results elsewhere, and return only the header.
const cacheHeader = 32

// stored is a pipeline cache with what the user's folder of files has for an identity, or an empty one.
func (d *Device) stored(identity []byte) (c vk.PipelineCache, known bool, err error) {
	var data []byte
	if d.cache != nil {
		data, _, err = d.cache.Get(identity)
		d.cacheFailed(err)
	}
	r := d.vk.CreatePipelineCache(d.handle, &vk.PipelineCacheCreateInfo{SType: vk.StructureTypePipelineCacheCreateInfo,
		InitialDataSize: uintptr(len(data)), PInitialData: unsafe.Pointer(unsafe.SliceData(data))}, nil, &c)
	return c, len(data) > 0, d.check("vkCreatePipelineCache", r)
}

// store keeps what the driver made.
func (d *Device) store(identity []byte, c vk.PipelineCache) {
	if d.cache == nil {
		return
	}
	var n uintptr
	if r := d.vk.GetPipelineCacheData(d.handle, c, &n, nil); r != vk.Success || n <= cacheHeader {
		return
	}
	data := make([]byte, n)
	if r := d.vk.GetPipelineCacheData(d.handle, c, &n, unsafe.Pointer(&data[0])); r == vk.Success {
		d.cacheFailed(d.cache.Put(identity, data[:n]))
	}
}
