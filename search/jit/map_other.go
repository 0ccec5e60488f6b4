//go:build !(linux && (amd64 || arm64))

package jit

func mapCode([]byte) ([]byte, error) { return nil, errUnknown }

// Call panics: no Func can exist here.
func (f Func) Call(words []uint64) { panic(ErrPlatform) }

// Close does nothing: no Image can exist here.
func (m *Image) Close() error { return nil }
