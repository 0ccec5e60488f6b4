// Package llama2 is written by go generate.
package llama2

//go:generate go tool tmacc compile
