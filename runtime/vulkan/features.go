package vulkan

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// Features are what shaders may use. A device has all of them enabled that its driver has.
type Features struct {
	Int8, Int16, Int64, Float16, Float64              bool // arithmetic
	Storage8, Storage16, Push8, Push16                bool // loads and stores of such types in storage buffers and push constants
	IntegerDot                                        bool
	FullSubgroups                                     bool // a pipeline may ask that no subgroup is partly empty
	SubgroupExtendedTypes                             bool // operations of subgroups on 8, 16 and 64 bits
	MemoryModel, DeviceScope, ScalarLayout, Atomics64 bool
	CooperativeMatrix                                 bool
}

// chain holds the structs by which Vulkan tells and enables features.
type chain struct {
	v10         vk.PhysicalDeviceFeatures2
	v11         vk.PhysicalDeviceVulkan11Features
	v12         vk.PhysicalDeviceVulkan12Features
	v13         vk.PhysicalDeviceVulkan13Features
	cooperative vk.PhysicalDeviceCooperativeMatrixFeaturesKHR
}

const cooperativeExtension = "VK_KHR_cooperative_matrix"

// newChain links the structs. That of cooperative matrices is among them only if the device knows it.
func newChain(cooperative bool) *chain {
	c := &chain{}
	c.v10.SType, c.v10.PNext = vk.StructureTypePhysicalDeviceFeatures2, unsafe.Pointer(&c.v11)
	c.v11.SType, c.v11.PNext = vk.StructureTypePhysicalDeviceVulkan11Features, unsafe.Pointer(&c.v12)
	c.v12.SType, c.v12.PNext = vk.StructureTypePhysicalDeviceVulkan12Features, unsafe.Pointer(&c.v13)
	c.v13.SType = vk.StructureTypePhysicalDeviceVulkan13Features
	if c.cooperative.SType = vk.StructureTypePhysicalDeviceCooperativeMatrixFeatures; cooperative {
		c.v13.PNext = unsafe.Pointer(&c.cooperative)
	}
	return c
}

// feature is one of Features: Vulkan's own flag, and the capability of SPIR-V that needs it.
type feature struct {
	has        *bool
	flag       *uint32
	capability uint32 // 0 if there is none
}

// rows are the features that devices have enabled.
func (f *Features) rows(c *chain) []feature {
	return []feature{
		{&f.Int8, &c.v12.ShaderInt8, 39},
		{&f.Int16, &c.v10.Features.ShaderInt16, 22},
		{&f.Int64, &c.v10.Features.ShaderInt64, 11},
		{&f.Float16, &c.v12.ShaderFloat16, 9},
		{&f.Float64, &c.v10.Features.ShaderFloat64, 10},
		{&f.Storage8, &c.v12.StorageBuffer8BitAccess, 4448},
		{&f.Storage16, &c.v11.StorageBuffer16BitAccess, 4433},
		{&f.Push8, &c.v12.StoragePushConstant8, 4450},
		{&f.Push16, &c.v11.StoragePushConstant16, 4435},
		{&f.IntegerDot, &c.v13.ShaderIntegerDotProduct, 6019},
		{&f.FullSubgroups, &c.v13.ComputeFullSubgroups, 0},
		{&f.SubgroupExtendedTypes, &c.v12.ShaderSubgroupExtendedTypes, 0},
		{&f.MemoryModel, &c.v12.VulkanMemoryModel, 5345},
		{&f.DeviceScope, &c.v12.VulkanMemoryModelDeviceScope, 5346},
		{&f.ScalarLayout, &c.v12.ScalarBlockLayout, 0},
		{&f.Atomics64, &c.v12.ShaderBufferInt64Atomics, 12},
		{&f.CooperativeMatrix, &c.cooperative.CooperativeMatrix, 6022},
	}
}

// Ranges of SPIR-V's numbers of capabilities.
const (
	capabilityMatrix, capabilityShader       = 0, 1
	capabilitySubgroup, lastSubgroup         = 61, 68     // by the bits of Subgroup.Operations
	capabilityControls, lastControls         = 4464, 4468 // that execution modes use
	capabilityDotInput, capabilityDotProduct = 6016, 6019
)

