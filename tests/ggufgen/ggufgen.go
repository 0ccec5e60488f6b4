// Package ggufgen builds GGUF files, valid or not, for tests of what reads them.
package ggufgen

import (
	"bytes"
	"encoding/binary"
)

// File is a file as far as it is built.
type File struct{ bytes.Buffer }

// Header begins a version 3 file that claims the given numbers of tensors and metadata values.
func Header(tensors, values uint64) *File {
	return new(File).Add([]byte("GGUF"), uint32(3), tensors, values)
}

// Add adds numbers and slices of them, little endian, and strings with their length first.
func (f *File) Add(values ...any) *File {
	for _, v := range values {
		switch x := v.(type) {
		case string:
			f.Add(uint64(len(x)))
			f.WriteString(x)
		case []byte:
			f.Write(x)
		case uint32:
			f.Write(binary.LittleEndian.AppendUint32(f.AvailableBuffer(), x))
		case uint64:
			f.Write(binary.LittleEndian.AppendUint64(f.AvailableBuffer(), x))
		default:
			if err := binary.Write(f, binary.LittleEndian, v); err != nil {
				panic(err)
			}
		}
	}
	return f
}

// Tensor adds the description of a tensor.
func (f *File) Tensor(name string, typ uint32, offset uint64, shape ...uint64) *File {
	return f.Add(name, uint32(len(shape)), shape, typ, offset)
}

// Pad aligns to 32 and adds n zeros.
func (f *File) Pad(n int) *File {
	return f.Add(make([]byte, (32-f.Len()%32)%32+n))
}
