package vulkan

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// Type is a type of device.
type Type string

// Types, the preferred one first.
const (
	Discrete   Type = "discrete GPU"
	Integrated Type = "integrated GPU"
	Virtual    Type = "virtual GPU"
	Software   Type = "software device" // the CPU does the work
	Other      Type = "other device"
)

var preference = []Type{Discrete, Integrated, Virtual, Software, Other}

var types = map[uint32]Type{vk.PhysicalDeviceTypeDiscreteGpu: Discrete, vk.PhysicalDeviceTypeIntegratedGpu: Integrated,
	vk.PhysicalDeviceTypeVirtualGpu: Virtual, vk.PhysicalDeviceTypeCpu: Software}

// Info describes a device.
type Info struct {
	Index         int // in the list of Devices
	Name          string
	Type          Type
	Version       string // of Vulkan
	Driver        string // its name and version
	Problem       string // why Open refuses it, "" if it does not
	Features      Features
	Dot           Dot
	Subgroup      Subgroup
	FloatControls map[int]FloatControls // by bits: 16, 32, 64
	Independent   Independent
	Cooperative   []Cooperative // shapes of cooperative matrices
	Limits        Limits
	Heaps         []Heap

	identity   []byte // of device and driver
	handle     vk.PhysicalDevice
	extensions []string
	memory     vk.PhysicalDeviceMemoryProperties
	families   []vk.QueueFamilyProperties
}

func (i Info) String() string {
	return fmt.Sprintf("%d: %s (%s, Vulkan %s, %s)", i.Index, i.Name, i.Type, i.Version, i.Driver)
}

// Dot says which integer dot products the hardware accelerates. All are allowed where Features.IntegerDot is.
type Dot struct{ Signed, Unsigned, Mixed, Packed4x8Signed, Packed4x8Unsigned, Packed4x8Mixed bool }

// Subgroup has the sizes of subgroups, in invocations.
type Subgroup struct {
	Size, Min, Max int
	Control        bool   // a pipeline of a compute shader may ask for a size from Min to Max
	MostPerGroup   int    // subgroups of a workgroup, at a size that a pipeline asks for
	Operations     uint32 // VkSubgroupFeatureFlagBits
}

// sizes are the sizes that a pipeline may ask for, in words.
func (s Subgroup) sizes() string {
	if s.Min == s.Max {
		return fmt.Sprint(s.Min)
	}
	return fmt.Sprintf("powers of two from %d to %d", s.Min, s.Max)
}

// FloatControls are what a shader may ask for, for floats of one width.
type FloatControls struct{ PreserveSpecials, PreserveDenormals, FlushDenormals, RoundToEven, RoundToZero bool }

// Independent says whether floats of several widths may have different controls: Alone32 if only floats of 32 bits may differ
// from the others, All, or None.
type Independent struct{ Denormals, Rounding Independence }

// Independence is a value of Independent.
type Independence string

// Values of Independence, in the order of Vulkan's numbers.
const (
	Alone32 Independence = "32 bits alone"
	All     Independence = "all"
	None    Independence = "none"
)

// independence is a value by Vulkan's number.
func independence(n uint32) Independence {
	return []Independence{Alone32, All, None}[min(n, 2)]
}

// Cooperative is a shape of cooperative matrices: (M x K) by (K x N), with the types of A, B, C and the result.
type Cooperative struct {
	M, N, K         int
	A, B, C, Result string // such as f16, s8, u8, s32
	Saturating      bool
	Scope           int // SPIR-V's number: 3 is a subgroup
}

// Limits are in bytes, invocations or workgroups.
type Limits struct {
	Range          int64   // the most bytes of one storage buffer that a shader sees
	RangeAlignment int64   // of the first byte of a range
	Allocation     int64   // the most bytes of a buffer
	Allocations    int     // buffers that may exist at once, less the few of this package
	Push           int     // bytes of push constants
	Buffers        int     // storage buffers of a pipeline
	Groups, Local  [3]int  // workgroups of a dispatch, invocations of a workgroup
	Invocations    int     // of a workgroup
	Shared         int     // bytes of shared memory of a workgroup
	Timestamp      float64 // nanoseconds of a tick, 0 if there are no timestamps
}

// Heap is a memory.
type Heap struct {
	Bytes, Free int64 // Free is Bytes where the driver does not tell
	Device      bool  // the device's own
}

