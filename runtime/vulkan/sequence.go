package vulkan

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// Command is a *Dispatch or a *Copy.
type Command interface {
	check(d *Device) error // d.mu is held
	record(d *Device, s *Sequence)
	beside() bool
	scope() scope
	ranges() []Range
}

// Dispatch runs a pipeline.
type Dispatch struct {
	Pipeline *Pipeline
	Groups   [3]int  // workgroups; 0 is 1
	Indirect Range   // if it has a buffer, three numbers of 32 bits there are the workgroups, when the dispatch begins
	Buffers  []Range // by binding
	Push     []byte  // push constants
	Beside   bool    // it may run at the same time as the command before: neither writes what the other reads or writes
}

// Copy copies a range to a range of the same size.
type Copy struct {
	To, From Range
	Beside   bool // as in Dispatch
}

// Sequence is a list of commands that is recorded once and may run often.
type Sequence struct {
	d         *Device
	pool      vk.CommandPool
	commands  vk.CommandBuffer
	sets      vk.DescriptorPool
	setOf     map[*Dispatch]vk.DescriptorSet
	queries   vk.QueryPool
	count     int // of times
	buffers   []*Buffer
	pipelines []*Pipeline
	used      point // guarded by d.mu, as is freed
	freed     bool
	running   sync.Mutex // held from a start until it is submitted
}

// RecordOptions are options of Record.
type RecordOptions struct {
	Timed bool // Times tells how long each command took
	Total bool // with Timed, Times tells how long all commands took together
}

// Record makes a sequence. Each command sees what the commands before wrote, unless it stands beside them.
func (d *Device) Record(commands []Command, o RecordOptions) (s *Sequence, err error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave(&err)
	if o.Timed && d.Limits.Timestamp == 0 {
		return nil, fmt.Errorf("vulkan: %s has no timestamps", d.Name)
	}
	if err := d.checkAll(commands); err != nil {
		return nil, err
	}
	s = &Sequence{d: d, count: len(commands), setOf: map[*Dispatch]vk.DescriptorSet{}}
	if err := s.record(commands, o); err != nil {
		s.free()
		return nil, err
	}
	s.setOf = nil
	d.keep(s)
	return s, nil
}

func (d *Device) checkAll(commands []Command) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, c := range commands {
		if err := c.check(d); err != nil {
			return fmt.Errorf("vulkan: command %d: %w", i, err)
		}
	}
	return nil
}

func (s *Sequence) record(commands []Command, o RecordOptions) (err error) {
	d := s.d
	if err := s.describe(commands); err != nil {
		return err
	}
	if o.Total {
		s.count = min(1, len(commands))
	}
	if o.Timed {
		if err := s.createQueries(); err != nil {
			return err
		}
	}
	if s.pool, s.commands, err = d.commandPool(d.compute, 0); err != nil {
		return err
	}
	if err := d.begin(s.commands, 0); err != nil {
		return err
	}
	if s.queries != 0 {
		d.vk.CmdResetQueryPool(s.commands, s.queries, 0, uint32(s.count+1))
	}
	s.write(commands, o.Total)
	return d.check("vkEndCommandBuffer", d.vk.EndCommandBuffer(s.commands))
}

// write writes commands, with a timestamp before them and one after each, or one after all.
func (s *Sequence) write(commands []Command, total bool) {
	d := s.d
	d.afterAll(s.commands)
	s.timestamp(0)
	var all scope
	for _, c := range commands {
		all = all.and(c.scope())
	}
	for i, c := range commands {
		if i > 0 && !c.beside() {
			d.between(s.commands, all)
		}
		c.record(d, s)
		if !total {
			s.timestamp(i + 1)
		}
	}
	if total && s.count > 0 {
		s.timestamp(s.count)
	}
	d.beforeHost(s.commands)
}

