package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	tmacc "github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/timing"
)

// Device is a device of Vulkan, as a worker on it says.
type Device struct {
	Name     string         `json:"name"`
	Type     string         `json:"type"` // "discrete GPU", "software device"
	Driver   string         `json:"driver"`
	Version  string         `json:"version"`  // of Vulkan
	Software bool           `json:"software"` // the CPU does its work
	Range    int64          `json:"range"`    // bytes that a shader sees at once
	Memory   int64          `json:"memory"`   // bytes of its own that are free
	Controls spirv.Controls `json:"-"`        // that its shaders may ask for
}

func (d *Device) String() string { return fmt.Sprintf("%s (%s, %s)", d.Name, d.Type, d.Driver) }

// Vulkan is what a program that has Vulkan does for a worker on a device.
type Vulkan interface {
	// Open opens the device of a name, "" for the preferred one.
	Open(name string) (*Device, error)
	// Device runs the shaders of products there.
	Device() abi.Device
	// Timed readies a product to be timed: each call of run multiplies the copies of a matrix in turn, and returns nanoseconds of a
	// product by the clock of the device.
	Timed(spec tmacc.Spec, src format.Source, t Timed) (run func() (float64, error), free func(), err error)
	// ReadGBS is the bandwidth of reading memory, in 10^9 bytes a second.
	ReadGBS() (float64, error)
}

// vulkan is what a worker on a device has, nil in others.
var vulkan Vulkan

// Here is a device that a program with Vulkan has open itself.
type Here struct {
	*Device
	Name string     // as TMACC_DEVICE
	On   abi.Device // that runs products there, by Name
	// ReadGBS is the bandwidth of reading memory, in 10^9 bytes a second.
	ReadGBS func() (float64, error)
}

// deviceWorker is the value of envWorker of a worker on a device.
const deviceWorker = "device"

// ServeDevice makes a program with Vulkan fit to be a worker on a device. Called first in main, it returns at once unless this process was started as one: then
// it answers requests about shaders until standard input ends.
func ServeDevice(v Vulkan) {
	hasVulkan = true
	if os.Getenv(envWorker) == deviceWorker {
		vulkan = v
		Serve(map[string]func(*uint64){})
	}
}

// hasVulkan says that this program can be a worker on a device.
var hasVulkan bool

// deviceGreeting is what the worker says of its device.
type deviceGreeting struct {
	Device  *Device
	Problem string // why there is none
	Version string // of the program
}

// greetDevice opens the device that the environment names.
func greetDevice() *deviceGreeting {
	if vulkan == nil {
		return nil
	}
	g := &deviceGreeting{Version: version()}
	d, err := vulkan.Open("")
	if g.Device = d; err != nil {
		g.Problem = err.Error()
	}
	return g
}

// version is what both programs say of themselves: they speak the same protocol if it is the same.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == gomod.Path && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}

// DeviceProgram is the name of the program with Vulkan, deviceMain its package.
const (
	DeviceProgram = "tmacc-vulkan"
	deviceMain    = gomod.Path + "/cmd/tmacc/" + DeviceProgram
)

// envDevice is runtime/vulkan's name of the variable that names a device.
const envDevice = "TMACC_DEVICE"

// NoDevice says why there is no device to use, and what to do.
type NoDevice struct{ Why string }

func (e *NoDevice) Error() string { return e.Why }

// OnDevice is a machine whose workers run shaders on the device of Vulkan that name stands for, "" for the one that TMACC_DEVICE names or the preferred
// one. This program has no Vulkan, so that it stays linked statically. It starts another, of the same version, which lies beside it or in PATH, or
// is built of the sources. The error is a *NoDevice if there is no device.
func OnDevice(ctx context.Context, name string, say func(string)) (*Machine, error) {
	env := []string{envWorker + "=" + deviceWorker}
	if name != "" {
		env = append(env, envDevice+"="+name)
	}
	for _, path := range foundPrograms() {
		m, err := onDeviceBy(&program{path: path}, env)
		if other := (*otherVersion)(nil); !errors.As(err, &other) {
			return m, err
		}
	}
	p, err := builtProgram(ctx, say)
	if err != nil {
		return nil, fmt.Errorf("shaders run in another program, %s: %s puts it beside tmacc (it is neither there nor in PATH in this version, and could not be built: %w)", DeviceProgram, installProgram(), err)
	}
	return onDeviceBy(p, env)
}

// otherVersion says that a program is of another version of tmacc.
type otherVersion struct{ path string }

func (e *otherVersion) Error() string { return e.path + " is of another version of tmacc" }

// onDeviceBy is a machine whose workers are a program.
func onDeviceBy(of *program, env []string) (*Machine, error) {
	m := &Machine{os: runtime.GOOS, arch: runtime.GOARCH, own: of, env: env}
	p, err := m.start(nil)
	if err != nil {
		m.Close()
		return nil, err
	}
	g := p.device
	switch {
	case g == nil || of.dir == "" && !of.kept && g.Version != version():
		err = &otherVersion{of.path}
	case g.Problem != "":
		err = &NoDevice{g.Problem}
	}
	if err != nil {
		p.end()
		m.Close()
		return nil, err
	}
	m.host, m.device = p.host, g.Device
	m.keep(p)
	return m, nil
}