// Devices lists the devices of the loader, in its order.
func Devices() ([]Info, error) {
	in, err := newInstance(false)
	if err != nil {
		return nil, err
	}
	defer in.close()
	return in.devices()
}

func (in *instance) devices() ([]Info, error) {
	var result vk.Result
	handles := list(func(n *uint32, p *vk.PhysicalDevice) { result = in.EnumeratePhysicalDevices(in.handle, n, p) })
	if err := failed("vkEnumeratePhysicalDevices", result); err != nil {
		return nil, err
	}
	if len(handles) == 0 {
		return nil, noDriver("no driver finds a device")
	}
	var all []Info
	for i, h := range handles {
		d := Info{Index: i, handle: h}
		in.describe(&d)
		all = append(all, d)
	}
	return all, nil
}

// describe fills in what a device says of itself.
func (in *instance) describe(d *Info) {
	var p vk.PhysicalDeviceProperties
	in.GetPhysicalDeviceProperties(d.handle, &p)
	d.Name, d.Type, d.Version = vk.String(p.DeviceName[:]), types[p.DeviceType], versionText(p.ApiVersion)
	if d.Type == "" {
		d.Type = Other
	}
	d.Driver = fmt.Sprintf("driver %#x", p.DriverVersion)
	if p.ApiVersion < vk.Version(1, oldestMinor, 0) {
		d.Problem = fmt.Sprintf("it has Vulkan %s, tmacc needs 1.%d: install a newer driver", d.Version, oldestMinor)
		return
	}
	d.identity = fmt.Appendf(nil, "vendor %#x device %#x driver %#x cache %x", p.VendorID, p.DeviceID, p.DriverVersion, p.PipelineCacheUUID)
	for _, e := range list(func(n *uint32, e *vk.ExtensionProperties) {
		in.EnumerateDeviceExtensionProperties(d.handle, nil, n, e)
	}) {
		d.extensions = append(d.extensions, vk.String(e.ExtensionName[:]))
	}
	in.properties(d)
	in.memories(d)
	in.features(d)
	d.families = list(func(n *uint32, f *vk.QueueFamilyProperties) {
		in.GetPhysicalDeviceQueueFamilyProperties(d.handle, n, f)
	})
	if family := d.family(); family < 0 {
		d.Problem = "it has no queue for compute shaders: choose another device"
	} else if d.families[family].TimestampValidBits == 0 {
		d.Limits.Timestamp = 0
	}
}

func versionText(v uint32) string { return fmt.Sprintf("%d.%d.%d", v>>22&0x7f, v>>12&0x3ff, v&0xfff) }

