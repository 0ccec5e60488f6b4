package vulkan

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// EnvDevice is the environment variable that names a device: a number in the list of Devices, or a part of a name.
const EnvDevice = "TMACC_DEVICE"

// Untested is true on systems without a test in CI: Windows, where the tests have passed under Wine, and darwin, where none has run.
const Untested = runtime.GOOS != "linux"

// Options of Open. The zero value opens the preferred device.
type Options struct {
	Device      string        // as EnvDevice, which counts if this is empty
	Validate    bool          // Khronos' validation layer watches: what it finds wrong with a call is the call's error
	MemoryLimit int64         // bytes that buffers may take, 0 for what the device has
	Timeout     time.Duration // of one wait for the device, 0 for 2 minutes, or 10 on a software device, which compiles a shader when it first runs
	NoCache     bool          // pipelines are neither read from the user's folder of files nor kept there

	// For tests:
	slotBytes    int64 // copies go through slots of this size even where the host reaches the device's memory
	twoTimelines bool  // copies have a timeline of their own even where the device has one queue
}

// Device is an open device. Its methods, and the methods of its buffers, may be called from several goroutines at once.
type Device struct {
	Info
	options     Options
	instance    *instance
	handle      vk.Device
	vk          vk.DeviceCommands
	compute     *queue
	transfer    *queue // the same one if the device has no queue for copies alone
	unified     bool   // the host reaches the device's own memory as quickly as its own
	staging     chan *slot
	slotBytes   int64
	cache       *cache.Folder
	loseAfter   atomic.Int64 // submissions that succeed before a simulated loss, -1 for all
	lost        atomic.Pointer[error]
	hung        atomic.Bool
	inUse       sync.RWMutex // held by calls, and by Close alone
	closed      bool
	mu          sync.Mutex // guards what follows, and submissions
	cacheErr    error
	buffers     int
	allocated   int64 // bytes of buffers in the device's own memory
	layouts     map[layoutKey]layout
	freeOnClose map[freer]bool
}

// freer is a buffer, pipeline or sequence, which Close frees if nobody else has.
type freer interface{ free() }

// Open opens a device. The error is an *Unavailable if there is none to open, and says what to install or set.
func Open(o Options) (*Device, error) {
	in, err := newInstance(o.Validate)
	if err != nil {
		return nil, err
	}
	d, err := in.open(o)
	if err != nil {
		in.close()
		return nil, err
	}
	return d, nil
}

func (in *instance) open(o Options) (*Device, error) {
	all, err := in.devices()
	if err != nil {
		return nil, err
	}
	want := o.Device
	if want == "" {
		want = os.Getenv(EnvDevice)
	}
	info, err := choose(all, want)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
		if info.Type == Software {
			o.Timeout = 10 * time.Minute
		}
	}
	d := &Device{Info: info, options: o, instance: in, slotBytes: cmp.Or(o.slotBytes, slotBytes), layouts: map[layoutKey]layout{}, freeOnClose: map[freer]bool{}}
	d.loseAfter.Store(-1)
	if err := d.create(); err != nil {
		return nil, err
	}
	if err := errors.Join(d.start(), in.messages.take()); err != nil {
		d.destroy()
		return nil, err
	}
	return d, nil
}

// choose finds the device that a text names, or the preferred one that has no problem.
func choose(all []Info, want string) (Info, error) {
	if want == "" {
		best := slices.MinFunc(all, func(a, b Info) int { return rank(a) - rank(b) })
		if best.Problem != "" {
			return Info{}, &Unavailable{Problem: "no device will do", Remedy: "the best is " + best.Name + ", but " + best.Problem}
		}
		return best, nil
	}
	var found []Info
	for _, d := range all {
		if strconv.Itoa(d.Index) == want {
			found = []Info{d}
			break
		}
		if strings.Contains(strings.ToLower(d.Name), strings.ToLower(want)) {
			found = append(found, d)
		}
	}
	switch {
	case len(found) != 1:
		return Info{}, &Unavailable{fmt.Sprintf("%s named %q", howMany(len(found)), want), "choose one of " + listed(all), true}
	case found[0].Problem != "":
		return Info{}, &Unavailable{found[0].Name + " will not do", found[0].Problem, true}
	}
	return found[0], nil
}

// rank orders devices, the preferred one first.
func rank(d Info) int {
	n := slices.Index(preference, d.Type)
	if d.Problem != "" {
		n += len(preference)
	}
	return n
}

// howMany devices are, in words.
func howMany(n int) string {
	if n == 0 {
		return "no device is"
	}
	return fmt.Sprint(n, " devices are")
}

func listed(all []Info) string {
	var texts []string
	for _, d := range all {
		texts = append(texts, d.String())
	}
	return strings.Join(texts, "; ")
}

