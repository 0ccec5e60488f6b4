package kernels

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/garbage"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/tune"
)

// Device is where products run that shaders can compute, and what the shaders are for.
type Device struct {
	*shaders.Here
	Target spirv.Target
}

// shaded is a product on the device. Its shaders are in the folder, or are compiled, compared with the definition in a worker, and kept.
func (p *making) shaded(problem ir.Problem) (*runtime.Product, Origin, error) {
	e := p.lockedFor(problem, p.device.Target)
	id := p.shaderIdentity("shaders", problem, e)
	origin := Kept
	s := p.keptShaders(problem, id)
	if s == nil {
		var err error
		if s, err = p.compileShaders(problem, e); err != nil {
			return nil, "", err
		}
		p.keepGob(id, s)
		origin = Compiled
	}
	v := &s.Spec.Variants[0]
	v.Device = p.device.On
	v.Listed = func(cols int) ([]abi.Shader, error) { return p.listed(problem, e, s, cols) }
	v.Ended = func(kernel int, by abi.Ending) ([]abi.Shader, error) { return p.ended(problem, e, s, kernel, by) }
	if err := s.Spec.Validate(); err != nil {
		return nil, "", err
	}
	x, err := runtime.New(s.Spec).On(v.Target + "@" + p.device.Name)
	return x, origin, err
}

// listed is the shaders of a kernel whose blocks multiply by a matrix each.
func (p *Provider) listed(problem ir.Problem, e *tune.Entry, s *storedShaders, cols int) ([]abi.Shader, error) {
	i := slices.IndexFunc(s.Spec.Variants[0].Kernels, func(k abi.Kernel) bool { return k.Cols == cols })
	return p.onDemand(problem, e, s, i, fmt.Sprintf("shaders of %d columns for lists of matrices", cols), func(t schedule.Trace) ([]abi.Shader, error) {
		return build.Listed(p.ctx, problem, p.device.Target, t, p.device.Controls)
	})
}

// ended is the shaders of a kernel that ends in an operator.
func (p *Provider) ended(problem ir.Problem, e *tune.Entry, s *storedShaders, kernel int, by abi.Ending) ([]abi.Shader, error) {
	what := fmt.Sprintf("shaders of kernel %d that end in %s of %s", kernel, by.Operator, by.Product)
	return p.onDemand(problem, e, s, kernel, what, func(t schedule.Trace) ([]abi.Shader, error) {
		return build.Ended(p.ctx, problem, p.device.Target, t, schedule.Epilogue{Operator: by.Operator, Tensor: by.Product}, p.device.Controls)
	})
}

// onDemand is shaders of a kernel, by its number, that steps of models ask for. They are in the folder, or are compiled by the kernel's schedule and kept.
func (p *Provider) onDemand(problem ir.Problem, e *tune.Entry, s *storedShaders, kernel int, what string, of func(schedule.Trace) ([]abi.Shader, error)) (all []abi.Shader, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := &making{Provider: p, say: p.say}
	id := p.shaderIdentity(what, problem, e)
	if now.keptGob(what+", "+problem.Name(), id, &all) {
		return all, nil
	}
	if kernel < 0 || kernel >= len(s.Traces) {
		return nil, errors.New("kernels: no such kernel")
	}
	var trace schedule.Trace
	if err := json.Unmarshal(s.Traces[kernel], &trace); err != nil {
		return nil, err
	}
	if all, err = of(trace); err == nil {
		now.keepGob(id, all)
	}
	return all, err
}

// shaderIdentity is the text that shaders of a product are kept by.
func (p *Provider) shaderIdentity(kind string, problem ir.Problem, e *tune.Entry) []byte {
	id := identity{kind, p.compiler(), p.device.Target.Machine().Name, fmt.Sprintf("%v %+v %s", p.device.Device, p.device.Controls, mustJSON(p.device.Target.Speeds())), byDefault, problem, abi.Version}
	if e != nil {
		id.Schedule = hashOf(mustJSON(e.Kernels))
	}
	return mustJSON(id)
}

// compileShaders compiles the shaders of e, or without e of the default schedules, and verifies them.
func (p *making) compileShaders(problem ir.Problem, e *tune.Entry) (*storedShaders, error) {
	p.say(Compiling{problem, p.device.Target, p.step(problem)})
	defer p.say(Done{})
	defer garbage.Spare()()
	uses, err := p.shaderUses(problem, e)
	if err != nil {
		return nil, err
	}
	v, err := build.Shaders(p.ctx, problem, p.device.Target, uses, p.device.Controls)
	if err == nil {
		err = v.Check()
	}
	if err != nil && e != nil && p.ctx.Err() == nil {
		err = &tune.LockError{Path: tune.LockName, Problem: message.Line(err)}
	}
	if err != nil {
		return nil, err
	}
	for i := range v.Kernels {
		k := &v.Kernels[i]
		if k.Quantizers, err = build.Quantizers(p.ctx, problem, k.Schedule); err != nil { // only this CPU prepares activations
			k.Quantizers, err = nil, p.ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
	p.say(Verifying{problem, p.device.Target, p.step(problem)})
	left, err := p.verify(problem, &v)
	if err != nil {
		return nil, err
	}
	for _, x := range left {
		if shaders.IsFault(x.Why) {
			p.say(NotUsed{problem, x.Columns, x.Why})
		}
	}
	s := &storedShaders{}
	if s.Spec, err = v.Spec(problem); err != nil {
		return nil, err
	}
	for _, k := range v.Kernels {
		s.Traces = append(s.Traces, mustJSON(k.Schedule.Trace))
	}
	if v.Fused != nil { // it has the number behind the others
		s.Traces = append(s.Traces, mustJSON(v.Fused.Schedule.Trace))
	}
	return s, nil
}

// verify is Lab.Verify of the worker on the device, which tests one product at a time.
func (p *Provider) verify(problem ir.Problem, v *variant.Shaders) (_ []shaders.LeftOut, err error) {
	p.labs.Lock()
	defer p.labs.Unlock()
	if p.lab == nil {
		if p.lab, err = shaders.Open(p.ctx, p.device.Name, nil); err != nil {
			return nil, err
		}
	}
	return p.lab.Verify(p.ctx, problem, v)
}

func (p *Provider) shaderUses(problem ir.Problem, e *tune.Entry) ([]search.Use, error) {
	if e != nil {
		return e.Uses(), nil
	}
	return shaders.Default(p.ctx, problem, p.device.Target)
}

// storedShaders is a product for a device as a file has it, and the schedules of its kernels.
type storedShaders struct {
	Spec   runtime.Spec
	Traces [][]byte
}

// keptShaders is what the folder has for an identity, nil if there is nothing.
func (p *making) keptShaders(problem ir.Problem, id []byte) *storedShaders {
	s := new(storedShaders)
	if !p.keptGob("shaders of "+problem.Name(), id, s) {
		return nil
	}
	if len(s.Spec.Variants) != 1 {
		p.say(NotKept{errors.New("kernels: not one variant")})
		return nil
	}
	return s
}

// keptGob decodes what the folder has for an identity, and says whether there is something.
func (p *making) keptGob(what string, id []byte, to any) bool {
	data := p.keptData(what, id)
	if data == nil {
		return false
	}
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(to); err != nil {
		p.say(NotKept{err})
		return false
	}
	return true
}

func (p *making) keepGob(id []byte, x any) {
	var out bytes.Buffer
	err := gob.NewEncoder(&out).Encode(x)
	p.keepData(id, out.Bytes(), err)
}