// installProgram is the command that installs the program.
func installProgram() string {
	v := version()
	if v == "(devel)" || strings.Contains(v, "+") {
		v = "latest"
	}
	return "go install " + deviceMain + "@" + v
}

// foundPrograms are the paths of programs with Vulkan: this one, if it has Vulkan, or else those beside it and in PATH.
func foundPrograms() (paths []string) {
	name := deviceFile()
	if self, err := os.Executable(); err == nil {
		if hasVulkan {
			return []string{self}
		}
		if path := filepath.Join(filepath.Dir(self), name); isProgram(path) {
			paths = append(paths, path)
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		paths = append(paths, path)
	}
	return paths
}

func deviceFile() string {
	if runtime.GOOS == "windows" {
		return DeviceProgram + ".exe"
	}
	return DeviceProgram
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}

// builtProgram is the program of the sources that this one was built from. It is built once and kept in the user's folder.
func builtProgram(ctx context.Context, say func(string)) (*program, error) {
	path, err := cache.Path("kernels") // where package kernels keeps programs, too
	if err != nil {
		return buildProgram(ctx, say)
	}
	folder, err := cache.Open(path)
	if err != nil {
		return buildProgram(ctx, say)
	}
	defer folder.Close()
	id := []byte(strings.Join([]string{deviceMain, runtime.GOOS, runtime.GOARCH, cache.ThisProgram()}, "\n"))
	if path, _, err := folder.Program(id); path != "" && err == nil {
		return &program{path: path, kept: true}, nil
	}
	p, err := buildProgram(ctx, say)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(p.path)
	if err == nil {
		err = folder.PutProgram(id, data)
	}
	if path, _, _ := folder.Program(id); path != "" && err == nil {
		return &program{path: path, kept: true}, p.remove()
	}
	return p, nil
}

// buildProgram builds the program for this process alone.
func buildProgram(ctx context.Context, say func(string)) (*program, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("%w: %w", jit.ErrNoGo, err)
	}
	root, err := Source()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", DeviceProgram+"-")
	if err != nil {
		return nil, err
	}
	if say != nil {
		say("building " + DeviceProgram)
	}
	p := &program{dir: dir, path: filepath.Join(dir, deviceFile())}
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false", "-o", p.path, deviceMain)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(jit.ToolError("go build", err, string(out)), p.remove())
	}
	return p, nil
}

// Program is the path of the program that workers of m are, and whether it stays when m is closed.
func (m *Machine) Program() (path string, stays bool) { return m.own.path, m.own.dir == "" }

// Device is the device that workers of m run shaders on, nil if they run machine code.
func (m *Machine) Device() *Device {
	if m == nil {
		return nil
	}
	return m.device
}

// Shaders is Code without functions on a machine with a device: Test and Time take specs whose variant has shaders.
func (m *Machine) Shaders(limit time.Duration) *Code {
	return &Code{limit: limit, on: m, shaders: true}
}

// ReadGBS is the bandwidth at which the device reads memory, in 10^9 bytes a second.
func (c *Code) ReadGBS() (float64, error) {
	r, err := c.ask("reading memory", request{Read: true})
	if err != nil {
		return 0, err
	}
	return r.ReadGBS, nil
}

// timeShaders times products on a device in turn, by its clock.
func (s *server) timeShaders(q *timeRequest, r *reply) error {
	var runs []func() (float64, error)
	for i := range q.Products {
		t := &q.Products[i]
		src, err := s.source(t, timedRng(t))
		if err != nil {
			return err
		}
		run, free, err := vulkan.Timed(t.Spec, src, *t)
		if err != nil {
			return err
		}
		defer free()
		if _, err := run(); err != nil { // the first time does not count
			return err
		}
		runs = append(runs, run)
	}
	r.Samples = make([]timing.Sample, len(runs))
	for range max(1, q.Options.Rounds) {
		for i, run := range runs {
			ns, err := run()
			if err != nil {
				return err
			}
			x := &r.Samples[i]
			if x.Rounds, x.Alone = append(x.Rounds, ns), append(x.Alone, true); x.Min == 0 || ns < x.Min {
				x.Min = ns
			}
		}
	}
	return nil
}

// Spec of a request has shaders.
func onDevice(spec *tmacc.Spec) bool {
	return vulkan != nil && len(spec.Variants) == 1 && len(spec.Variants[0].Shaders) > 0
}

// shaded is the product of a spec on the device of this worker.
func shaded(spec *tmacc.Spec) (*tmacc.Product, error) {
	spec.Variants[0].Device = vulkan.Device()
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return tmacc.New(*spec).On(spec.Variants[0].Target)
}
