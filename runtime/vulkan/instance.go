package vulkan

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// EnvLoader is the environment variable that names the file of Vulkan's loader, where it is not found by its usual name.
const EnvLoader = "TMACC_VULKAN"

// oldest is the version that the loader and devices need. It has timeline semaphores, subgroup sizes and integer dot products.
const oldestMinor = 3

// validationLayer is the name of Khronos' layer.
const (
	validationLayer = "VK_LAYER_KHRONOS_validation"
	noLayer         = "the validation layer is not installed"
)

// instance is a connection to the loader. Each device has one of its own.
type instance struct {
	vk.InstanceCommands
	cooperative vk.CooperativeCommands
	handle      vk.Instance
	messenger   vk.DebugUtilsMessengerEXT
	messages    *messages // nil without validation
}

func newInstance(validate bool) (*instance, error) {
	lib, err := loader()
	if err != nil {
		return nil, err
	}
	in := &instance{}
	if validate {
		in.messages = newMessages()
	}
	if err := in.create(lib); err != nil {
		in.messages.close()
		return nil, err
	}
	lib.Find(in.handle, &in.InstanceCommands)
	lib.Find(in.handle, &in.cooperative)
	if validate {
		r := in.CreateDebugUtilsMessengerEXT(in.handle, in.messages.messenger(), nil, &in.messenger)
		if err := failed("vkCreateDebugUtilsMessengerEXT", r); err != nil {
			in.close()
			return nil, err
		}
	}
	return in, nil
}

func (in *instance) create(lib *vk.Library) error {
	layers, extensions, flags, err := wanted(lib, in.messages != nil)
	if err != nil {
		return err
	}
	create := &vk.InstanceCreateInfo{
		SType: vk.StructureTypeInstanceCreateInfo, Flags: flags,
		PApplicationInfo: &vk.ApplicationInfo{SType: vk.StructureTypeApplicationInfo, PApplicationName: vk.Text("tmacc"),
			PEngineName: vk.Text("tmacc"), ApiVersion: vk.Version(1, oldestMinor, 0)},
		EnabledLayerCount: uint32(len(layers)), PpEnabledLayerNames: vk.Texts(layers),
		EnabledExtensionCount: uint32(len(extensions)), PpEnabledExtensionNames: vk.Texts(extensions),
	}
	if in.messages != nil {
		create.PNext = unsafe.Pointer(synchronization(in.messages.messenger()))
	}
	r := lib.CreateInstance(create, nil, &in.handle)
	if r == vk.ErrorIncompatibleDriver {
		return noDriver("the loader finds no driver")
	}
	return failed("vkCreateInstance", r)
}

// noDriver is the error of a loader without a driver, or with drivers that find no device.
func noDriver(problem string) error {
	return &Unavailable{problem, "install the driver of your GPU (Debian: mesa-vulkan-drivers for AMD, Intel and the CPU itself; " +
		"NVIDIA's driver brings its own), or name its JSON file in VK_DRIVER_FILES", false}
}

// loader opens the loader, of Vulkan 1.3 or later.
func loader() (*vk.Library, error) {
	if vk.Supported != "" {
		return nil, &Unavailable{vk.Supported, "use the CPU", false}
	}
	lib, err := vk.Load(os.Getenv(EnvLoader))
	if err != nil {
		return nil, &Unavailable{"there is no loader (" + err.Error() + ")", "install it (" + installLoader + "), or name its file in " + EnvLoader, os.Getenv(EnvLoader) != ""}
	}
	version := vk.Version(1, 0, 0)
	if lib.EnumerateInstanceVersion != nil {
		lib.EnumerateInstanceVersion(&version)
	}
	return lib, tooOld(lib.Path, version)
}

func tooOld(path string, version uint32) error {
	if version >= vk.Version(1, oldestMinor, 0) {
		return nil
	}
	return &Unavailable{fmt.Sprintf("the loader %s is of Vulkan %s, tmacc needs 1.%d", path, versionText(version), oldestMinor),
		"install a newer one (" + installLoader + ")", false}
}