// capable says whether the device has a capability enabled.
func (i *Info) capable(capability uint32) bool {
	switch {
	case capability == capabilityMatrix || capability == capabilityShader || capability >= capabilityControls && capability <= lastControls:
		return true
	case capability >= capabilitySubgroup && capability <= lastSubgroup:
		return i.Subgroup.Operations>>(capability-capabilitySubgroup)&1 != 0
	case capability >= capabilityDotInput && capability < capabilityDotProduct:
		return i.Features.IntegerDot
	}
	f := i.Features
	return slices.ContainsFunc(f.rows(newChain(false)), func(r feature) bool { return r.capability == capability && *r.has })
}

// modeNames are SPIR-V's names of execution modes of floats, from firstControl.
var modeNames = []string{"DenormPreserve", "DenormFlushToZero", "SignedZeroInfNanPreserve", "RoundingModeRTE", "RoundingModeRTZ"}

// has says whether the device has an execution mode.
func (f FloatControls) has(mode uint32) bool {
	return []bool{f.PreserveDenormals, f.FlushDenormals, f.PreserveSpecials, f.RoundToEven, f.RoundToZero}[mode-firstControl]
}

// capabilityNames are SPIR-V's names of capabilities.
var capabilityNames = map[uint32]string{9: "Float16", 10: "Float64", 11: "Int64", 12: "Int64Atomics", 22: "Int16", 39: "Int8",
	61: "GroupNonUniform", 62: "GroupNonUniformVote", 63: "GroupNonUniformArithmetic", 64: "GroupNonUniformBallot", 65: "GroupNonUniformShuffle",
	66: "GroupNonUniformShuffleRelative", 67: "GroupNonUniformClustered", 68: "GroupNonUniformQuad",
	4433: "StorageBuffer16BitAccess", 4435: "StoragePushConstant16", 4448: "StorageBuffer8BitAccess", 4450: "StoragePushConstant8",
	5345: "VulkanMemoryModel", 5346: "VulkanMemoryModelDeviceScope", 6016: "DotProductInputAll",
	6017: "DotProductInput4x8Bit", 6018: "DotProductInput4x8BitPacked", 6019: "DotProduct", 6022: "CooperativeMatrixKHR"}

// features fills in what the driver has.
func (in *instance) features(d *Info) {
	c := newChain(slices.Contains(d.extensions, cooperativeExtension))
	in.GetPhysicalDeviceFeatures2(d.handle, &c.v10)
	for _, r := range d.Features.rows(c) {
		*r.has = *r.flag != 0
	}
	d.Subgroup.Control = d.Subgroup.Control && c.v13.SubgroupSizeControl != 0
	if c.v12.TimelineSemaphore == 0 || c.v13.Synchronization2 == 0 {
		d.Problem = "it lacks timeline semaphores or synchronization2, which Vulkan 1.3 has: install another driver"
	}
	if d.Features.CooperativeMatrix && in.cooperative.GetPhysicalDeviceCooperativeMatrixPropertiesKHR != nil {
		d.Cooperative = in.shapes(d.handle)
	}
}

// enabled is the chain that enables the features of a device, and what this package itself needs.
func (d *Info) enabled() *chain {
	c := newChain(d.Features.CooperativeMatrix)
	for _, r := range d.Features.rows(c) {
		if *r.has {
			*r.flag = 1
		}
	}
	c.v12.TimelineSemaphore, c.v13.Synchronization2, c.v13.Maintenance4 = 1, 1, 1
	if d.Subgroup.Control {
		c.v13.SubgroupSizeControl = 1
	}
	return c
}

// components are names of VkComponentTypeKHR.
var components = map[uint32]string{0: "f16", 1: "f32", 2: "f64", 3: "s8", 4: "s16", 5: "s32", 6: "s64", 7: "u8", 8: "u16", 9: "u32", 10: "u64", 1000141000: "bf16"}

func component(n uint32) string {
	return cmp.Or(components[n], fmt.Sprint("component type ", n))
}

func (in *instance) shapes(h vk.PhysicalDevice) (out []Cooperative) {
	all := list(func(n *uint32, p *vk.CooperativeMatrixPropertiesKHR) {
		if p != nil {
			for i := range unsafe.Slice(p, *n) {
				unsafe.Slice(p, *n)[i].SType = vk.StructureTypeCooperativeMatrixProperties
			}
		}
		in.cooperative.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(h, n, p)
	})
	for _, p := range all {
		out = append(out, Cooperative{int(p.MSize), int(p.NSize), int(p.KSize), component(p.AType), component(p.BType),
			component(p.CType), component(p.ResultType), p.SaturatingAccumulation != 0, int(p.Scope)})
	}
	return out
}
