package kernels

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	goruntime "runtime"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/tune"
)

// identity is everything that decides which machine code a file holds.
type identity struct {
	Kind     string     `json:"kind"`
	Compiler string     `json:"compiler"` // of this program, which is the compiler and the runtime
	ISA      string     `json:"isa"`
	Core     string     `json:"core"`
	Schedule string     `json:"schedule"` // "default", or the hash of the traces of the lock or of a record
	Problem  ir.Problem `json:"problem"`  // format and activations
	ABI      int        `json:"abi"`
}

// byDefault is the schedule of an identity without an entry of a lock: the compiler decides it.
const byDefault = "default"

// identity is the text that the kernels of a product are kept by, made by a compiler by e or, without e, by a record or the default
// schedules.
func (p *Provider) identity(compiler string, problem ir.Problem, e *tune.Entry) []byte {
	m := p.target.Machine()
	id := identity{"kernels", compiler, m.ISA.Name, m.Core.Name, byDefault, problem, abi.Version}
	if e == nil {
		e = p.defaults.Record(problem, p.target)
	}
	if e != nil {
		id.Schedule = hashOf(mustJSON(e.Kernels))
	}
	return mustJSON(id)
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("BUG: kernels: " + err.Error())
	}
	return data
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// stored is a live.Binary as a file has it.
type stored struct {
	Spec runtime.Spec
	Arch string
	Code []byte
	Text []function // by name, so that the same kernels make the same file
}

type function struct {
	Name string
	jit.Span
}

func encode(b *live.Binary) ([]byte, error) {
	s := stored{Spec: b.Spec, Arch: b.Object.Arch, Code: b.Object.Code}
	for name, span := range b.Object.Text {
		s.Text = append(s.Text, function{name, span})
	}
	slices.SortFunc(s.Text, func(a, b function) int { return cmp.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	err := gob.NewEncoder(&out).Encode(s)
	return out.Bytes(), err
}

func decode(data []byte) (*live.Binary, error) {
	var s stored
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&s); err != nil {
		return nil, err
	}
	if len(s.Spec.Variants) != 1 || s.Arch != goruntime.GOARCH {
		return nil, errors.New("kernels: not one variant of this architecture")
	}
	b := &live.Binary{Spec: s.Spec, Object: jit.Object{Arch: s.Arch, Code: s.Code, Text: map[string]jit.Span{}}}
	for _, f := range s.Text {
		b.Object.Text[f.Name] = f.Span
	}
	return b, nil
}

// keptData is what the folder has for an identity, nil if there is nothing.
func (p *making) keptData(what string, id []byte) []byte {
	if p.folder == nil {
		return nil
	}
	data, damaged, err := p.folder.Get(id)
	if damaged {
		p.say(Damaged{what, p.folder.Path()})
	}
	if err != nil {
		p.say(NotKept{err})
		return nil
	}
	return data
}

// kept is the kernels in the folder, nil if there are none.
func (p *making) kept(problem ir.Problem, id []byte) *live.Binary {
	data := p.keptData("kernels of "+problem.Name(), id)
	if data == nil {
		return nil
	}
	b, err := decode(data)
	if err != nil {
		p.say(NotKept{err})
		return nil
	}
	return b
}

// keep puts kernels into the folder.
func (p *making) keep(id []byte, b *live.Binary) {
	data, err := encode(b)
	p.keepData(id, data, err)
}

// keepData puts data into the folder, unless making it failed.
func (p *making) keepData(id, data []byte, err error) {
	if p.folder == nil {
		return
	}
	if err == nil {
		err = p.folder.Put(id, data)
	}
	if err != nil {
		p.say(NotKept{err})
	}
}

// assembler is why kernels cannot be assembled here, nil if they can.
func assembler() error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("%w: install Go from https://go.dev/dl, and the next start compiles them", jit.ErrNoGo)
	}
	return nil
}
