// Package runtime multiplies matrices of low-bit weights by activations. A program uses it with a package that tmacc compile
// wrote, whose products run the best kernels of the CPU.
//
// # For applications
//
//   - [Matrix] is a packed matrix. Constructors of the generated package, [Tensors.Open], [Product.NewMatrix],
//     [Product.NewMatrixOfBlocks] and [Product.LoadMatrix] make one; [Matrix.Multiply] multiplies it; [Matrix.Row] gives its
//     weights back.
//   - [GemmAll] multiplies several matrices by the same activations, which [Product.PrepareAct] prepares once, or by different ones.
//   - [Options] adds biases, accumulates, and says how many threads work.
//   - [Product] has what all of this is made of: functions on slices that the caller owns. [Buffer] is memory for them.
//   - [Error] is a caller's fault. [EnvCPU] and [EnvLog] choose kernels, and say what runs, without a change of the program.
//
// # For generated code
//
// [New] makes a product of a [Spec], and [SelfTest] compares it with its definition. What assembly is called with is in
// package runtime/abi.
//
// The package imports none of the compiler.
package runtime
