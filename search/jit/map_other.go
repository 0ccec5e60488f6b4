//go:build !(linux && amd64)

package jit

const supported = false

func mapCode([]byte) ([]byte, error) { return nil, ErrPlatform }

// Call panics: no Func can exist here.
func (f Func) Call(words []uint64) { panic(ErrPlatform) }

// Close does nothing: no Image can exist here.
func (m *Image) Close() error { return nil }
