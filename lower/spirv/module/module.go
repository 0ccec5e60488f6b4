// Package module writes SPIR-V modules of compute shaders: their words, and the same as text in the syntax of spirv-as.
// It knows the grammar of the instructions in grammar.go, which is made from the registry's machine-readable one. Modules
// follow "SPIR-V Specification, version 1.6", section 2.4, Logical Layout of a Module.
package module

import (
	"encoding/binary"
	"fmt"
	"slices"
)

//go:generate go test -run TestGrammar -update

// Op is the opcode of an instruction.
type Op uint16

// ID is what names a result, 0 none.
type ID = uint32

// The words of a module's head. Vulkan 1.3 takes version 1.6.
const (
	magic   = 0x07230203
	version = 0x00010600
)

// section is a part of a module in the order that the specification wants.
type section int

const (
	capabilities section = iota
	extensions
	imports
	memoryModel
	entryPoints
	modes
	names
	decorations
	globals
	functions
	numSections
)

var sections = map[Op]section{
	OpCapability: capabilities, OpExtension: extensions, OpExtInstImport: imports, OpMemoryModel: memoryModel,
	OpExecutionMode: modes, OpName: names, OpMemberName: names,
	OpDecorate: decorations, OpMemberDecorate: decorations,
}

// Module is a module in the making.
type Module struct {
	last  ID   // that was given out
	main  ID   // the function of the entry point
	face  []ID // variables
	words [numSections][]uint32
	known map[string]ID // declarations, types and constants that are there, 1 of those without a result

	locals []uint32 // variables of the function, which stand behind its first label
	first  int      // the place behind that

	purpose  int   // of instructions of the function that come next
	purposes []int // the purpose of each of them
	opening  int   // how many of them stand before the locals
}

// New is an empty module.
func New() *Module { return &Module{known: map[string]ID{}} }

// String is the name of op: "OpLoad".
func (op Op) String() string { return instructions[op].name }

// NewID returns an ID that nothing has yet.
func (m *Module) NewID() ID {
	m.last++
	return m.last
}

// Declare adds an instruction without a result before all functions, once.
func (m *Module) Declare(op Op, operands ...uint32) {
	at, ok := sections[op]
	if !ok {
		panic("BUG: module: no declaration: " + instructions[op].name)
	}
	key := fmt.Sprint(op, operands)
	if m.known[key] == 0 {
		m.known[key] = 1
		m.put(at, op, operands...)
	}
}

// Import is the ID of a set of extended instructions.
func (m *Module) Import(name string) ID { return m.once(imports, OpExtInstImport, 0, String(name)) }

// Type is the ID of a type that is there once.
func (m *Module) Type(op Op, operands ...uint32) ID { return m.once(globals, op, 0, operands) }

// Constant is the ID of a constant of type t that is there once.
func (m *Module) Constant(op Op, t ID, operands ...uint32) ID {
	return m.once(globals, op, t, operands)
}

// NewType is a type that equals no other, so that it can have decorations of its own.
func (m *Module) NewType(op Op, operands ...uint32) ID { return m.result(globals, op, 0, operands) }

// Variable is a new variable of all functions, with a pointer type and its storage class.
func (m *Module) Variable(pointer ID, class uint32) ID {
	v := m.result(globals, OpVariable, pointer, []uint32{class})
	m.face = append(m.face, v)
	return v
}

// Local is a new variable of the function, with a pointer type.
func (m *Module) Local(pointer ID) ID {
	v := m.NewID()
	m.locals = append(m.locals, instructionWords(OpVariable, []uint32{pointer, v, StorageClassFunction})...)
	return v
}

// Function begins the function of the entry point main. All variables that it knows by then, or that are declared while
// it is written, are its interface.
func (m *Module) Function(id, result, signature ID) {
	m.main = id
	m.put(functions, OpFunction, result, id, FunctionControlNone, signature)
}

// Do adds an instruction without a result to the function.
func (m *Module) Do(op Op, operands ...uint32) { m.put(functions, op, operands...) }

// Emit adds an instruction to the function whose result has type t, and returns that.
func (m *Module) Emit(op Op, t ID, operands ...uint32) ID {
	return m.result(functions, op, t, operands)
}

// Label begins a block called id.
func (m *Module) Label(id ID) {
	m.put(functions, OpLabel, id)
	if m.first == 0 {
		m.first, m.opening = m.Mark(), len(m.purposes)
	}
}

// For says what the next instructions of the function are for, by a number of the caller's that is not in the words; 0: nothing. It returns the number before.
func (m *Module) For(purpose int) (before int) {
	before, m.purpose = m.purpose, purpose
	return before
}

// Purposes are the numbers of For, for each line of Text.
func (m *Module) Purposes() []int {
	locals := make([]int, count(m.locals))
	before := make([]int, count(m.Words()[head:])-len(locals)-len(m.purposes))
	return slices.Concat(before, m.purposes[:m.opening], locals, m.purposes[m.opening:])
}

// Mark is the place of the word that the function has next.
func (m *Module) Mark() int { return len(m.words[functions]) }

// Patch replaces the word at a place of the function.
func (m *Module) Patch(at int, word uint32) { m.words[functions][at] = word }

// once is the result of an instruction that is there once.
func (m *Module) once(at section, op Op, t ID, operands []uint32) ID {
	key := fmt.Sprint(op, t, operands)
	id, ok := m.known[key]
	if !ok {
		id = m.result(at, op, t, operands)
		m.known[key] = id
	}
	return id
}

// result adds an instruction with a result, of type t unless that is 0.
func (m *Module) result(at section, op Op, t ID, operands []uint32) ID {
	id := m.NewID()
	head := []uint32{t, id}
	if t == 0 {
		head = head[1:]
	}
	m.put(at, op, append(head, operands...)...)
	return id
}

func (m *Module) put(at section, op Op, operands ...uint32) {
	m.words[at] = append(m.words[at], instructionWords(op, operands)...)
	if at == functions {
		m.purposes = append(m.purposes, m.purpose)
	}
}

// count is how many instructions some words are.
func count(words []uint32) (n int) {
	for ; len(words) > 0; n++ {
		words = words[words[0]>>16:]
	}
	return n
}

func instructionWords(op Op, operands []uint32) []uint32 {
	return append([]uint32{uint32(len(operands)+1)<<16 | uint32(op)}, operands...)
}

// String is the words of a literal string.
func String(s string) []uint32 {
	b := append([]byte(s), make([]byte, 4-len(s)%4)...)
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return words
}

// head is the number of words before the first instruction.
const head = 5

// Words are the module's.
func (m *Module) Words() []uint32 {
	words := m.words
	if m.main != 0 {
		operands := append([]uint32{ExecutionModelGLCompute, m.main}, append(String("main"), m.face...)...)
		words[entryPoints] = instructionWords(OpEntryPoint, operands)
	}
	words[functions] = slices.Insert(slices.Clone(words[functions]), m.first, m.locals...)
	return slices.Concat([]uint32{magic, version, 0, m.last + 1, 0}, slices.Concat(words[:]...))
}

// Binary is the module as a file has it, with words in little-endian order.
func (m *Module) Binary() []byte {
	var out []byte
	for _, w := range m.Words() {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return out
}
