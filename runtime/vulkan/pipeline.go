package vulkan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// Layout says what a pipeline takes and how it runs.
type Layout struct {
	Entry         string            // entry point; main if empty
	Buffers       int               // storage buffers: bindings 0 to Buffers-1 of set 0
	PushBytes     int               // push constants, a multiple of 4
	Constants     map[uint32]uint32 // specialization constants of 32 bits, by id
	Subgroup      int               // invocations of a subgroup, 0 for the device's choice
	FullSubgroups bool              // no subgroup is partly empty
}

// Pipeline is a compute shader that is compiled for a device.
type Pipeline struct {
	d      *Device
	layout Layout
	made   layout
	handle vk.Pipeline
	Cached bool // the driver's result came from the user's folder of files
	used   point
	freed  bool
}

// layoutKey is what pipelines with the same layout have in common.
type layoutKey struct{ buffers, push int }

type layout struct {
	set      vk.DescriptorSetLayout
	pipeline vk.PipelineLayout
}

// Pipeline compiles a SPIR-V module. The error is a *Refused if the device lacks something. A module that spirv-val refuses may crash the driver.
func (d *Device) Pipeline(spirv []byte, l Layout) (p *Pipeline, err error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave(&err)
	if l.Entry == "" {
		l.Entry = "main"
	}
	m, err := inspect(spirv)
	if err == nil {
		err = d.accepts(m, l)
	}
	if err != nil {
		return nil, err
	}
	p = &Pipeline{d: d, layout: l}
	if p.made, err = d.layout(layoutKey{l.Buffers, l.PushBytes}); err != nil {
		return nil, err
	}
	if err := p.compile(spirv); err != nil {
		return nil, err
	}
	d.keep(p)
	return p, nil
}

// accepts says what of a module or a layout the device does not have.
func (i *Info) accepts(m *module, l Layout) error {
	refuse := func(format string, args ...any) error {
		return &Refused{i.Name, fmt.Sprintf(format, args...)}
	}
	if !slices.Contains(m.entries, l.Entry) {
		return refuse("its module has no compute shader %q: it has %q", l.Entry, m.entries)
	}
	if lacks := i.lacks(m); lacks != "" {
		return refuse("its module needs %s, which the device lacks", lacks)
	}
	if m.bindings > l.Buffers {
		return refuse("its module has binding %d, its layout %d buffers", m.bindings-1, l.Buffers)
	}
	if l.Buffers < 0 || l.Buffers > i.Limits.Buffers {
		return refuse("%d buffers, the device has 0 to %d", l.Buffers, i.Limits.Buffers)
	}
	if l.PushBytes < 0 || l.PushBytes > i.Limits.Push || l.PushBytes%4 != 0 {
		return refuse("%d bytes of push constants, the device has 0 to %d, by fours", l.PushBytes, i.Limits.Push)
	}
	for a, n := range m.local {
		if n > i.Limits.Local[a] {
			return refuse("%d invocations of a workgroup in dimension %d, the device has at most %d", n, a, i.Limits.Local[a])
		}
	}
	if n := m.local[0] * m.local[1] * m.local[2]; n > i.Limits.Invocations {
		return refuse("%d invocations of a workgroup, the device has at most %d", n, i.Limits.Invocations)
	}
	if m.shared > int64(i.Limits.Shared) {
		return refuse("a workgroup shares %d bytes, the device has %d", m.shared, i.Limits.Shared)
	}
	return i.acceptsSubgroups(m, l, refuse)
}

// lacks is a capability or a float mode of a module that the device does not have, "" if it has all.
func (i *Info) lacks(m *module) string {
	for _, c := range m.capabilities {
		if !i.capable(c) {
			return "capability " + cmp.Or(capabilityNames[c], fmt.Sprint(c))
		}
	}
	for _, c := range m.controls {
		if f := i.FloatControls[int(c.width)]; !f.has(c.mode) {
			return fmt.Sprintf("execution mode %s of %d bits", modeNames[c.mode-firstControl], c.width)
		}
	}
	for _, x := range m.matrices {
		if !x.among(i.Cooperative) {
			return x.String()
		}
	}
	return ""
}

func (i *Info) acceptsSubgroups(m *module, l Layout, refuse func(string, ...any) error) error {
	s := i.Subgroup
	if l.Subgroup != 0 {
		if !s.Control {
			return refuse("a subgroup size cannot be chosen: the device has %d", s.Size)
		}
		if l.Subgroup < s.Min || l.Subgroup > s.Max || l.Subgroup&(l.Subgroup-1) != 0 {
			return refuse("subgroups of %d, the device has %s", l.Subgroup, s.sizes())
		}
		if n := m.local[0] * m.local[1] * m.local[2]; n > l.Subgroup*s.MostPerGroup {
			return refuse("%d invocations of a workgroup in subgroups of %d, the device has at most %d subgroups", n, l.Subgroup, s.MostPerGroup)
		}
	}
	if !l.FullSubgroups {
		return nil
	}
	if !i.Features.FullSubgroups {
		return refuse("the device has no full subgroups")
	}
	size := s.Max // unless the pipeline asks for a size, it may be any
	if l.Subgroup != 0 {
		size = l.Subgroup
	}
	if m.local[0]%size != 0 {
		return refuse("full subgroups of %d need a multiple of it as the first dimension of a workgroup, which is %d", size, m.local[0])
	}
	return nil
}

