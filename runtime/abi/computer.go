package abi

// Computer is a Runner whose device also computes whole sequences of products and float operators, between memory that stays there.
type Computer interface {
	Runner
	// Operator is the float operator that package ir/operator calls so, nil if the device runs none of that name.
	Operator(name string) *Operator
	// Memory is memory of the device, at first all zeros.
	Memory(bytes int64) (Memory, error)
	// Stack copies packed matrices of one shape to the device, as Load does, so that one step multiplies each block of activations by one of them. They begin some
	// bytes apart. The error says why they cannot lie so.
	Stack(tiles [][]byte, tileBytes int) (all []Loaded, apart int, err error)
	// Lists is why a kernel, by its number, cannot multiply each block of activations by a matrix of a stack. The first call makes its shader.
	Lists(kernel int) error
	// Ends is why a kernel, by its number, cannot end in an operator. The first call makes its shader.
	Ends(kernel int, by Ending) error
	// Record makes a sequence of steps. Each sees what the steps before wrote, unless it runs beside them.
	Record(steps []Step) (Recording, error)
	// Run runs a recording, and returns when it is done. After a loss of the device recordings and memory are of no more use.
	Run(Recording) error
	// Passing says that an error may be gone the next time: the device was lost, or lacked memory.
	Passing(error) bool
}

// Memory is memory of a device. No recording that uses it may run while it is written, read or freed.
type Memory interface {
	Write(at int64, data []byte) error
	Read(at int64, data []byte) error
	// Lost says that the device was lost since: what was in the memory is gone, and only Free is of use.
	Lost() bool
	Free()
}

// Recording is steps that may run often.
type Recording interface{ Free() }

// Place is a part of a memory, in bytes.
type Place struct {
	Memory Memory
	At     int64
	Bytes  int64 // up to the end of what a step may read or write there
}

// Step is a *Multiplying or an *Operating. One that runs beside the step before neither writes what that one reads or writes, nor reads what it writes.
type Step interface{ RunsBeside() bool }

// Multiplying multiplies all rows of a matrix by rows of activations, the blocks of Runs. Out receives a column for each of them, whole tiles of it. Columns
// lie Column bytes apart. If List has a memory, Matrix is the first of a Stack, and Runs are one, of a kernel that Lists allows: block i is multiplied by the matrix that begins
// behind the first by the bytes that the i-th u32 of List says. If End names an operator, all kernels of Runs must be ones that Ends allows. Out receives what the operator makes of
// the product and of Inputs: its other inputs in their order, a vector for each column. Their columns lie Row bytes apart, with room for all that Out has. Out may be one of them.
type Multiplying struct {
	Beside         bool
	Matrix         Loaded
	Runs           []Run
	Act, Out, List Place
	Column         int
	End            Ending
	Inputs         []Tensor
}

// Operating makes calls of an operator. Tensors are in the order of Operator.Tensors.
type Operating struct {
	Beside   bool
	Operator *Operator
	Sizes    map[string]int
	Calls    []int
	Tensors  []Tensor
}

// Tensor is where an operator finds a tensor: see OperatorPlace.
type Tensor struct {
	Place
	Row   int
	Steps []int
}

// RunsBeside implements Step.
func (x *Multiplying) RunsBeside() bool { return x.Beside }

// RunsBeside implements Step.
func (x *Operating) RunsBeside() bool { return x.Beside }
