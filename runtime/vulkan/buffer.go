package vulkan

import (
	"fmt"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// Buffer is memory that shaders see as storage buffers.
type Buffer struct {
	d      *Device
	size   int64
	handle vk.Buffer
	memory vk.DeviceMemory
	bytes  []byte // where the host reaches the memory
	host   bool
	used   point // the end of the last submission that uses it; guarded by d.mu, as is freed
	freed  bool
}

// Range is a part of a buffer, in bytes.
type Range struct {
	Buffer       *Buffer
	Offset, Size int64
}

// Properties of memory.
const (
	deviceMemory = vk.MemoryPropertyDeviceLocalBit
	hostMemory   = vk.MemoryPropertyHostVisibleBit | vk.MemoryPropertyHostCoherentBit
	cachedMemory = vk.MemoryPropertyHostCachedBit
)

// Buffer makes a buffer in the device's own memory. Its contents are undefined. The error is an *OutOfMemory if it does not fit.
func (d *Device) Buffer(size int64) (*Buffer, error) {
	kinds := []uint32{deviceMemory, 0}
	if d.unified {
		kinds = []uint32{deviceMemory | hostMemory | cachedMemory, deviceMemory | hostMemory}
	}
	return d.buffer(size, false, kinds)
}

// HostBuffer makes a buffer in memory that the host and the device both reach, for small data that change with each call. Contents are undefined.
func (d *Device) HostBuffer(size int64) (*Buffer, error) {
	return d.buffer(size, true, []uint32{hostMemory | cachedMemory, hostMemory})
}

// buffer makes a buffer in memory of the first of these kinds that there is.
func (d *Device) buffer(size int64, host bool, kinds []uint32) (b *Buffer, err error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave(&err)
	if size <= 0 || size > d.Limits.Allocation {
		return nil, fmt.Errorf("vulkan: a buffer of %d bytes on %s: one has 1 to %d: divide it", size, d.Name, d.Limits.Allocation)
	}
	b = &Buffer{d: d, size: size, host: host}
	if err := d.allocate(b, kinds); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		b.free()
		return nil, err
	}
	d.keep(b)
	return b, nil
}

// allocate makes the buffer and its memory, and maps what the host writes itself.
func (d *Device) allocate(b *Buffer, kinds []uint32) error {
	if err := d.createBuffer(b); err != nil {
		return err
	}
	var need vk.MemoryRequirements
	d.vk.GetBufferMemoryRequirements(d.handle, b.handle, &need)
	kind := -1
	for _, k := range kinds {
		if kind < 0 {
			kind = d.memoryType(need.MemoryTypeBits, k)
		}
	}
	if kind < 0 {
		return fmt.Errorf("vulkan: %s has no memory for buffers of this kind", d.Name)
	}
	if err := d.take(b, kind, int64(need.Size)); err != nil {
		return err
	}
	if err := d.check("vkBindBufferMemory", d.vk.BindBufferMemory(d.handle, b.handle, b.memory, 0)); err != nil {
		return err
	}
	if !b.host && !d.unified {
		return nil
	}
	var at unsafe.Pointer
	if err := d.check("vkMapMemory", d.vk.MapMemory(d.handle, b.memory, 0, ^uint64(0), 0, &at)); err != nil {
		return err
	}
	b.bytes = unsafe.Slice((*byte)(at), b.size)
	return nil
}

func (d *Device) createBuffer(b *Buffer) error {
	families := d.queueFamilies()
	create := &vk.BufferCreateInfo{SType: vk.StructureTypeBufferCreateInfo, Size: uint64(b.size),
		Usage: vk.BufferUsageStorageBufferBit | vk.BufferUsageTransferSrcBit | vk.BufferUsageTransferDstBit | vk.BufferUsageIndirectBufferBit}
	if len(families) > 1 {
		create.SharingMode, create.QueueFamilyIndexCount, create.PQueueFamilyIndices = vk.SharingModeConcurrent, uint32(len(families)), &families[0]
	}
	return d.check("vkCreateBuffer", d.vk.CreateBuffer(d.handle, create, nil, &b.handle))
}

// memoryType is the first type of memory with all these properties, -1 if there is none.
func (d *Device) memoryType(allowed, properties uint32) int {
	for i, t := range d.memory.MemoryTypes[:d.memory.MemoryTypeCount] {
		if allowed>>i&1 != 0 && t.PropertyFlags&properties == properties {
			return i
		}
	}
	return -1
}

