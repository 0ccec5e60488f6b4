package vulkan

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// module is what a SPIR-V module says of its needs.
type module struct {
	capabilities []uint32
	entries      []string // names of its compute shaders
	local        [3]int   // invocations of a workgroup, 0 where specialization constants decide
	bindings     int      // one more than the largest binding
	controls     []control
	shared       int64             // bytes of variables that a workgroup shares
	sizes        map[uint32]int64  // bytes of a type, or of what a pointer of a workgroup points to; of a constant its number
	numbers      map[uint32]string // types of numbers, without a sign: f16, i8
	matrices     []matrix
}

// matrix is a type of cooperative matrices.
type matrix struct {
	scope, rows, columns int
	of                   string // f16, i8
	use                  uint32 // a factor on the left, one on the right, or a sum
}

func (x matrix) String() string {
	return fmt.Sprintf("cooperative matrices of %d x %d %s as %s", x.rows, x.columns, x.of, [...]string{"left factors", "right factors", "sums"}[x.use])
}

// among says that a device has products with such matrices.
func (x matrix) among(all []Cooperative) bool {
	return slices.ContainsFunc(all, func(c Cooperative) bool {
		rows, columns, of := c.M, c.N, c.C
		switch x.use {
		case 0:
			columns, of = c.K, c.A
		case 1:
			rows, of = c.K, c.B
		}
		return x.scope == c.Scope && x.rows == rows && x.columns == columns && x.of == strings.NewReplacer("s", "i", "u", "i").Replace(of)
	})
}

// control is an execution mode of floats, of a width in bits.
type control struct{ mode, width uint32 }

// Numbers of SPIR-V's specification.
const (
	magic          = 0x07230203
	newestMinor    = 6 // which Vulkan 1.3 reads
	opEntryPoint   = 15
	opExecution    = 16
	opCapability   = 17
	opDecorate     = 71
	opInt          = 21
	opFloat        = 22
	opVector       = 23
	opArray        = 28
	opPointer      = 32
	opConstant     = 43
	opVariable     = 59
	opMatrix       = 4456
	classWorkgroup = 4
	opFunction     = 54
	modelCompute   = 5
	modeLocalSize  = 17
	decorBinding   = 33
	firstControl   = 4459 // DenormPreserve, and four more
	headerWords    = 5
	mostModule     = 64 << 20
	mostOfBindings = 1 << 16
)

func newModule() *module { return &module{sizes: map[uint32]int64{}, numbers: map[uint32]string{}} }

// inspect reads a module as far as its first function. Drivers trust modules, so what it can see it checks: the rest is spirv-val's.
func inspect(code []byte) (*module, error) {
	if len(code) < 4*headerWords || len(code)%4 != 0 || len(code) > mostModule {
		return nil, fmt.Errorf("vulkan: %d bytes are no SPIR-V module", len(code))
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(code[4*i:]) }
	if word(0) != magic {
		return nil, fmt.Errorf("vulkan: no SPIR-V module: it begins with %#08x", word(0))
	}
	if v := word(1); v>>16 != 1 || v>>8&0xff > newestMinor {
		return nil, fmt.Errorf("vulkan: a module of SPIR-V %d.%d: Vulkan 1.%d reads 1.0 to 1.%d", v>>16, v>>8&0xff, oldestMinor, newestMinor)
	}
	m := newModule()
	for at := headerWords; at < len(code)/4; {
		n := int(word(at) >> 16)
		if n == 0 || at+n > len(code)/4 {
			return nil, fmt.Errorf("vulkan: a SPIR-V module with an instruction of %d words at word %d of %d", n, at, len(code)/4)
		}
		if word(at)&0xffff == opFunction {
			return m, nil
		}
		words := make([]uint32, n)
		for i := range words {
			words[i] = word(at + i)
		}
		if err := m.read(words); err != nil {
			return nil, err
		}
		at += n
	}
	return nil, fmt.Errorf("vulkan: a SPIR-V module without a function")
}

func (m *module) read(words []uint32) error {
	switch op := words[0] & 0xffff; {
	case op == opCapability && len(words) == 2:
		m.capabilities = append(m.capabilities, words[1])
	case op == opEntryPoint && len(words) > 3 && words[1] == modelCompute:
		m.entries = append(m.entries, literal(words[3:]))
	case op == opExecution && len(words) == 6 && words[2] == modeLocalSize:
		m.local = [3]int{int(words[3]), int(words[4]), int(words[5])}
	case op == opExecution && len(words) == 4 && words[2] >= firstControl && words[2] < firstControl+5:
		m.controls = append(m.controls, control{words[2], words[3]})
	case op == opDecorate && len(words) == 4 && words[2] == decorBinding:
		if words[3] >= mostOfBindings {
			return fmt.Errorf("vulkan: a module with binding %d", words[3])
		}
		m.bindings = max(m.bindings, int(words[3])+1)
	}
	m.measure(words)
	return nil
}

// mostShared bounds what is counted: no device has so much.
const mostShared = 1 << 30

// measure counts the bytes that a workgroup shares, of numbers, vectors and arrays. It notes the types of matrices.
func (m *module) measure(words []uint32) {
	switch op := words[0] & 0xffff; {
	case (op == opInt || op == opFloat) && len(words) > 2:
		m.sizes[words[1]] = int64(min(words[2], 64) / 8)
		m.numbers[words[1]] = fmt.Sprint(map[bool]string{true: "i", false: "f"}[op == opInt], words[2])
	case op == opMatrix && len(words) == 7:
		x := matrix{int(m.sizes[words[3]]), int(m.sizes[words[4]]), int(m.sizes[words[5]]), m.numbers[words[2]], uint32(min(m.sizes[words[6]], 2))}
		m.matrices = append(m.matrices, x)
	case op == opConstant && len(words) == 4:
		m.sizes[words[2]] = int64(min(words[3], mostShared))
	case op == opVector && len(words) == 4:
		m.sizes[words[1]] = min(m.sizes[words[2]]*int64(min(words[3], 16)), mostShared)
	case op == opArray && len(words) == 4:
		m.sizes[words[1]] = min(m.sizes[words[2]]*m.sizes[words[3]], mostShared)
	case op == opPointer && len(words) == 4 && words[2] == classWorkgroup:
		m.sizes[words[1]] = m.sizes[words[3]]
	case op == opVariable && len(words) > 3 && words[3] == classWorkgroup:
		m.shared = min(m.shared+m.sizes[words[1]], mostShared)
	}
}

// literal is a string in the words of an instruction.
func literal(words []uint32) string {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}