// create makes the logical device.
func (d *Device) create() error {
	var extensions []string
	for _, name := range []string{cooperativeExtension, "VK_KHR_portability_subset", "VK_EXT_memory_budget"} {
		if slices.Contains(d.extensions, name) && (name != cooperativeExtension || d.Features.CooperativeMatrix) {
			extensions = append(extensions, name)
		}
	}
	priority := float32(1)
	var queues []vk.DeviceQueueCreateInfo
	for _, family := range d.queueFamilies() {
		queues = append(queues, vk.DeviceQueueCreateInfo{SType: vk.StructureTypeDeviceQueueCreateInfo,
			QueueFamilyIndex: family, QueueCount: 1, PQueuePriorities: &priority})
	}
	r := d.instance.CreateDevice(d.Info.handle, &vk.DeviceCreateInfo{
		SType: vk.StructureTypeDeviceCreateInfo, PNext: unsafe.Pointer(&d.enabled().v10),
		QueueCreateInfoCount: uint32(len(queues)), PQueueCreateInfos: &queues[0],
		EnabledExtensionCount: uint32(len(extensions)), PpEnabledExtensionNames: vk.Texts(extensions),
	}, nil, &d.handle)
	if err := failed("vkCreateDevice of "+d.Name, r); err != nil {
		return err
	}
	if missing := d.instance.FindDevice(d.handle, &d.vk); len(missing) > 0 {
		if d.vk.DestroyDevice != nil {
			d.vk.DestroyDevice(d.handle, nil)
		}
		return fmt.Errorf("vulkan: %s has Vulkan %s, but its driver lacks %s", d.Name, d.Version, strings.Join(missing, ", "))
	}
	return nil
}

// queueFamilies are the families of the queues that a device has: one, or two.
func (d *Device) queueFamilies() []uint32 {
	return slices.Compact([]uint32{uint32(d.family()), uint32(d.copyFamily())})
}

// start makes queues and staging memory.
func (d *Device) start() (err error) {
	families := d.queueFamilies()
	if d.compute, err = d.newQueue(families[0]); err != nil {
		return err
	}
	if d.transfer = d.compute; len(families) > 1 || d.options.twoTimelines {
		if d.transfer, err = d.newQueue(families[len(families)-1]); err != nil {
			return err
		}
	}
	d.unified = d.options.slotBytes == 0 && (d.Type == Integrated || d.Type == Software) && d.memoryType(^uint32(0), deviceMemory|hostMemory) >= 0
	d.staging = make(chan *slot, slots)
	for range slots {
		d.staging <- &slot{}
	}
	if !d.options.NoCache {
		d.openCache()
	}
	return nil
}

// Wait returns when all that was started or uploaded is done.
func (d *Device) Wait() (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	d.mu.Lock()
	last := []point{d.transfer.last(), d.compute.last()}
	d.mu.Unlock()
	for _, p := range last {
		if err := d.wait(p); err != nil {
			return err
		}
	}
	return nil
}

// enter begins a call. Its caller defers leave.
func (d *Device) enter() error {
	d.inUse.RLock()
	if err := d.Lost(); err != nil { // also when somebody has closed it since
		d.inUse.RUnlock()
		return err
	}
	if d.closed {
		d.inUse.RUnlock()
		return fmt.Errorf("vulkan: %s is closed", d.Name)
	}
	return nil
}

// Lost is the error of all calls if the device is lost, nil if it is not.
func (d *Device) Lost() error {
	if lost := d.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}

// leave ends a call. What the validation layer said meanwhile becomes its error.
func (d *Device) leave(err *error) {
	*err = errors.Join(*err, d.instance.messages.take())
	d.inUse.RUnlock()
}

// check is failed, and remembers the loss of the device.
func (d *Device) check(call string, r vk.Result) error {
	err := failed(call, r)
	if r == vk.ErrorDeviceLost {
		return d.lose(call)
	}
	return err
}

// lose makes the device lost from now on.
func (d *Device) lose(why string) error {
	err := fmt.Errorf("vulkan: %s: %w (%s): open it again", d.Name, ErrLost, why)
	d.lost.CompareAndSwap(nil, &err)
	return *d.lost.Load()
}

// LoseAfter is for tests: after this number of further submissions the device is lost. A start of a sequence is a submission,
// and so is each slot of a copy.
func (d *Device) LoseAfter(submissions int) { d.loseAfter.Store(int64(submissions)) }

// Close frees the device with all its buffers, pipelines and sequences. It waits for calls and for work that has been started.
// What the validation layer says then is its error. A device that did not finish in time is left to the end of the process.
func (d *Device) Close() error {
	d.inUse.Lock()
	defer d.inUse.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.hung.Load() {
		return *d.lost.Load()
	}
	d.vk.DeviceWaitIdle(d.handle)
	d.mu.Lock()
	for f := range d.freeOnClose {
		f.free()
	}
	d.mu.Unlock()
	d.destroy()
	err := d.instance.messages.take()
	d.instance.close()
	return errors.Join(err, d.instance.messages.take())
}

// destroy frees what create and start made.
func (d *Device) destroy() {
	for range len(d.staging) {
		(<-d.staging).destroy(d)
	}
	for _, l := range d.layouts {
		d.vk.DestroyPipelineLayout(d.handle, l.pipeline, nil)
		d.vk.DestroyDescriptorSetLayout(d.handle, l.set, nil)
	}
	if d.transfer != nil && d.transfer != d.compute {
		d.vk.DestroySemaphore(d.handle, d.transfer.timeline, nil)
	}
	if d.compute != nil {
		d.vk.DestroySemaphore(d.handle, d.compute.timeline, nil)
	}
	if d.cache != nil {
		d.cache.Close()
	}
	d.vk.DestroyDevice(d.handle, nil)
}

// keep has Close free f.
func (d *Device) keep(f freer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freeOnClose[f] = true
}

// Held is how many buffers, pipelines and sequences nobody has freed yet.
func (d *Device) Held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.freeOnClose)
}

// release frees f, unless Close or another call did.
func (d *Device) release(f freer, last func() point) {
	d.inUse.RLock()
	defer d.inUse.RUnlock()
	if d.closed {
		return
	}
	d.wait(last())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.freeOnClose[f] && !d.hung.Load() {
		delete(d.freeOnClose, f)
		f.free()
	}
}
