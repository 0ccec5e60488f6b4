// Package model runs language models from GGUF files: from token ids to logits.
//
//   - [Open] reads a file into a [Model], which does not change afterwards and which any number of goroutines may share.
//   - A [Session] is one sequence of tokens, with what the layers remember of it. [Session.Copy] begins another from the same
//     prefix, and [Session.Truncate] takes tokens back.
//   - [Model.Forward] appends tokens to one or more sessions in one batch and computes logits.
//   - [Kernels] provides the products of low-bit weights. [PureGo] does on every CPU, slowly.
//
// Architectures are rows of a table. A file with an unknown architecture, tensor or rope type is refused by an error that names it.
//
// Logits have the same bits for any number of threads, alone or in a batch, and for a prompt in one piece or several:
// docs/ir.md defines the order of every sum.
package model
