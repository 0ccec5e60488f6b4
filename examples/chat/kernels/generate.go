// Package kernels is written by go generate.
package kernels

//go:generate go tool tmacc compile
