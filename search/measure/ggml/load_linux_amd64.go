//go:build peer

package ggml

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// errHere is why libraries cannot be loaded here.
var errHere error

// load loads a library and those it depends on.
func load(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// score is how well a variant of the CPU backend fits this CPU, 0 if it does not
// run here.
func score(path string) (int, error) {
	lib, err := load(path)
	if err != nil {
		return 0, err
	}
	defer purego.Dlclose(lib)
	var f func() int32
	if err := bind(lib, "ggml_backend_score", &f); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return int(f()), nil
}

// bind makes *to, a function, the one of that name.
func bind(lib uintptr, name string, to any) error {
	addr, err := purego.Dlsym(lib, name)
	if err == nil {
		bindAddress(addr, to)
	}
	return err
}

func bindAddress(addr uintptr, to any) { purego.RegisterFunc(to, addr) }

// hugePages asks for huge pages, before memory is written to, where they are whole.
func hugePages(at pointer, size int) {
	const page = 2 << 20
	b := unsafe.Slice((*byte)(at), size)
	skip := int(-uintptr(at) % page)
	if size-skip >= page {
		unix.Madvise(b[skip:skip+(size-skip)/page*page], unix.MADV_HUGEPAGE) // refused: small pages
	}
}

// quiet drops what ggml says, a line for each tensor that it repacks.
func quiet(f *functions) {
	f.logTo(purego.NewCallback(func(level int32, text, data pointer) {}), nil)
}
