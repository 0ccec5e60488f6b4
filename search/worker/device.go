package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
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
	Untested bool           `json:"-"`        // no test of tmacc runs on devices of this system
}

func (d *Device) String() string { return fmt.Sprintf("%s (%s, %s)", d.Name, d.Type, d.Driver) }

// Cautions are what to know before d is believed, a line each.
func (d *Device) Cautions() (all []string) {
	if d.Software {
		all = append(all, d.Name+" is a software device: this CPU does its work, and figures say nothing about GPUs")
	}
	if d.Untested {
		all = append(all, "no test of tmacc runs on devices of "+runtime.GOOS+": compare results with the CPU's")
	}
	return all
}

// Vulkan is what a program that has Vulkan does for a worker on a device.
type Vulkan interface {
	// Open opens the device of a name, "" for the preferred one.
	Open(name string) (*Device, error)
	// Device runs the shaders of products there. failed is the first error of a call, and free frees what they have there.
	Device() (on abi.Device, failed func() error, free func())
	// Timed readies a product to be timed: each call of run multiplies the copies of a matrix in turn, and returns nanoseconds of a
	// product by the clock of the device.
	Timed(spec tmacc.Spec, src format.Source, t Timed) (run func() (float64, error), free func(), err error)
	// ReadGBS is the bandwidth of reading memory, in 10^9 bytes a second.
	ReadGBS() (float64, error)
	// Refused says that an error is of a shader that the device cannot run, by what it says of itself.
	Refused(err error) bool
	// Lost says that nothing runs there any more until it is opened again.
	Lost() bool
	// Calibrate measures what the device does at best. What no shader shows is as in like.
	Calibrate(like spirv.Speeds) (*spirv.Speeds, error)
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
	Program identity
}

// greetDevice opens the device that the environment names.
func greetDevice() *deviceGreeting {
	if vulkan == nil {
		return nil
	}
	g := &deviceGreeting{Program: own()}
	d, err := vulkan.Open("")
	if g.Device = d; err != nil {
		g.Problem = err.Error()
	}
	return g
}

// identity is what a program says of itself: its tmacc, and a hash of what messages have. Programs between releases, built with changes perhaps, may have
// the same name of a tmacc, or none.
type identity struct{ Compiler, Messages string }

func own() identity {
	h := sha256.New()
	fmt.Fprintln(h, abi.Version)
	for _, t := range []reflect.Type{reflect.TypeFor[greeting](), reflect.TypeFor[request](), reflect.TypeFor[reply]()} {
		describe(h, t, map[reflect.Type]bool{})
	}
	return identity{gomod.Compiler(), fmt.Sprintf("%x", h.Sum(nil)[:4])}
}

func (x identity) String() string {
	return fmt.Sprintf("tmacc %s, messages %s", x.Compiler, x.Messages)
}

// fits says that x and y are of one tmacc. The name of one that was built of the sources is not known to Go.
func (x identity) fits(y identity, built bool) bool {
	return x.Messages == y.Messages && (built || x.Compiler == y.Compiler)
}

// describe writes the fields of t and of the types in it.
func describe(w io.Writer, t reflect.Type, seen map[reflect.Type]bool) {
	if fmt.Fprintln(w, t); seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		describe(w, t.Elem(), seen)
	case reflect.Map:
		describe(w, t.Key(), seen)
		describe(w, t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			fmt.Fprintln(w, t.Field(i).Name)
			describe(w, t.Field(i).Type, seen)
		}
	}
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
// is built of the sources. Programs that it passes over it says. One beside it that does not start is an error. So is no device: a *NoDevice.
// When ctx ends, so do starts of workers.
func OnDevice(ctx context.Context, name string, say func(string)) (*Machine, error) {
	m := &Machine{os: runtime.GOOS, arch: runtime.GOARCH, ctx: ctx, env: []string{envWorker + "=" + deviceWorker}}
	if name != "" {
		m.env = append(m.env, envDevice+"="+name)
	}
	if chosen, err := m.choose(foundPrograms(), say); chosen || err != nil {
		return ready(m, err)
	}
	var err error
	if m.own, err = builtProgram(ctx, say); err != nil {
		return nil, fmt.Errorf("shaders run in another program, %s: %s puts it beside tmacc (it is neither there nor in PATH in this version, and could not be built: %w)", DeviceProgram, installProgram(), err)
	}
	return ready(m, m.greetedByDevice())
}

// choose makes the first of the programs that is of this tmacc and works the program of m, if there is one.
func (m *Machine) choose(all []found, say func(string)) (chosen bool, err error) {
	for _, f := range all {
		m.own = &program{path: f.path}
		err := m.greetedByDevice()
		other := (*otherProgram)(nil)
		switch {
		case !errors.As(err, &other):
			return true, err
		case f.beside && other.broken:
			return false, fmt.Errorf("%w: %s replaces it", err, installProgram())
		case say != nil:
			say(err.Error() + ": passed over")
		}
	}
	return false, nil
}

