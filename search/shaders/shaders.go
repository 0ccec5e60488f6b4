// Package shaders measures products on devices of Vulkan: schedules compiled here, compared with the definition and timed in another process, which
// has Vulkan.
package shaders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// limit is how long a request may take. A software device compiles each shader when it first runs.
const limit = 10 * time.Minute

// Total is how many bytes of copies products cycle through in mode dram: more than the caches of cards hold.
const Total = 256 << 20

// SoftwareTotal is Total of a search on a software device, which is slow.
const SoftwareTotal = 16 << 20

// Packaged are what shaders of packages ask for: a device runs the first that it can, without the controls of floats that it lacks. Devices of
// all vendors have subgroups of 32 lanes; others exchange words by shared memory.
var Packaged = []spirv.Controls{
	{RoundToEven: true, Denormals: true, NotNumbers: true, Subgroup: 32},
	{RoundToEven: true, Denormals: true, NotNumbers: true},
}

// Alternatives are v by the first shaders of its kernels, by the second, and so on.
func Alternatives(v *variant.Shaders) (all []variant.Shaders) {
	for i, more := 0, true; more; i++ {
		one := variant.Shaders{Target: v.Target}
		more = false
		for _, k := range v.Kernels {
			more = more || i+1 < len(k.Shaders)
			at := min(i, len(k.Shaders)-1)
			one.Kernels = append(one.Kernels, variant.Shaded{Schedule: k.Schedule, Shaders: k.Shaders[at : at+1]})
		}
		if f := v.Fused; f != nil {
			more = more || i+1 < len(f.Shaders)
			at := min(i, len(f.Shaders)-1)
			one.Fused = &variant.Shaded{Schedule: f.Schedule, Shaders: f.Shaders[at : at+1], Most: f.Most}
		}
		all = append(all, one)
	}
	return all
}

// Product is a product compiled for a device.
type Product = variant.Shaders

// Device is what a worker says of its device, and Here one that this process has open itself. NoDevice is the error that says why there is none, Refused one of
// shaders that a device cannot run.
type (
	Device   = worker.Device
	Here     = worker.Here
	NoDevice = worker.NoDevice
	Refused  = worker.Refused
)

// IsFault says that err is of a shader that crashed, hung or gave wrong results.
func IsFault(err error) bool { return worker.IsFault(err) }

// Lab is an open device.
type Lab struct {
	on    *worker.Machine
	code  *worker.Shaders
	readG float64 // GB/s, 0: not measured
}

// Open opens the device that name stands for, "" for the one that TMACC_DEVICE names or the preferred one. It starts the program that has Vulkan, and
// builds it if need be, which say says. The error is a *NoDevice if there is no device.
func Open(ctx context.Context, name string, say func(string)) (*Lab, error) {
	m, err := worker.OnDevice(ctx, name, say)
	if err != nil {
		return nil, err
	}
	return &Lab{on: m, code: m.Shaders(limit)}, nil
}

// Program is the path of the program that has Vulkan, and whether it stays when l is closed.
func (l *Lab) Program() (path string, stays bool) { return l.on.Program() }

// Close ends the process.
func (l *Lab) Close() {
	l.code.Close()
	l.on.Close()
}

// Device is what the device is.
func (l *Lab) Device() *worker.Device { return l.on.Device() }

// Compile compiles schedules of one packed layout for the device.
func (l *Lab) Compile(ctx context.Context, p ir.Problem, t spirv.Target, uses ...search.Use) (*variant.Shaders, error) {
	v, err := build.Shaders(ctx, p, t, uses, l.Device().Controls)
	return &v, err
}

// Test compares a product with its definition, bit for bit, by the first of each kernel's shaders that the device can run: see worker.Code.Test. The error
// is a *Refused if it can run none.
func (l *Lab) Test(ctx context.Context, p ir.Problem, v *variant.Shaders) error {
	_, err := l.test(ctx, p, v)
	return err
}

// test is Test. Skipped are kernels that the device does not run, while it runs others.
func (l *Lab) test(ctx context.Context, p ir.Problem, v *variant.Shaders) (skipped []string, err error) {
	s, err := v.Spec(p)
	if err != nil {
		return nil, err
	}
	return l.code.Test(ctx, fmt.Sprint(v.Kernels[0].Schedule.Trace), s, 1)
}

// LeftOut is a kernel of a product that a device does without, and why.
type LeftOut struct {
	Columns int
	Why     error // a *Refused, or a fault: see IsFault
}