func (s *Sequence) createQueries() error {
	r := s.d.vk.CreateQueryPool(s.d.handle, &vk.QueryPoolCreateInfo{SType: vk.StructureTypeQueryPoolCreateInfo, QueryType: vk.QueryTypeTimestamp,
		QueryCount: uint32(s.count + 1)}, nil, &s.queries)
	return s.d.check("vkCreateQueryPool", r)
}

func (s *Sequence) timestamp(i int) {
	if s.queries != 0 {
		s.d.vk.CmdWriteTimestamp2(s.commands, vk.PipelineStage2AllCommandsBit, s.queries, uint32(i))
	}
}

// describe makes the descriptor sets, and notes what the sequence uses.
func (s *Sequence) describe(commands []Command) error {
	seen := map[*Buffer]bool{}
	var dispatches []*Dispatch // with buffers
	for _, c := range commands {
		for _, r := range c.ranges() {
			if !seen[r.Buffer] {
				seen[r.Buffer] = true
				s.buffers = append(s.buffers, r.Buffer)
			}
		}
		if c, ok := c.(*Dispatch); ok {
			s.pipelines = append(s.pipelines, c.Pipeline)
			if len(c.Buffers) > 0 {
				dispatches = append(dispatches, c)
			}
		}
	}
	if len(dispatches) == 0 {
		return nil
	}
	sets, err := s.allocateSets(dispatches)
	if err != nil {
		return err
	}
	var writes []vk.WriteDescriptorSet
	for i, c := range dispatches {
		s.setOf[c] = sets[i]
		writes = append(writes, c.write(sets[i]))
	}
	s.d.vk.UpdateDescriptorSets(s.d.handle, uint32(len(writes)), &writes[0], 0, nil)
	return nil
}

// allocateSets makes a descriptor set for each dispatch, in a pool of just these.
func (s *Sequence) allocateSets(dispatches []*Dispatch) ([]vk.DescriptorSet, error) {
	d := s.d
	var layouts []vk.DescriptorSetLayout
	buffers := 0
	for _, c := range dispatches {
		layouts, buffers = append(layouts, c.Pipeline.made.set), buffers+len(c.Buffers)
	}
	n := uint32(len(layouts))
	r := d.vk.CreateDescriptorPool(d.handle, &vk.DescriptorPoolCreateInfo{SType: vk.StructureTypeDescriptorPoolCreateInfo, MaxSets: n, PoolSizeCount: 1,
		PPoolSizes: &vk.DescriptorPoolSize{Type: vk.DescriptorTypeStorageBuffer, DescriptorCount: uint32(buffers)}}, nil, &s.sets)
	if err := d.check("vkCreateDescriptorPool", r); err != nil {
		return nil, err
	}
	sets := make([]vk.DescriptorSet, n)
	r = d.vk.AllocateDescriptorSets(d.handle, &vk.DescriptorSetAllocateInfo{SType: vk.StructureTypeDescriptorSetAllocateInfo,
		DescriptorPool: s.sets, DescriptorSetCount: n, PSetLayouts: &layouts[0]}, &sets[0])
	return sets, d.check("vkAllocateDescriptorSets", r)
}

// write puts the buffers of c into a set.
func (c *Dispatch) write(set vk.DescriptorSet) vk.WriteDescriptorSet {
	infos := make([]vk.DescriptorBufferInfo, len(c.Buffers))
	for i, b := range c.Buffers {
		infos[i] = vk.DescriptorBufferInfo{Buffer: b.Buffer.handle, Offset: uint64(b.Offset), Range: uint64(b.Size)}
	}
	return vk.WriteDescriptorSet{SType: vk.StructureTypeWriteDescriptorSet, DstSet: set,
		DescriptorCount: uint32(len(infos)), DescriptorType: vk.DescriptorTypeStorageBuffer, PBufferInfo: &infos[0]}
}

func (c *Dispatch) beside() bool { return c.Beside }

func (c *Dispatch) scope() scope {
	if c.Indirect.Buffer != nil {
		return shaders.and(indirects)
	}
	return shaders
}