// properties fills in limits.
func (in *instance) properties(d *Info) {
	v13 := &vk.PhysicalDeviceVulkan13Properties{SType: vk.StructureTypePhysicalDeviceVulkan13Properties}
	v12 := &vk.PhysicalDeviceVulkan12Properties{SType: vk.StructureTypePhysicalDeviceVulkan12Properties, PNext: unsafe.Pointer(v13)}
	v11 := &vk.PhysicalDeviceVulkan11Properties{SType: vk.StructureTypePhysicalDeviceVulkan11Properties, PNext: unsafe.Pointer(v12)}
	p := &vk.PhysicalDeviceProperties2{SType: vk.StructureTypePhysicalDeviceProperties2, PNext: unsafe.Pointer(v11)}
	in.GetPhysicalDeviceProperties2(d.handle, p)
	l := &p.Properties.Limits
	d.Driver = vk.String(v12.DriverName[:]) + " " + vk.String(v12.DriverInfo[:])
	d.Limits = Limits{
		Range: int64(l.MaxStorageBufferRange), RangeAlignment: int64(l.MinStorageBufferOffsetAlignment),
		Allocation: atMost(min(v11.MaxMemoryAllocationSize, v13.MaxBufferSize)), Allocations: int(min(l.MaxMemoryAllocationCount, 1<<30)) - slots, Push: int(l.MaxPushConstantsSize),
		Buffers: int(min(l.MaxPerStageDescriptorStorageBuffers, l.MaxPerStageResources)), Groups: three(l.MaxComputeWorkGroupCount), Local: three(l.MaxComputeWorkGroupSize),
		Invocations: int(l.MaxComputeWorkGroupInvocations), Shared: int(l.MaxComputeSharedMemorySize), Timestamp: float64(l.TimestampPeriod),
	}
	d.Subgroup = Subgroup{Size: int(v11.SubgroupSize), Min: int(v13.MinSubgroupSize), Max: int(v13.MaxSubgroupSize),
		Control:      v13.RequiredSubgroupSizeStages&vk.ShaderStageComputeBit != 0,
		MostPerGroup: int(v13.MaxComputeWorkgroupSubgroups), Operations: v11.SubgroupSupportedOperations}
	d.Dot = Dot{v13.IntegerDotProduct8BitSignedAccelerated != 0, v13.IntegerDotProduct8BitUnsignedAccelerated != 0,
		v13.IntegerDotProduct8BitMixedSignednessAccelerated != 0, v13.IntegerDotProduct4x8BitPackedSignedAccelerated != 0,
		v13.IntegerDotProduct4x8BitPackedUnsignedAccelerated != 0, v13.IntegerDotProduct4x8BitPackedMixedSignednessAccelerated != 0}
	d.Independent = Independent{independence(v12.DenormBehaviorIndependence), independence(v12.RoundingModeIndependence)}
	controls := func(specials, denormals, flush, even, zero uint32) FloatControls {
		return FloatControls{specials != 0, denormals != 0, flush != 0, even != 0, zero != 0}
	}
	d.FloatControls = map[int]FloatControls{
		16: controls(v12.ShaderSignedZeroInfNanPreserveFloat16, v12.ShaderDenormPreserveFloat16, v12.ShaderDenormFlushToZeroFloat16,
			v12.ShaderRoundingModeRTEFloat16, v12.ShaderRoundingModeRTZFloat16),
		32: controls(v12.ShaderSignedZeroInfNanPreserveFloat32, v12.ShaderDenormPreserveFloat32, v12.ShaderDenormFlushToZeroFloat32,
			v12.ShaderRoundingModeRTEFloat32, v12.ShaderRoundingModeRTZFloat32),
		64: controls(v12.ShaderSignedZeroInfNanPreserveFloat64, v12.ShaderDenormPreserveFloat64, v12.ShaderDenormFlushToZeroFloat64,
			v12.ShaderRoundingModeRTEFloat64, v12.ShaderRoundingModeRTZFloat64),
	}
}

// atMost is a size that an int64 holds.
func atMost(n uint64) int64 { return int64(min(n, 1<<62)) }

func three(n [3]uint32) [3]int {
	return [3]int{int(min(n[0], 1<<30)), int(min(n[1], 1<<30)), int(min(n[2], 1<<30))}
}

// memories fills in heaps, with the bytes that are free now.
func (in *instance) memories(d *Info) {
	p := &vk.PhysicalDeviceMemoryProperties2{SType: vk.StructureTypePhysicalDeviceMemoryProperties2}
	var budget *vk.PhysicalDeviceMemoryBudgetPropertiesEXT
	if slices.Contains(d.extensions, "VK_EXT_memory_budget") {
		budget = &vk.PhysicalDeviceMemoryBudgetPropertiesEXT{SType: vk.StructureTypePhysicalDeviceMemoryBudgetProperties}
		p.PNext = unsafe.Pointer(budget)
	}
	in.GetPhysicalDeviceMemoryProperties2(d.handle, p)
	d.memory, d.Heaps = p.MemoryProperties, nil
	for i, h := range d.memory.MemoryHeaps[:d.memory.MemoryHeapCount] {
		free := h.Size
		if budget != nil {
			free = budget.HeapBudget[i] - min(budget.HeapUsage[i], budget.HeapBudget[i])
		}
		d.Heaps = append(d.Heaps, Heap{atMost(h.Size), atMost(free), h.Flags&vk.MemoryHeapDeviceLocalBit != 0})
	}
}

// family is the queue family that runs shaders, -1 if there is none.
func (d *Info) family() int {
	return slices.IndexFunc(d.families, func(f vk.QueueFamilyProperties) bool { return f.QueueFlags&vk.QueueComputeBit != 0 })
}

// copyFamily is a family that only copies, beside shaders, or the one that runs shaders.
func (d *Info) copyFamily() int {
	for i, f := range d.families {
		if f.QueueFlags&(vk.QueueTransferBit|vk.QueueComputeBit|vk.QueueGraphicsBit) == vk.QueueTransferBit {
			return i
		}
	}
	return d.family()
}
