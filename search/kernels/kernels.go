// Package kernels gives a model the products that it multiplies by. It compiles kernels for this CPU, compares them with the
// definition in a worker process, maps them into this one, and keeps them in a folder of the user: the next process maps them
// without a compiler and without the go command.
//
//	Product -> in the folder, by the compiler, the target, the schedule, the format and the activations -> mapped
//	        -> else compiled by the schedule of the lock or a record or the default one, verified, kept -> mapped
//	        -> else in pure Go: the same bits, more slowly, and an event says why
//
// A program that uses a Provider calls worker.Main first in main (or session.Main): the worker process is a copy of it. Without
// that call, products whose kernels are not in the folder are in pure Go.
//
// Where a system does not let kernels be mapped, Program makes a program that has them linked, and keeps it in the folder.
package kernels

import (
	"cmp"
	"context"
	"errors"
	"os"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/cpu"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/garbage"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/tune"
)

// Options say where kernels are kept and how they are made. The zero value is usual.
type Options struct {
	Folder string     // where kernels are kept, "": Folder
	Lock   *tune.Lock // schedules that a search has found, nil: default schedules
	// Defaults chooses the schedules of products that the lock does not have; nil: as nil is.
	Defaults *defaults.Chooser
	// Device, unless nil, is where products run. One that shaders do not compute runs on this CPU, and an event says why.
	Device *Device
	// Say hears of long steps and of unusual events, of one at a time, nil: nobody. Products are made beside one another; Say hears of them one after the other.
	Say func(Event)
}

// Provider makes products. Its methods may be called concurrently.
type Provider struct {
	ctx      context.Context
	lock     *tune.Lock
	defaults *defaults.Chooser
	hear     func(Event)
	device   *Device       // nil: products run on this CPU
	lab      *shaders.Lab  // a worker on the device, nil until shaders are to be verified
	target   lower.Target  // that kernels are for, nil: there are none
	why      error         // they are not mapped, nil if they are
	folder   *cache.Folder // nil: kernels are not kept
	compiler func() string // identifies this program

	mu       sync.Mutex
	products map[string]*runtime.Product // by tune.ProblemHash
	failed   map[string]error            // of products that were made before they were asked for
	codes    []*live.Code
	made     []Made
	expected []ir.Problem
	slow     bool // an event has said that products are in pure Go

	labs sync.Mutex // of lab
}

// Made is a product that the provider has made.
type Made struct {
	Problem ir.Problem
	Product *runtime.Product
	Origin  Origin
}

// Origin says where kernels came from.
type Origin string

// The origins of kernels.
const (
	Kept     Origin = "kept"     // from the folder
	Compiled Origin = "compiled" // in this process
	None     Origin = "none"     // pure Go
	// InProgram are kernels that were linked into this program.
	InProgram Origin = "linked"
)

// Folder is the folder in which kernels are kept unless told otherwise.
func Folder() (string, error) { return cache.Path("kernels") }

// New makes a provider. When ctx ends, it compiles nothing any more. The error is a *cache.Unsafe if others can write the
// folder, or names the word of TMACC_CPU that is unknown. A folder that cannot be made is an event, not an error.
func New(ctx context.Context, opt Options) (*Provider, error) {
	if err := checkMask(); err != nil {
		return nil, err
	}
	p := &Provider{ctx: ctx, lock: opt.Lock, defaults: opt.Defaults, hear: opt.Say, device: opt.Device, products: map[string]*runtime.Product{}, failed: map[string]error{}}
	if p.target, p.why = choose(); p.target == nil && p.device == nil {
		return p, nil
	}
	if p.target != nil {
		p.why = live.Mappable()
	}
	if err := p.open(opt.Folder); err != nil {
		return nil, err
	}
	p.compiler = cache.ThisProgram
	go cache.ThisProgram() // while the caller works
	return p, nil
}

// choose is the target of this machine that TMACC_CPU allows, or why there is none.
func choose() (lower.Target, error) {
	all := ofThisArchitecture()
	var vs []abi.Variant
	for _, t := range all {
		m := t.Machine()
		vs = append(vs, abi.Variant{Target: m.Name, Need: targets.Features(t), CPUs: m.CPUs})
	}
	i, why := runtime.Choose("tmacc", vs)
	if i < 0 {
		return nil, errors.New(why)
	}
	return all[i], nil
}

