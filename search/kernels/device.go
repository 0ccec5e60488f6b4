package kernels

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
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
	id := p.shaderIdentity(problem, e)
	origin := Kept
	spec := p.keptSpec(problem, id)
	if spec == nil {
		var err error
		if spec, err = p.compileShaders(problem, e); err != nil {
			return nil, "", err
		}
		p.keepSpec(id, spec)
		origin = Compiled
	}
	v := &spec.Variants[0]
	v.Device = p.device.On
	if err := spec.Validate(); err != nil {
		return nil, "", err
	}
	x, err := runtime.New(*spec).On(v.Target + "@" + p.device.Name)
	return x, origin, err
}

// shaderIdentity is the text that the shaders of a product are kept by.
func (p *Provider) shaderIdentity(problem ir.Problem, e *tune.Entry) []byte {
	id := identity{"shaders", p.compiler(), p.device.Target.Machine().Name, fmt.Sprintf("%v %+v %s", p.device.Device, p.device.Controls, mustJSON(p.device.Target.Speeds())), byDefault, problem, abi.Version}
	if e != nil {
		id.Schedule = hashOf(mustJSON(e.Kernels))
	}
	return mustJSON(id)
}

// compileShaders compiles the shaders of e, or without e of the default schedules, and verifies them.
func (p *making) compileShaders(problem ir.Problem, e *tune.Entry) (*runtime.Spec, error) {
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
	if v.Listed, err = build.Listed(p.ctx, &v, p.device.Controls); err != nil {
		return nil, err
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
	spec, err := v.Spec(problem)
	return &spec, err
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

// keptSpec is what the folder has for an identity, nil if there is nothing.
func (p *making) keptSpec(problem ir.Problem, id []byte) *runtime.Spec {
	data := p.keptData("shaders of "+problem.Name(), id)
	if data == nil {
		return nil
	}
	spec := new(runtime.Spec)
	err := gob.NewDecoder(bytes.NewReader(data)).Decode(spec)
	if err == nil && len(spec.Variants) != 1 {
		err = errors.New("kernels: not one variant")
	}
	if err != nil {
		p.say(NotKept{err})
		return nil
	}
	return spec
}

func (p *making) keepSpec(id []byte, spec *runtime.Spec) {
	var out bytes.Buffer
	err := gob.NewEncoder(&out).Encode(spec)
	p.keepData(id, out.Bytes(), err)
}
