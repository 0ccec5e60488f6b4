package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"
)

// Buffer is memory outside the Go heap, which the garbage collector neither looks
// at nor counts: for packed matrices. Bytes must not be used after Close.
type Buffer struct {
	data []byte
	free func() error
}

// NewBuffer is size bytes of zeros that begin at a multiple of 64, on Linux in huge
// pages if the system has them: reading weights in small pages costs time for
// looking up where they are. Where a system has no such memory, it is of the heap.
func NewBuffer(size int) (*Buffer, error) {
	if size < 0 || size > math.MaxInt-hugePage {
		return nil, &Error{"NewBuffer", "argument size", fmt.Sprintf("is %d bytes", size)}
	}
	b, err := newBuffer(size)
	if err != nil {
		return nil, &Error{"NewBuffer", "argument size", fmt.Sprintf("%d bytes: %v", size, err)}
	}
	return b, nil
}

// Bytes is the memory, nil after Close. That of Load is read-only.
func (b *Buffer) Bytes() []byte {
	if b == nil {
		return nil
	}
	return b.data
}

// Close frees the memory. No call may be using it. Closing again does nothing.
func (b *Buffer) Close() error {
	if b == nil {
		return nil
	}
	free := b.free
	b.data, b.free = nil, nil
	if free == nil {
		return nil
	}
	return free()
}

// hugePage is the size of huge pages where they are smallest.
const hugePage = 2 << 20

// heapBuffer is a Buffer of the heap.
func heapBuffer(size int) *Buffer {
	data := make([]byte, size+cacheLine)
	return &Buffer{data: data[alignment(data, cacheLine):][:size:size]}
}

const cacheLine = 64

// Save writes a packed matrix to a file, for Load. The file is complete or as it
// was before, also if the program is killed; what that leaves behind under another
// name, a call for the same file removes an hour later.
func (p *Product) Save(path string, packed []byte) error {
	if _, err := p.open(packed); err != nil {
		return err
	}
	temporary := "." + filepath.Base(path) + ".tmacc-"
	removeAbandoned(filepath.Dir(path), temporary)
	t, err := os.CreateTemp(filepath.Dir(path), temporary+"*")
	if err != nil {
		return p.fileError(path, err)
	}
	_, err = t.Write(packed)
	err = cmp.Or(err, t.Chmod(0o644), t.Sync(), t.Close())
	if err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		t.Close()
		os.Remove(t.Name())
		return p.fileError(path, err)
	}
	return nil
}

// removeAbandoned removes the files of a directory whose names begin so and that nobody
// has written to for an hour.
func removeAbandoned(dir, begin string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), begin) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Load is the packed matrix in a file that Save wrote, mapped into memory where the
// system can: pages are read when they are used, and processes share them. It reads the
// header only: an error are a header that is damaged, a file that is not as long as it
// says, and one of another product, or of the same for a CPU that wants another layout. Only
// Verify, which reads them all, finds out that weights are damaged, as a power failure or a bad
// disk leaves them. The file must not be changed until Close.
func (p *Product) Load(path string) (*Buffer, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, p.fileError(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, p.fileError(path, err)
	case !info.Mode().IsRegular():
		return nil, p.fileError(path, errors.New("is not a regular file"))
	case info.Size() > math.MaxInt-hugePage:
		return nil, p.fileError(path, fmt.Errorf("has %d bytes, more than this system can address", info.Size()))
	}
	head := make([]byte, min(info.Size(), headerBytes))
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, p.fileError(path, err)
	}
	if _, err := p.openHeader(head, int(info.Size())); err != nil {
		return nil, p.fileError(path, err)
	}
	b, err := mapFile(f, int(info.Size()))
	if err != nil {
		return nil, p.fileError(path, err)
	}
	if _, err := p.open(b.data); err != nil { // it was changed meanwhile
		return nil, cmp.Or(b.Close(), p.fileError(path, err))
	}
	return b, nil
}

// fileError is err, of a file.
func (p *Product) fileError(path string, err error) error {
	var e *Error
	var system *os.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &e):
		return &Error{e.Product, "file " + path, e.Problem}
	case errors.As(err, &system):
		err = system.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fmt.Errorf("%s: file %s: %w", p.spec.Name, path, err)
}

// readFile is a file, whose first bytes were read, in a Buffer of the heap.
func readFile(f *os.File, size int) (*Buffer, error) {
	b := heapBuffer(size)
	if _, err := f.ReadAt(b.data, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

// alignment is how many bytes before data[i] is at a multiple of to.
func alignment(data []byte, to uintptr) uintptr {
	return -uintptr(unsafe.Pointer(unsafe.SliceData(data))) & (to - 1)
}
