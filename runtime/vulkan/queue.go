package vulkan

import (
	"fmt"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// queue does work in the order of its submissions. Each submission raises the value of its timeline by one when it is done.
type queue struct {
	handle    vk.Queue
	family    uint32
	timeline  vk.Semaphore
	submitted uint64
}

// point is the end of a submission; the zero point is over.
type point struct {
	q     *queue
	value uint64
}

func (d *Device) newQueue(family uint32) (*queue, error) {
	q := &queue{family: family}
	d.vk.GetDeviceQueue(d.handle, family, 0, &q.handle)
	timeline := &vk.SemaphoreTypeCreateInfo{SType: vk.StructureTypeSemaphoreTypeCreateInfo, SemaphoreType: vk.SemaphoreTypeTimeline}
	r := d.vk.CreateSemaphore(d.handle, &vk.SemaphoreCreateInfo{SType: vk.StructureTypeSemaphoreCreateInfo, PNext: unsafe.Pointer(timeline)}, nil, &q.timeline)
	return q, d.check("vkCreateSemaphore", r)
}

// last is the end of what was submitted. d.mu is held.
func (q *queue) last() point { return point{q, q.submitted} }

// submit starts a command buffer when points of other queues are over. d.mu is held.
func (d *Device) submit(q *queue, commands vk.CommandBuffer, after ...point) (point, error) {
	if n := d.loseAfter.Load(); n == 0 {
		return point{}, d.lose("simulated")
	} else if n > 0 {
		d.loseAfter.Add(-1)
	}
	var waits []vk.SemaphoreSubmitInfo
	for _, p := range after {
		if p.q != nil && p.q != q && p.value > 0 {
			waits = append(waits, signal(p))
		}
	}
	end := point{q, q.submitted + 1}
	done := signal(end)
	r := d.vk.QueueSubmit2(q.handle, 1, &vk.SubmitInfo2{
		SType: vk.StructureTypeSubmitInfo2, WaitSemaphoreInfoCount: uint32(len(waits)), PWaitSemaphoreInfos: unsafe.SliceData(waits),
		CommandBufferInfoCount: 1, PCommandBufferInfos: &vk.CommandBufferSubmitInfo{SType: vk.StructureTypeCommandBufferSubmitInfo, CommandBuffer: commands},
		SignalSemaphoreInfoCount: 1, PSignalSemaphoreInfos: &done,
	}, 0)
	if err := d.check("vkQueueSubmit2", r); err != nil {
		return point{}, err
	}
	q.submitted++
	return end, nil
}

func signal(p point) vk.SemaphoreSubmitInfo {
	return vk.SemaphoreSubmitInfo{SType: vk.StructureTypeSemaphoreSubmitInfo, Semaphore: p.q.timeline, Value: p.value, StageMask: vk.PipelineStage2AllCommandsBit}
}

// wait returns when a point is over, or with an error if the device is lost or takes too long.
func (d *Device) wait(p point) error {
	if p.q != nil && p.value > 0 && !d.hung.Load() {
		r := d.vk.WaitSemaphores(d.handle, &vk.SemaphoreWaitInfo{SType: vk.StructureTypeSemaphoreWaitInfo, SemaphoreCount: 1,
			PSemaphores: &p.q.timeline, PValues: &p.value}, uint64(d.options.Timeout))
		if r == vk.Timeout {
			d.hung.Store(true)
			return d.lose(fmt.Sprintf("it did not finish in %v, which Options.Timeout sets", d.options.Timeout))
		}
		if err := d.check("vkWaitSemaphores", r); err != nil {
			return err
		}
	}
	return d.Lost()
}

// commandPool makes a pool with one command buffer.
func (d *Device) commandPool(q *queue, flags uint32) (pool vk.CommandPool, commands vk.CommandBuffer, err error) {
	r := d.vk.CreateCommandPool(d.handle, &vk.CommandPoolCreateInfo{SType: vk.StructureTypeCommandPoolCreateInfo, Flags: flags, QueueFamilyIndex: q.family}, nil, &pool)
	if err := d.check("vkCreateCommandPool", r); err != nil {
		return 0, 0, err
	}
	r = d.vk.AllocateCommandBuffers(d.handle, &vk.CommandBufferAllocateInfo{SType: vk.StructureTypeCommandBufferAllocateInfo,
		CommandPool: pool, Level: vk.CommandBufferLevelPrimary, CommandBufferCount: 1}, &commands)
	if err := d.check("vkAllocateCommandBuffers", r); err != nil {
		d.vk.DestroyCommandPool(d.handle, pool, nil)
		return 0, 0, err
	}
	return pool, commands, nil
}

func (d *Device) begin(commands vk.CommandBuffer, flags uint32) error {
	return d.check("vkBeginCommandBuffer", d.vk.BeginCommandBuffer(commands, &vk.CommandBufferBeginInfo{SType: vk.StructureTypeCommandBufferBeginInfo, Flags: flags}))
}

// scope is what commands do with memory: the stages of work that do it, and their reads and writes.
type scope struct{ at, reads, writes uint64 }

var (
	shaders   = scope{vk.PipelineStage2ComputeShaderBit, vk.Access2ShaderStorageReadBit, vk.Access2ShaderStorageWriteBit}
	copies    = scope{vk.PipelineStage2CopyBit, vk.Access2TransferReadBit, vk.Access2TransferWriteBit}
	indirects = scope{vk.PipelineStage2DrawIndirectBit, vk.Access2IndirectCommandReadBit, 0}
)

func (s scope) and(o scope) scope { return scope{s.at | o.at, s.reads | o.reads, s.writes | o.writes} }

// between has what comes before end before what comes after begins, which then sees its writes. Stages that no command has are not
// waited for: a device may take longer to empty them.
func (d *Device) between(commands vk.CommandBuffer, s scope) {
	d.barrier(commands, s.at&^indirects.at, s.writes, s.at, s.reads|s.writes)
}

// barrier has what comes before end before what comes after begins, which then sees its writes.
func (d *Device) barrier(commands vk.CommandBuffer, from, writes, to, accesses uint64) {
	d.vk.CmdPipelineBarrier2(commands, &vk.DependencyInfo{SType: vk.StructureTypeDependencyInfo, MemoryBarrierCount: 1,
		PMemoryBarriers: &vk.MemoryBarrier2{SType: vk.StructureTypeMemoryBarrier2, SrcStageMask: from, SrcAccessMask: writes, DstStageMask: to, DstAccessMask: accesses}})
}

// afterAll is a barrier against all that the queue has done before.
func (d *Device) afterAll(commands vk.CommandBuffer) {
	d.barrier(commands, vk.PipelineStage2AllCommandsBit, vk.Access2MemoryWriteBit, vk.PipelineStage2AllCommandsBit, vk.Access2MemoryReadBit|vk.Access2MemoryWriteBit)
}

// beforeHost lets the host see what was written.
func (d *Device) beforeHost(commands vk.CommandBuffer) {
	d.barrier(commands, vk.PipelineStage2AllCommandsBit, vk.Access2MemoryWriteBit, vk.PipelineStage2HostBit, vk.Access2HostReadBit)
}
