// Package start tests the start of a model: its memory, and its time when its packed weights are kept.
package start
