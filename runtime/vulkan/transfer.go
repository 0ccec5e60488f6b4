package vulkan

import (
	"fmt"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// Staging memory: while the device copies from one slot, the host fills the next.
const (
	slots     = 4
	slotBytes = 8 << 20
)

// slot is a piece of staging memory with the commands that copy it.
type slot struct {
	buffer   *Buffer
	pool     vk.CommandPool
	commands vk.CommandBuffer
	busy     point
}

// ready waits until the device no longer uses a slot that was taken, and returns the slot to the others if it cannot be used.
func (d *Device) ready(s *slot) error {
	err := d.wait(s.busy)
	if err == nil && s.buffer == nil {
		err = d.fill(s)
	}
	if err != nil {
		d.staging <- s
	}
	return err
}

// fill makes the memory and commands of a slot when they are first needed.
func (d *Device) fill(s *slot) (err error) {
	s.pool, s.commands, err = d.commandPool(d.transfer, vk.CommandPoolCreateResetCommandBufferBit)
	if err != nil {
		return err
	}
	b := &Buffer{d: d, size: d.slotBytes, host: true}
	if err := d.allocate(b, []uint32{hostMemory | cachedMemory, hostMemory}); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		b.free()
		d.vk.DestroyCommandPool(d.handle, s.pool, nil)
		return err
	}
	s.buffer = b
	return nil
}

func (s *slot) destroy(d *Device) {
	if s.buffer != nil {
		d.vk.DestroyCommandPool(d.handle, s.pool, nil)
		s.buffer.free()
	}
}

// Upload copies data to b, from an offset in bytes. It returns when data may be changed again. What starts later sees the copy.
func (b *Buffer) Upload(offset int64, data []byte) (err error) {
	if err := b.enter("upload", offset, len(data)); err != nil {
		return err
	}
	defer b.d.leave(&err)
	if b.bytes != nil {
		if err := b.d.wait(b.lastUse()); err != nil {
			return err
		}
		copy(b.bytes[offset:], data)
		return nil
	}
	for len(data) > 0 {
		n, err := b.uploadSlot(offset, data)
		if err != nil {
			return err
		}
		offset, data = offset+int64(n), data[n:]
	}
	return nil
}

// uploadSlot starts the copy of as much as a slot holds.
func (b *Buffer) uploadSlot(offset int64, data []byte) (int, error) {
	s := <-b.d.staging
	if err := b.d.ready(s); err != nil {
		return 0, err
	}
	defer func() { b.d.staging <- s }()
	n := copy(s.buffer.bytes, data)
	return n, b.d.copySlot(s, Range{b, offset, int64(n)}, false)
}

// copySlot starts a copy between a slot and a range of a buffer.
func (d *Device) copySlot(s *slot, r Range, down bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Buffer.freed {
		return fmt.Errorf("vulkan: a buffer was freed while it was copied")
	}
	if err := d.begin(s.commands, vk.CommandBufferUsageOneTimeSubmitBit); err != nil {
		return err
	}
	d.afterAll(s.commands)
	staged := Range{s.buffer, 0, r.Size}
	if down {
		d.copy(s.commands, staged, r)
		d.beforeHost(s.commands)
	} else {
		d.copy(s.commands, r, staged)
	}
	if err := d.check("vkEndCommandBuffer", d.vk.EndCommandBuffer(s.commands)); err != nil {
		return err
	}
	end, err := d.submit(d.transfer, s.commands, r.Buffer.used)
	if err == nil {
		s.busy, r.Buffer.used = end, end
	}
	return err
}

func (d *Device) copy(commands vk.CommandBuffer, to, from Range) {
	d.vk.CmdCopyBuffer(commands, from.Buffer.handle, to.Buffer.handle, 1,
		&vk.BufferCopy{SrcOffset: uint64(from.Offset), DstOffset: uint64(to.Offset), Size: uint64(from.Size)})
}

// Download copies b from an offset in bytes to data, when what was started before is done.
func (b *Buffer) Download(offset int64, data []byte) (err error) {
	if err := b.enter("download", offset, len(data)); err != nil {
		return err
	}
	defer b.d.leave(&err)
	if b.bytes != nil {
		if err := b.d.wait(b.lastUse()); err != nil {
			return err
		}
		copy(data, b.bytes[offset:])
		return nil
	}
	return b.downloadSlots(offset, data)
}

// download is a copy under way to data.
type download struct {
	s    *slot
	data []byte
}

// downloadSlots has two copies under way: the device copies to one slot while the host empties the other.
func (b *Buffer) downloadSlots(offset int64, data []byte) (err error) {
	var under []download
	for (len(data) > 0 || len(under) > 0) && err == nil {
		var s *slot
		if len(data) > 0 && len(under) < 2 {
			s = b.d.anySlot(len(under) == 0)
		}
		if s == nil {
			err = b.d.finish(under[0])
			under = under[1:]
			continue
		}
		if err = b.d.ready(s); err != nil {
			break
		}
		n := min(len(data), int(b.d.slotBytes))
		under = append(under, download{s, data[:n]})
		err = b.d.copySlot(s, Range{b, offset, int64(n)}, true)
		offset, data = offset+int64(n), data[n:]
	}
	for _, w := range under {
		b.d.staging <- w.s
	}
	return err
}

// anySlot takes a slot. Who has one already does not wait for another, for which others may wait as well: it gets nil.
func (d *Device) anySlot(wait bool) *slot {
	if wait {
		return <-d.staging
	}
	select {
	case s := <-d.staging:
		return s
	default:
		return nil
	}
}

// finish waits for a download and copies it from its slot.
func (d *Device) finish(w download) error {
	defer func() { d.staging <- w.s }()
	if err := d.wait(w.s.busy); err != nil {
		return err
	}
	copy(w.data, w.s.buffer.bytes)
	return nil
}

// enter begins a copy.
func (b *Buffer) enter(what string, offset int64, n int) error {
	if err := b.d.enter(); err != nil {
		return err
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	switch {
	case b.freed:
		b.d.inUse.RUnlock()
		return fmt.Errorf("vulkan: %s of a buffer that was freed", what)
	case offset < 0 || int64(n) > b.size-offset:
		b.d.inUse.RUnlock()
		return fmt.Errorf("vulkan: %s of %d bytes at %d of a buffer of %d", what, n, offset, b.size)
	}
	return nil
}
