package qemu

// program is the main package that makes the calls.
const program = `package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"syscall"
	"unsafe"
)

const page = 65536

// free is memory for buffers, by size: whole pages, and one behind them that cannot be touched.
var free = map[int][][]byte{}

func pages(size int) []byte {
	if have := free[size]; len(have) > 0 {
		free[size] = have[:len(have)-1]
		return have[len(have)-1]
	}
	mapped, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	if err := syscall.Mprotect(mapped[size:], syscall.PROT_NONE); err != nil {
		panic(err)
	}
	return mapped[:size]
}

// buffer is a copy of data that ends at an unmapped page, behind bytes that are known.
type buffer struct{ mapped, before, data, original []byte }

func newBuffer(data []byte) *buffer {
	mapped := pages((len(data)+page-1)/page*page)
	first := len(mapped)-len(data)
	b := &buffer{mapped, mapped[max(0, first-256):first], mapped[first:], data}
	for i := range b.before {
		b.before[i] = 0xa5
	}
	copy(b.data, data)
	return b
}

func (b *buffer) free() { free[len(b.mapped)] = append(free[len(b.mapped)], b.mapped) }

func (b *buffer) beforeChanged() bool {
	for _, x := range b.before {
		if x != 0xa5 {
			return true
		}
	}
	return false
}

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	number := func() (int64, error) {
		var b [8]byte
		_, err := io.ReadFull(in, b[:])
		return int64(binary.LittleEndian.Uint64(b[:])), err
	}
	must := func() int64 {
		v, err := number()
		if err != nil {
			panic(err)
		}
		return v
	}
	for {
		kernel, err := number()
		if err != nil {
			break
		}
		call(table[kernel], must, in, out)
	}
	out.Flush()
}

// known are the buffers that were sent.
var known [][]byte

func call(kernel func(unsafe.Pointer), number func() int64, in io.Reader, out *bufio.Writer) {
	args, bufs := make([]uint64, number()), map[int64]*buffer{}
	var order []*buffer
	for i := range args {
		switch number() {
		case 0:
			args[i] = uint64(number())
		case 1:
			data := make([]byte, number())
			if _, err := io.ReadFull(in, data); err != nil {
				panic(err)
			}
			known = append(known, data)
			fallthrough
		case 2:
			id := number()
			if bufs[id] == nil {
				bufs[id] = newBuffer(known[id])
				order = append(order, bufs[id])
			}
			args[i] = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(bufs[id].data))))
		}
	}
	out.Flush() // a fault must not take earlier results with it
	args = append(args, 0)
	kernel(unsafe.Pointer(&args[0]))
	status := byte(0)
	for _, b := range order {
		if b.beforeChanged() {
			status = 1
		}
	}
	out.WriteByte(status)
	for _, b := range order {
		if bytes.Equal(b.data, b.original) {
			out.WriteByte(0)
		} else {
			out.WriteByte(1)
			out.Write(b.data)
		}
		b.free()
	}
}
`