func (c *Dispatch) ranges() []Range {
	if c.Indirect.Buffer != nil {
		return append(c.Buffers[:len(c.Buffers):len(c.Buffers)], c.Indirect)
	}
	return c.Buffers
}

func (c *Dispatch) check(d *Device) error {
	p := c.Pipeline
	switch {
	case p == nil || p.d != d:
		return errors.New("it has no pipeline of this device")
	case p.freed:
		return errors.New("its pipeline was freed")
	case len(c.Buffers) != p.layout.Buffers:
		return fmt.Errorf("%d buffers, its pipeline takes %d", len(c.Buffers), p.layout.Buffers)
	case len(c.Push) != p.layout.PushBytes:
		return fmt.Errorf("%d bytes of push constants, its pipeline takes %d", len(c.Push), p.layout.PushBytes)
	}
	for a, n := range c.Groups {
		if n < 0 || n > d.Limits.Groups[a] {
			return fmt.Errorf("%d workgroups in dimension %d, %s has 0 to %d", n, a, d.Name, d.Limits.Groups[a])
		}
	}
	for i, r := range c.Buffers {
		if err := r.seen(d); err != nil {
			return fmt.Errorf("buffer %d: %w", i, err)
		}
	}
	if r := c.Indirect; r.Buffer != nil {
		if err := r.check(d); err != nil || r.Size < 12 || r.Offset%4 != 0 {
			return errors.Join(fmt.Errorf("numbers of workgroups in %d bytes at %d: 12 at a multiple of 4 are needed", r.Size, r.Offset), err)
		}
	}
	return nil
}

// seen says whether a shader may see r.
func (r Range) seen(d *Device) error {
	if err := r.check(d); err != nil {
		return err
	}
	if r.Size > d.Limits.Range || r.Offset%d.Limits.RangeAlignment != 0 {
		return fmt.Errorf("%d bytes at %d: a shader of %s sees at most %d, that begin at a multiple of %d: Buffer.Split divides it",
			r.Size, r.Offset, d.Name, d.Limits.Range, d.Limits.RangeAlignment)
	}
	return nil
}

func (r Range) check(d *Device) error {
	switch b := r.Buffer; {
	case b == nil || b.d != d:
		return errors.New("no buffer of this device")
	case b.freed:
		return errors.New("the buffer was freed")
	case r.Size <= 0 || r.Offset < 0 || r.Size > b.size-r.Offset:
		return fmt.Errorf("%d bytes at %d of a buffer of %d", r.Size, r.Offset, b.size)
	}
	return nil
}

func (c *Dispatch) record(d *Device, s *Sequence) {
	p := c.Pipeline
	d.vk.CmdBindPipeline(s.commands, vk.PipelineBindPointCompute, p.handle)
	if len(c.Buffers) > 0 {
		set := s.setOf[c]
		d.vk.CmdBindDescriptorSets(s.commands, vk.PipelineBindPointCompute, p.made.pipeline, 0, 1, &set, 0, nil)
	}
	if len(c.Push) > 0 {
		d.vk.CmdPushConstants(s.commands, p.made.pipeline, vk.ShaderStageComputeBit, 0, uint32(len(c.Push)), unsafe.Pointer(&c.Push[0]))
	}
	if r := c.Indirect; r.Buffer != nil {
		d.vk.CmdDispatchIndirect(s.commands, r.Buffer.handle, uint64(r.Offset))
		return
	}
	g := c.Groups
	d.vk.CmdDispatch(s.commands, uint32(max(1, g[0])), uint32(max(1, g[1])), uint32(max(1, g[2])))
}

func (c *Copy) beside() bool { return c.Beside }

func (c *Copy) scope() scope { return copies }

func (c *Copy) ranges() []Range { return []Range{c.To, c.From} }

