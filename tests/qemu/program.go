package qemu

// program is the main package that makes the calls.
const program = `package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"syscall"
	"unsafe"
)

const page = 65536

// buffer returns n bytes that end at an unmapped page, and the bytes before them.
func buffer(n int) (buf, before, mapped []byte) {
	size := (n+page-1)/page*page + page
	mapped, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	if err := syscall.Mprotect(mapped[size:], syscall.PROT_NONE); err != nil {
		panic(err)
	}
	before = mapped[max(0, size-n-256) : size-n]
	for i := range before {
		before[i] = 0xa5
	}
	return mapped[size-n : size : size], before, mapped
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

func call(kernel func(unsafe.Pointer), number func() int64, in io.Reader, out *bufio.Writer) {
	args := make([]uint64, number())
	var bufs, befores, maps [][]byte
	for i := range args {
		switch number() {
		case 0:
			args[i] = uint64(number())
		case 1:
			buf, before, mapped := buffer(int(number()))
			if _, err := io.ReadFull(in, buf); err != nil {
				panic(err)
			}
			bufs, befores, maps = append(bufs, buf), append(befores, before), append(maps, mapped)
			args[i] = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
		case 2:
			args[i] = args[number()]
		}
	}
	out.Flush() // a fault must not take earlier results with it
	args = append(args, 0)
	kernel(unsafe.Pointer(&args[0]))
	status := byte(0)
	for _, b := range befores {
		for _, x := range b {
			if x != 0xa5 {
				status = 1
			}
		}
	}
	out.WriteByte(status)
	for i, b := range bufs {
		out.Write(b)
		syscall.Munmap(maps[i])
	}
}
`