// wanted lists layers and extensions to enable.
func wanted(lib *vk.Library, validate bool) (layers, extensions []string, flags uint32, err error) {
	const portability = "VK_KHR_portability_enumeration" // MoltenVK's devices are listed only to whom asks
	if slices.Contains(instanceExtensions(lib), portability) {
		extensions, flags = append(extensions, portability), vk.InstanceCreateEnumeratePortabilityBit
	}
	if !validate {
		return nil, extensions, flags, nil
	}
	if !slices.Contains(instanceLayers(lib), validationLayer) {
		return nil, nil, 0, &Unavailable{noLayer, "install it (Debian: vulkan-validationlayers), or do without validation", false}
	}
	return []string{validationLayer}, append(extensions, "VK_EXT_debug_utils", "VK_EXT_validation_features"), flags, nil
}

func instanceExtensions(lib *vk.Library) (names []string) {
	for _, p := range list(func(n *uint32, p *vk.ExtensionProperties) { lib.EnumerateInstanceExtensionProperties(nil, n, p) }) {
		names = append(names, vk.String(p.ExtensionName[:]))
	}
	return names
}

func instanceLayers(lib *vk.Library) (names []string) {
	for _, p := range list(func(n *uint32, p *vk.LayerProperties) { lib.EnumerateInstanceLayerProperties(n, p) }) {
		names = append(names, vk.String(p.LayerName[:]))
	}
	return names
}

// list is a list that Vulkan returns in two calls, first its length.
func list[T any](call func(n *uint32, first *T)) []T {
	var n uint32
	if call(&n, nil); n == 0 {
		return nil
	}
	all := make([]T, n)
	call(&n, &all[0])
	return all[:n]
}

func (in *instance) close() {
	if in.messenger != 0 {
		in.DestroyDebugUtilsMessengerEXT(in.handle, in.messenger, nil)
	}
	in.DestroyInstance(in.handle, nil)
	in.messages.close()
}

// synchronization also asks for checks of missing barriers.
func synchronization(next *vk.DebugUtilsMessengerCreateInfoEXT) *vk.ValidationFeaturesEXT {
	check := uint32(vk.ValidationFeatureEnableSynchronizationValidation)
	return &vk.ValidationFeaturesEXT{SType: vk.StructureTypeValidationFeatures, PNext: unsafe.Pointer(next),
		EnabledValidationFeatureCount: 1, PEnabledValidationFeatures: &check}
}

// messages are the errors of the validation layer that no call has returned yet.
type messages struct {
	token *byte // by which the layer's calls tell instances apart
	mu    sync.Mutex
	texts []string
}

// The layer calls one function for all instances, because addresses for C are never freed.
var (
	callback   = sync.OnceValue(func() uintptr { return vk.NewCallback(receive) })
	allSinks   sync.Mutex
	sinkOf     = map[unsafe.Pointer]*messages{}
	mostErrors = 100 // are kept of one call
)

func newMessages() *messages {
	m := &messages{token: new(byte)}
	allSinks.Lock()
	defer allSinks.Unlock()
	sinkOf[unsafe.Pointer(m.token)] = m
	return m
}

func (m *messages) close() {
	if m == nil {
		return
	}
	allSinks.Lock()
	defer allSinks.Unlock()
	delete(sinkOf, unsafe.Pointer(m.token))
}

func (m *messages) messenger() *vk.DebugUtilsMessengerCreateInfoEXT {
	return &vk.DebugUtilsMessengerCreateInfoEXT{
		SType:           vk.StructureTypeDebugUtilsMessengerCreateInfo,
		MessageSeverity: vk.DebugUtilsMessageSeverityErrorBit,
		MessageType:     vk.DebugUtilsMessageTypeValidationBit,
		PfnUserCallback: callback(), PUserData: unsafe.Pointer(m.token),
	}
}

func receive(severity, types uint32, data *vk.DebugUtilsMessengerCallbackDataEXT, user unsafe.Pointer) uintptr {
	allSinks.Lock()
	m := sinkOf[user]
	allSinks.Unlock()
	if m == nil || data == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.texts) < mostErrors {
		m.texts = append(m.texts, vk.StringAt(data.PMessage))
	}
	return 0
}

// take is an *Invalid with the messages that came since it was last called, nil if there were none.
func (m *messages) take() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.texts) == 0 {
		return nil
	}
	texts := m.texts
	m.texts = nil
	return &Invalid{texts}
}