// ofThisArchitecture are its targets, the best first.
func ofThisArchitecture() []lower.Target {
	return slices.DeleteFunc(lower.Preferred(targets.All()), func(t lower.Target) bool { return t.Machine().Arch() != goruntime.GOARCH })
}

// checkMask refuses words of TMACC_CPU that name no target and no feature.
func checkMask() error {
	var cs []cpu.Candidate
	for _, t := range ofThisArchitecture() {
		cs = append(cs, cpu.Candidate{Target: t.Machine().Name, Need: targets.Features(t)})
	}
	return cpu.ParseMask(os.Getenv(cpu.Env)).Check(cs)
}

// open opens the folder that kernels are kept in.
func (p *Provider) open(path string) (err error) {
	if path == "" {
		path, err = Folder()
	}
	if err == nil {
		p.folder, err = cache.Open(path)
	}
	if errors.As(err, new(*cache.Unsafe)) {
		return err
	}
	if err != nil {
		p.say(NotKept{err})
	}
	return nil
}

// Close unmaps all kernels: no product of p may be used afterwards.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all error
	for _, code := range p.codes {
		all = errors.Join(all, code.Close())
	}
	p.codes = nil
	if p.lab != nil {
		p.lab.Close()
		p.lab = nil
	}
	if p.folder != nil {
		all = errors.Join(all, p.folder.Close())
		p.folder = nil
	}
	return all
}

// Made lists the products that p has made, in that order.
func (p *Provider) Made() []Made {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.made)
}