// ready is m, or closes it for an error.
func ready(m *Machine, err error) (*Machine, error) {
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// otherProgram says that a program is of another tmacc, or does not work.
type otherProgram struct {
	path, why string
	broken    bool
}

func (e *otherProgram) Error() string { return e.path + " " + e.why }

// greetedByDevice keeps what the first worker says of its device.
func (m *Machine) greetedByDevice() error {
	p, err := m.start(nil)
	if m.ctx.Err() != nil {
		return m.ctx.Err()
	}
	if err != nil {
		return &otherProgram{m.own.path, "does not work: " + err.Error(), true}
	}
	g := p.device
	switch {
	case g == nil:
		err = &otherProgram{m.own.path, "is no program with Vulkan", true}
	case !g.Program.fits(own(), m.own.dir != "" || m.own.kept):
		err = &otherProgram{m.own.path, fmt.Sprintf("is of another version (%v, this is %v)", g.Program, own()), false}
	case g.Problem != "":
		err = &NoDevice{g.Problem}
	}
	if err != nil {
		p.end()
		return err
	}
	m.host, m.device = p.host, g.Device
	m.keep(p)
	return nil
}

// installProgram is the command that installs the program.
func installProgram() string {
	v := gomod.Compiler()
	if v == gomod.Unknown || strings.Contains(v, "+") {
		v = "latest"
	}
	return "go install " + deviceMain + "@" + v
}

// found is a program with Vulkan, by its name: beside this one, or in PATH.
type found struct {
	path   string
	beside bool
}

// foundPrograms are programs with Vulkan: this one, if it has Vulkan, or else those beside it and in PATH.
func foundPrograms() (all []found) {
	if self, err := os.Executable(); err == nil && hasVulkan {
		return []found{{self, true}}
	}
	add := func(dir string, beside bool) {
		if path := filepath.Join(dir, deviceFile()); filepath.IsAbs(path) && isProgram(path) {
			all = append(all, found{path, beside})
		}
	}
	if self, err := os.Executable(); err == nil {
		add(filepath.Dir(self), true)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		add(dir, false)
	}
	return all
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
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false", "-ldflags=-s -w", "-o", p.path, deviceMain)
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

// Shaders is a worker on a device. A request ends when its context does, and its worker with it.
type Shaders struct{ code *Code }

// Shaders is a worker on a machine with a device, for requests of at most limit.
func (m *Machine) Shaders(limit time.Duration) *Shaders {
	return &Shaders{&Code{limit: limit, on: m, shaders: true}}
}

// Close ends the use of the worker.
func (s *Shaders) Close() error { return s.code.Close() }

// Test is Code.Test of a spec whose variant has shaders, by the kernels that the device runs. Skipped are the others, and why. The error is a *Refused if it
// runs none.
func (s *Shaders) Test(ctx context.Context, what string, spec tmacc.Spec, seed uint64) (skipped []string, err error) {
	r, err := s.code.ask(ctx, what, request{Test: &testRequest{withoutFuncs(spec), seed}})
	if err != nil {
		return nil, err
	}
	return r.Skipped, nil
}

// Time is Code.Time of specs whose variants have shaders.
func (s *Shaders) Time(ctx context.Context, what string, opt timing.Options, products ...Timed) ([]timing.Sample, error) {
	return s.code.time(ctx, what, timeRequest{Products: products, Options: opt})
}

// ReadGBS is the bandwidth at which the device reads memory, in 10^9 bytes a second.
func (s *Shaders) ReadGBS(ctx context.Context) (float64, error) {
	r, err := s.code.ask(ctx, "reading memory", request{Read: true})
	if err != nil {
		return 0, err
	}
	return r.ReadGBS, nil
}

// onItsDevice is an error if a later worker of m is not on the device that m was opened for.
func (m *Machine) onItsDevice(p *process) error {
	switch g := p.device; {
	case g == nil:
		return &otherProgram{m.own.path, "is no program with Vulkan", true}
	case g.Problem != "":
		return &NoDevice{g.Problem}
	case g.Device.Name != m.device.Name:
		return &NoDevice{fmt.Sprintf("%s is there no more, only %s", m.device.Name, g.Device.Name)}
	}
	return nil
}

// Calibrate is what the device does at best. What no shader shows is as in like.
func (s *Shaders) Calibrate(ctx context.Context, like spirv.Speeds) (spirv.Speeds, error) {
	r, err := s.code.ask(ctx, "measuring the device", request{Like: &like})
	if err != nil {
		return like, err
	}
	return *r.Speeds, nil
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

// shaded is the product of a spec on the device of its variant.
func shaded(spec *tmacc.Spec) (*tmacc.Product, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return tmacc.New(*spec).On(spec.Variants[0].Target)
}
