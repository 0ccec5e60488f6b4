package abi

import "github.com/tmacc/tmacc/ir/format"

// Shader is a kernel as a compute shader, and how it is called. Params are the kernel's parameters by push constant, in the order of GemmArgs
// and behind it the parameters of groups of columns; Buffers are the pointers among them, by binding.
type Shader struct {
	Code            []byte // a module of SPIR-V, little-endian
	Sum             uint32 // CRC-32 (IEEE) of Code, 0: not known
	Params, Buffers []int
	Grid            []int // parameters that count workgroups, along x, y and z
	// Subgroup is the size of the subgroups that it needs, all of them full; 0: any.
	Subgroup int
	// Parts is how many workgroups share each sum, in the dimension behind Grid; 0: they share none. They add their parts up in one more buffer, with the binding
	// behind Buffers: Sums words for each workgroup of the other dimensions, and EachSums more for each iteration of the loop over K. They are 0 before and after
	// each call.
	Parts, Sums, EachSums int
}

// SumWords is how many words a workgroup of the other dimensions needs in the buffer of sums, of count iterations of the loop over K.
func (s *Shader) SumWords(count int) int { return s.Sums + s.EachSums*count }

// Device is where kernels run that do not run on this CPU.
type Device interface {
	// Open readies the kernels of v, which read matrices packed in l, on the device that name stands for, "" for the preferred one.
	// The error says why there is none, and what to do. It is a NoDevice if this machine has none that runs such kernels.
	Open(name string, v *Variant, l *format.Layout) (Runner, error)
}

// NoDevice is an error that may say that a machine has no device for some kernels, as CPUs lack features. Other errors are faults.
type NoDevice interface{ NoDevice() bool }

// Runner runs kernels on an open device. Its methods may be called concurrently.
type Runner interface {
	// String is the name of the device, and what it is.
	String() string
	// Kernel says how the device runs a kernel, by its number, "" if there is nothing to say; or why it does not. It runs at least one of Variant.Kernels.
	Kernel(i int) (how string, err error)
	// Room is how many more bytes of packed matrices the device has memory for. Other programs may be quicker.
	Room() (int64, error)
	// Differs says which floats the device cannot be asked to compute as the CPU does, "" if it can be asked for all.
	Differs() string
	// Load copies a packed matrix without its header to the device. Its tiles have tileBytes bytes. The caller keeps them until Free.
	Load(tiles []byte, tileBytes int) (Loaded, error)
}

// Loaded is a packed matrix in the memory of a device.
type Loaded interface {
	// Multiply returns when the product is there.
	Multiply(c *DeviceCall) error
	// Free frees the memory. No call may be using it.
	Free()
}

// DeviceCall is a product of the tiles from From up to To of a matrix, and of activations.
type DeviceCall struct {
	From, To int
	Act      []byte // blocks as an activation buffer has them, their sums as kernels want them
	Runs     []Run
	// Out receives the columns of the runs, one after the other: of each the rows of the tiles.
	Out []float32
}

// Run is a number of blocks of activations that one kernel multiplies: Kernel is its number. At is where the first begins in DeviceCall.Act. They are
// Bytes apart, and their sums and scales begin Sums and Scales bytes behind. Count is the trip count of the loop over K. Of a fused kernel blocks are rows of
// floats, and Counts are the parameters that its CountDiv tells.
type Run struct {
	Kernel, Blocks, At, Bytes, Sums, Scales, Count int
	Counts                                         []int
}