// layout makes the layouts for a number of buffers and of push constants, once.
func (d *Device) layout(key layoutKey) (layout, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.layouts[key]; ok {
		return l, nil
	}
	bindings := make([]vk.DescriptorSetLayoutBinding, key.buffers)
	for i := range bindings {
		bindings[i] = vk.DescriptorSetLayoutBinding{Binding: uint32(i), DescriptorType: vk.DescriptorTypeStorageBuffer, DescriptorCount: 1, StageFlags: vk.ShaderStageComputeBit}
	}
	var l layout
	r := d.vk.CreateDescriptorSetLayout(d.handle, &vk.DescriptorSetLayoutCreateInfo{SType: vk.StructureTypeDescriptorSetLayoutCreateInfo,
		BindingCount: uint32(key.buffers), PBindings: unsafe.SliceData(bindings)}, nil, &l.set)
	if err := d.check("vkCreateDescriptorSetLayout", r); err != nil {
		return layout{}, err
	}
	create := &vk.PipelineLayoutCreateInfo{SType: vk.StructureTypePipelineLayoutCreateInfo, SetLayoutCount: 1, PSetLayouts: &l.set}
	if key.push > 0 {
		create.PushConstantRangeCount, create.PPushConstantRanges = 1, &vk.PushConstantRange{StageFlags: vk.ShaderStageComputeBit, Size: uint32(key.push)}
	}
	if err := d.check("vkCreatePipelineLayout", d.vk.CreatePipelineLayout(d.handle, create, nil, &l.pipeline)); err != nil {
		d.vk.DestroyDescriptorSetLayout(d.handle, l.set, nil)
		return layout{}, err
	}
	d.layouts[key] = l
	return l, nil
}

// compile makes the pipeline, with the driver's result of an earlier run if there is one.
func (p *Pipeline) compile(spirv []byte) error {
	d := p.d
	var shader vk.ShaderModule
	words := slices.Grow([]uint32(nil), len(spirv)/4)[:len(spirv)/4] // aligned, which spirv need not be
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(spirv)), spirv)
	r := d.vk.CreateShaderModule(d.handle, &vk.ShaderModuleCreateInfo{SType: vk.StructureTypeShaderModuleCreateInfo,
		CodeSize: uintptr(len(spirv)), PCode: &words[0]}, nil, &shader)
	if err := d.check("vkCreateShaderModule", r); err != nil {
		return err
	}
	defer d.vk.DestroyShaderModule(d.handle, shader, nil)
	identity := p.identity(spirv)
	stored, known, err := d.stored(identity)
	if err != nil {
		return err
	}
	defer d.vk.DestroyPipelineCache(d.handle, stored, nil)
	create := &vk.ComputePipelineCreateInfo{SType: vk.StructureTypeComputePipelineCreateInfo, Stage: p.stage(shader), Layout: p.made.pipeline, BasePipelineIndex: -1}
	if err := d.check("vkCreateComputePipelines", d.vk.CreateComputePipelines(d.handle, stored, 1, create, nil, &p.handle)); err != nil {
		return err
	}
	if p.Cached = known; !known {
		d.store(identity, stored)
	}
	return nil
}

func (p *Pipeline) stage(shader vk.ShaderModule) vk.PipelineShaderStageCreateInfo {
	l := &p.layout
	s := vk.PipelineShaderStageCreateInfo{SType: vk.StructureTypePipelineShaderStageCreateInfo, Stage: vk.ShaderStageComputeBit, Module: shader, PName: vk.Text(l.Entry)}
	if l.FullSubgroups {
		s.Flags = vk.PipelineShaderStageCreateRequireFullSubgroupsBit
	}
	if l.Subgroup != 0 {
		s.PNext = unsafe.Pointer(&vk.PipelineShaderStageRequiredSubgroupSizeCreateInfo{
			SType: vk.StructureTypePipelineShaderStageRequiredSubgroupSizeCreateInfo, RequiredSubgroupSize: uint32(l.Subgroup)})
	}
	if len(l.Constants) == 0 {
		return s
	}
	var entries []vk.SpecializationMapEntry
	var data []uint32
	for _, id := range slices.Sorted(maps.Keys(l.Constants)) {
		entries = append(entries, vk.SpecializationMapEntry{ConstantID: id, Offset: uint32(4 * len(data)), Size: 4})
		data = append(data, l.Constants[id])
	}
	s.PSpecializationInfo = &vk.SpecializationInfo{MapEntryCount: uint32(len(entries)), PMapEntries: &entries[0],
		DataSize: uintptr(4 * len(data)), PData: unsafe.Pointer(&data[0])}
	return s
}

// Free frees p when what uses it is done. A sequence that uses it can no longer start. Close frees all pipelines.
func (p *Pipeline) Free() { p.d.release(p, p.lastUse) }

func (p *Pipeline) lastUse() point {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	return p.used
}

func (p *Pipeline) free() {
	p.d.vk.DestroyPipeline(p.d.handle, p.handle, nil)
	p.freed = true
}