// Product is the product of weights in a format and activations. Where it cannot have kernels it is in pure Go, and an event says
// why. It is an error if there is no such product, if the lock is at fault (*tune.LockError), or if the context has ended.
func (p *Provider) Product(w format.Weight, a format.Act) (*runtime.Product, error) {
	problem := ir.Problem{Weight: w, Act: a}
	if err := problem.Validate(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known(problem)
}

// Expect says which products will be asked for. The first of them that is asked for makes all, beside one another, and events count them.
func (p *Provider) Expect(problems []ir.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = problems
}

// step is the number of a product among the expected ones.
func (p *Provider) step(problem ir.Problem) Step { return Step{1 + p.place(problem), len(p.expected)} }

// place is where a product is among the expected ones, -1: nowhere.
func (p *Provider) place(problem ir.Problem) int {
	id := tune.ProblemHash(problem)
	return slices.IndexFunc(p.expected, func(x ir.Problem) bool { return tune.ProblemHash(x) == id })
}

// known is a product, which is made at the first call, and with it others that are expected.
func (p *Provider) known(problem ir.Problem) (*runtime.Product, error) {
	id := tune.ProblemHash(problem)
	if p.products[id] == nil && p.failed[id] == nil {
		p.make(p.missing(problem))
	}
	err := p.failed[id]
	delete(p.failed, id) // who asks again tries again
	return p.products[id], err
}

// missing are the products that are made when one is asked for which there is not yet: itself, and if it is expected the other expected ones.
func (p *Provider) missing(problem ir.Problem) (out []ir.Problem) {
	if p.place(problem) < 0 {
		return []ir.Problem{problem}
	}
	for i, x := range p.expected {
		if id := tune.ProblemHash(x); p.place(x) == i && p.products[id] == nil && p.failed[id] == nil {
			out = append(out, x)
		}
	}
	return out
}

// make makes products.
func (p *Provider) make(problems []ir.Problem) {
	outcomes := make([]outcome, len(problems))
	p.each(len(problems), func(m *making, i int) {
		x := &outcomes[i]
		if x.err = problems[i].Validate(); x.err == nil {
			x.product, x.origin, x.err = m.product(problems[i])
			x.code = m.mapped
		}
	})
	for i, x := range outcomes {
		if x.code != nil {
			p.codes = append(p.codes, x.code)
		}
		id := tune.ProblemHash(problems[i])
		if x.err != nil {
			p.failed[id] = x.err
			continue
		}
		p.products[id] = x.product
		p.made = append(p.made, Made{problems[i], x.product, x.origin})
	}
}

// outcome is what became of a product.
type outcome struct {
	product *runtime.Product
	origin  Origin
	code    *live.Code // nil: none was mapped
	err     error
}

// product makes a product.
func (p *making) product(problem ir.Problem) (*runtime.Product, Origin, error) {
	if p.device != nil {
		x, origin, err := p.shaded(problem)
		if err == nil || p.ctx.Err() != nil || errors.As(err, new(*tune.LockError)) {
			return x, origin, cmp.Or(p.ctx.Err(), err)
		}
		p.say(OnCPU{problem, err})
	}
	if p.target == nil {
		return p.pureGo(problem, p.why)
	}
	if x, err := p.own(problem); x != nil || err != nil {
		return x, InProgram, err
	}
	if p.why != nil {
		return p.pureGo(problem, p.why)
	}
	code, origin, err := p.code(problem)
	switch {
	case p.ctx.Err() != nil:
		return nil, "", p.ctx.Err()
	case errors.As(err, new(*tune.LockError)):
		return nil, "", err
	case err != nil:
		return p.pureGo(problem, err)
	}
	p.mapped = code
	x, err := code.Product()
	return x, origin, err
}

// pureGo is a product without kernels.
func (p *making) pureGo(problem ir.Problem, why error) (*runtime.Product, Origin, error) {
	x, err := runtime.PureGo(problem.Weight, problem.Act)
	if err == nil {
		p.say(PureGo{problem, why})
	}
	return x, None, err
}

// code is the kernels of a product, mapped.
func (p *making) code(problem ir.Problem) (*live.Code, Origin, error) {
	e := p.locked(problem)
	id := p.identity(p.compiler(), problem, e)
	if b := p.kept(problem, id); b != nil {
		code, err := b.Map()
		return code, Kept, err
	}
	b, err := p.compile(problem, e)
	if err != nil {
		return nil, "", err
	}
	p.keep(id, b)
	code, err := b.Map()
	return code, Compiled, err
}

// locked is the entry of the lock for a product on this CPU, nil if there is none.
func (p *Provider) locked(problem ir.Problem) *tune.Entry { return p.lockedFor(problem, p.target) }

func (p *Provider) lockedFor(problem ir.Problem, t lower.Selector) *tune.Entry {
	if p.lock == nil {
		return nil
	}
	if e := p.lock.Find(problem, t); e != nil && e.For(problem) {
		return e
	}
	return nil
}

// compile compiles kernels and verifies them: e, or the default schedules without e.
func (p *making) compile(problem ir.Problem, e *tune.Entry) (*live.Binary, error) {
	if err := assembler(); err != nil { // now, not after the compiler
		return nil, err
	}
	p.say(Compiling{problem, p.target, p.step(problem)})
	defer garbage.Spare()()
	v, err := p.variant(problem, e)
	if err != nil {
		return nil, err
	}
	p.say(Verifying{problem, p.target, p.step(problem)})
	b, err := live.Verify(problem, v)
	p.say(Done{})
	return b, err
}

// variant compiles the kernels of e, or without e of a record or of the default schedules.
func (p *Provider) variant(problem ir.Problem, e *tune.Entry) (variant.Variant, error) {
	if e == nil {
		uses, err := p.defaults.Uses(p.ctx, problem, p.target)
		if err != nil {
			return variant.Variant{}, err
		}
		return build.Variant(p.ctx, problem, p.target, uses)
	}
	v, err := build.Variant(p.ctx, problem, p.target, e.Uses())
	if err != nil && p.ctx.Err() == nil {
		return v, &tune.LockError{Path: tune.LockName, Problem: message.Line(err)}
	}
	return v, err
}

// say reports an event. That products are in pure Go it reports once.
func (p *Provider) say(e Event) {
	if _, slow := e.(PureGo); slow {
		if p.slow {
			return
		}
		p.slow = true
	}
	if p.hear != nil {
		p.hear(e)
	}
}