// Verify is Test of a product some of whose kernels may be left out: the ones that the device refuses, or that do what no shader may do there. It
// removes them from v, and says which. The error is of a product that has no others.
func (l *Lab) Verify(ctx context.Context, p ir.Problem, v *variant.Shaders) ([]LeftOut, error) {
	return verify(v, func(v *variant.Shaders) ([]string, error) { return l.test(ctx, p, v) })
}

func verify(v *variant.Shaders, test func(*variant.Shaders) (skipped []string, err error)) (out []LeftOut, err error) {
	blamed := func(err error) bool { return IsFault(err) || errors.As(err, new(*Refused)) }
	skipped, err := test(v)
	if len(skipped) == 0 && !blamed(err) {
		return nil, err
	}
	var kept []variant.Shaded
	for _, k := range v.Kernels {
		switch _, alone := test(&variant.Shaders{Target: v.Target, Kernels: []variant.Shaded{k}}); {
		case alone == nil:
			kept = append(kept, k)
		case blamed(alone):
			out = append(out, LeftOut{k.Schedule.Cols, alone})
		default:
			return nil, alone
		}
	}
	if len(kept) == 0 || len(out) == 0 {
		return nil, err
	}
	v.Kernels = kept
	_, err = test(v)
	return out, err
}

// Time times products for a purpose in turn, by the clock of the device. The first one is kept there for the next call.
func (l *Lab) Time(ctx context.Context, p ir.Problem, x tune.Purpose, rounds int, vs ...*variant.Shaders) ([]timing.Sample, error) {
	var all []worker.Timed
	for i, v := range vs {
		s, err := v.Spec(p)
		if err != nil {
			return nil, err
		}
		all = append(all, worker.Timed{Spec: s, M: x.M, N: x.N, K: p.WholeK(x.K), Total: x.Total, Keep: i == 0 && len(vs) > 1})
	}
	return l.code.Time(ctx, "products on "+l.Device().Name, timing.Options{Rounds: rounds}, all...)
}

// ReadGBS is the bandwidth at which the device reads memory, in 10^9 bytes a second, measured once.
func (l *Lab) ReadGBS(ctx context.Context) (float64, error) {
	if l.readG > 0 {
		return l.readG, nil
	}
	var err error
	l.readG, err = l.code.ReadGBS(ctx)
	return l.readG, err
}

// Speeds are the known ones of the device: the built-in ones of its name, or the general ones.
func (l *Lab) Speeds() spirv.Speeds { return spirv.SpeedsOf(l.Device().Name) }

// Calibrate measures what the device does at best. What no shader shows is as in Speeds.
func (l *Lab) Calibrate(ctx context.Context) (spirv.Speeds, error) {
	return l.code.Calibrate(ctx, l.Speeds())
}

// Purpose is a product in a mode: from memory, or of weights that a cache holds.
func Purpose(mode string, m, n, k int) tune.Purpose {
	x := tune.Purpose{Mode: mode, M: m, N: n, K: k}
	if mode == measure.ModeDRAM {
		x.Total = Total
	}
	return x
}

// Host is the device as the machine of a lock's entry.
func (l *Lab) Host() timing.Host {
	h := l.on.Host()
	d := l.Device()
	return timing.Host{CPU: d.Name, Vendor: d.Driver, OS: h.OS, Arch: "spirv", Go: h.Go}
}

// Record is a measurement of a product on a device: of its memory it has the share of the bandwidth that reading reaches.
func Record(p ir.Problem, v *variant.Shaders, x tune.Purpose, s timing.Sample, readGBS float64) measure.Record {
	l := v.Kernels[0].Schedule.Weights
	ns := timing.Median(s.Rounds)
	bytes := float64((x.M+l.TileM-1)/l.TileM) * float64(l.TileBytes(x.K))
	r := measure.Record{Format: p.Name(), BitsPerWeight: l.Part(format.Codes).CodeBits(), Group: p.Weight.Group, M: x.M, K: x.K, N: x.N,
		Target: v.Target.Machine().Name, Family: "dot", Exact: true, Mode: x.Mode, Ns: ns,
		GWeightsS: float64(x.M) * float64(x.K) * float64(x.N) / ns, GBS: bytes / ns, CeilingGBS: readGBS}
	r.ReadShare = r.GBS / readGBS
	r.Share = r.ReadShare
	return r
}