// take allocates the memory of a buffer.
func (d *Device) take(b *Buffer, kind int, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if limit := d.options.MemoryLimit; limit > 0 && !b.host && size > limit-d.allocated {
		return &OutOfMemory{d.Name, size, limit - d.allocated}
	}
	if d.buffers >= d.Limits.Allocations {
		return fmt.Errorf("vulkan: %s has %d buffers, and no more: use ranges of larger ones", d.Name, d.buffers)
	}
	r := d.vk.AllocateMemory(d.handle, &vk.MemoryAllocateInfo{SType: vk.StructureTypeMemoryAllocateInfo,
		AllocationSize: uint64(size), MemoryTypeIndex: uint32(kind)}, nil, &b.memory)
	if r == vk.ErrorOutOfDeviceMemory || r == vk.ErrorOutOfHostMemory {
		return &OutOfMemory{d.Name, size, d.heapFree(int(d.memory.MemoryTypes[kind].HeapIndex))}
	}
	if err := d.check("vkAllocateMemory", r); err != nil {
		return err
	}
	if d.buffers++; !b.host {
		d.allocated += b.size
	}
	return nil
}

// heapFree is how many bytes of a heap are free now, as far as the driver tells.
func (d *Device) heapFree(heap int) int64 {
	now := Info{handle: d.Info.handle, extensions: d.extensions}
	d.instance.memories(&now)
	free := now.Heaps[heap].Free
	if free == now.Heaps[heap].Bytes {
		free -= min(free, d.allocated)
	}
	return free
}

// FreeMemory is how many bytes of the device's own memory buffers may still take. Other programs may be quicker.
func (d *Device) FreeMemory() (bytes int64, err error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.leave(&err)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, h := range d.Heaps {
		if h.Device {
			bytes = max(bytes, d.heapFree(i))
		}
	}
	if limit := d.options.MemoryLimit; limit > 0 {
		bytes = min(bytes, limit-d.allocated)
	}
	return bytes, nil
}

// Fits is an *OutOfMemory if buffers with this sum of bytes do not fit.
func (d *Device) Fits(bytes int64) error {
	free, err := d.FreeMemory()
	if err == nil && bytes > free {
		return &OutOfMemory{d.Name, bytes, free}
	}
	return err
}

// Size is the length of b in bytes.
func (b *Buffer) Size() int64 { return b.size }

// Bytes is the memory of a HostBuffer, nil for others. Sequences see what was written before they start. What they write is there when Wait
// has returned. It may not be used after Free or Close.
func (b *Buffer) Bytes() []byte {
	if !b.host {
		return nil
	}
	return b.bytes
}

// All is the whole of b.
func (b *Buffer) All() Range { return Range{b, 0, b.size} }

// Split divides b into ranges that shaders may see. Each but the last is a multiple of unit bytes, such as a row of a matrix.
func (b *Buffer) Split(unit int64) ([]Range, error) {
	step, err := rangeStep(b.d.Limits, unit)
	if err != nil {
		return nil, err
	}
	if b.size <= b.d.Limits.Range {
		return []Range{b.All()}, nil
	}
	var all []Range
	for at := int64(0); at < b.size; at += step {
		all = append(all, Range{b, at, min(step, b.size-at)})
	}
	return all, nil
}

// rangeStep is the most bytes of a range that are a multiple of unit and end where another range may begin.
func rangeStep(l Limits, unit int64) (int64, error) {
	if unit <= 0 {
		return 0, fmt.Errorf("vulkan: ranges of units of %d bytes", unit)
	}
	whole := unit / gcd(unit, l.RangeAlignment) // units between places where a range may begin, over the alignment
	if whole > l.Range/l.RangeAlignment {
		return 0, fmt.Errorf("vulkan: ranges of at most %d bytes that begin at multiples of %d and of %d: make the unit a multiple of %[2]d, and smaller",
			l.Range, l.RangeAlignment, unit)
	}
	return l.Range / (whole * l.RangeAlignment) * (whole * l.RangeAlignment), nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Free frees b when what has started with it is done. A sequence that uses it can no longer start. Close frees all buffers.
func (b *Buffer) Free() { b.d.release(b, b.lastUse) }

func (b *Buffer) lastUse() point {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	return b.used
}

func (b *Buffer) free() {
	d := b.d
	if b.handle != 0 {
		d.vk.DestroyBuffer(d.handle, b.handle, nil)
	}
	if b.memory != 0 {
		d.vk.FreeMemory(d.handle, b.memory, nil)
		if d.buffers--; !b.host {
			d.allocated -= b.size
		}
	}
	b.freed, b.bytes = true, nil
}
