// Package llama2x2 is written by go generate.
package llama2x2

//go:generate go tool tmacc compile