func (c *Copy) check(d *Device) error {
	if err := errors.Join(c.To.check(d), c.From.check(d)); err != nil {
		return err
	}
	if c.To.Size != c.From.Size {
		return fmt.Errorf("a copy of %d bytes to %d", c.From.Size, c.To.Size)
	}
	if c.To.Buffer == c.From.Buffer && c.To.Offset < c.From.Offset+c.From.Size && c.From.Offset < c.To.Offset+c.To.Size {
		return errors.New("a copy between ranges that overlap")
	}
	return nil
}

func (c *Copy) record(d *Device, s *Sequence) { d.copy(s.commands, c.To, c.From) }

// Start starts s, after all that was started or uploaded before. If s still runs from an earlier start, Start waits for it.
func (s *Sequence) Start() (err error) {
	d := s.d
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	s.running.Lock()
	defer s.running.Unlock()
	if err := d.wait(s.lastUse()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	end, err := d.submit(d.compute, s.commands, d.transfer.last())
	if err != nil {
		return err
	}
	s.used = end
	for _, b := range s.buffers {
		b.used = end
	}
	for _, p := range s.pipelines {
		p.used = end
	}
	return nil
}

// usable says whether something of s was freed.
func (s *Sequence) usable() error {
	if s.freed {
		return errors.New("vulkan: the sequence was freed")
	}
	for _, b := range s.buffers {
		if b.freed {
			return fmt.Errorf("vulkan: a buffer of %d bytes of the sequence was freed", b.size)
		}
	}
	for _, p := range s.pipelines {
		if p.freed {
			return errors.New("vulkan: a pipeline of the sequence was freed")
		}
	}
	return nil
}

// Wait returns when s is done.
func (s *Sequence) Wait() (err error) {
	if err := s.d.enter(); err != nil {
		return err
	}
	defer s.d.leave(&err)
	return s.d.wait(s.lastUse())
}

// Run starts s and waits.
func (s *Sequence) Run() error {
	if err := s.Start(); err != nil {
		return err
	}
	return s.Wait()
}

// Times are how long each command took the last time, by the device's clock. It waits for s.
func (s *Sequence) Times() (times []time.Duration, err error) {
	d := s.d
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave(&err)
	if s.lastUse().value == 0 || s.queries == 0 {
		return nil, errors.New("vulkan: a sequence has no times if it was recorded without Timed, has not run, or was freed")
	}
	if err := d.wait(s.lastUse()); err != nil {
		return nil, err
	}
	ticks := make([]uint64, s.count+1)
	r := d.vk.GetQueryPoolResults(d.handle, s.queries, 0, uint32(len(ticks)), uintptr(8*len(ticks)), unsafe.Pointer(&ticks[0]), 8,
		vk.QueryResult64Bit|vk.QueryResultWaitBit)
	if err := d.check("vkGetQueryPoolResults", r); err != nil {
		return nil, err
	}
	unused := 64 - d.families[d.compute.family].TimestampValidBits
	for i := range s.count {
		n := (ticks[i+1] - ticks[i]) << unused >> unused
		times = append(times, time.Duration(float64(n)*d.Limits.Timestamp))
	}
	return times, nil
}

// Free frees s when it is done. Close frees all sequences.
func (s *Sequence) Free() { s.d.release(s, s.lastUse) }

func (s *Sequence) lastUse() point {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.used
}

func (s *Sequence) free() {
	d := s.d
	d.vk.DestroyCommandPool(d.handle, s.pool, nil)
	d.vk.DestroyDescriptorPool(d.handle, s.sets, nil)
	d.vk.DestroyQueryPool(d.handle, s.queries, nil)
	s.queries, s.freed = 0, true
}

// Run runs a pipeline once and waits. What runs often is quicker as a Sequence.
func (d *Device) Run(p *Pipeline, groups [3]int, buffers []*Buffer, push []byte) error {
	c := &Dispatch{Pipeline: p, Groups: groups, Push: push}
	for _, b := range buffers {
		if b != nil {
			c.Buffers = append(c.Buffers, b.All())
		}
	}
	s, err := d.Record([]Command{c}, RecordOptions{})
	if err != nil {
		return err
	}
	defer s.Free()
	return s.Run()
}
