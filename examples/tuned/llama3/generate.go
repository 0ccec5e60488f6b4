// Package llama3 is written by go generate.
package llama3

//go:generate go tool tmacc compile
