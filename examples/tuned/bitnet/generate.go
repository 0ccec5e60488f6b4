// Package bitnet is written by go generate.
package bitnet

//go:generate go tool tmacc compile
