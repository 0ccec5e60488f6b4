// Package ggml multiplies matrices with ggml's CPU backend, loaded into this
// process from prebuilt libraries, so that both can be timed in the same rounds.
// It calls public functions of ggml.h, ggml-backend.h and ggml-cpu.h only, without
// cgo. Libraries are loaded on linux/amd64 by programs built with the
// tag of package library; elsewhere Open is an error that says so.
package ggml

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/search/measure/library"
)

// Library is ggml's CPU backend in this process. It stays loaded.
type Library struct {
	Path    string // of the library of the CPU backend
	Version string // of ggml: "0.25.1"
	f       functions
	device  pointer
	extra   []pointer // buffer types of repacked weights
}

// What the libraries of a folder are called: ggml takes the variant that scores
// best on this CPU, or if none does, the one that is no variant.
const (
	variants = "libggml-cpu-*.so"
	single   = "libggml-cpu.so"
)

// Open loads the CPU backend of the libraries in a folder: of its variants that
// which ggml itself would take on this CPU.
func Open(dir string) (*Library, error) {
	if err := library.Here(); err != nil && err != library.ErrStatic {
		return nil, fmt.Errorf("ggml: %w", err)
	}
	if err := library.Folder(dir, "libggml-base.so"); err != nil {
		return nil, fmt.Errorf("ggml: %w", err)
	}
	path, err := best(dir)
	if err != nil {
		return nil, err
	}
	h, err := library.Load(path)
	if err != nil {
		return nil, fmt.Errorf("ggml: %w", err)
	}
	l := &Library{Path: path}
	if err := l.f.find(h); err != nil {
		return nil, fmt.Errorf("ggml: %s: %w", path, err)
	}
	l.f.logTo(library.Callback(func(level int32, text, data pointer) {}), nil) // a line for each tensor that it repacks
	l.Version = l.f.version()
	reg := l.f.backendInit()
	if reg == nil || l.f.deviceCount(reg) == 0 {
		return nil, fmt.Errorf("ggml: %s: offers no device on this CPU", path)
	}
	l.device = l.f.deviceGet(reg, 0)
	l.extra = l.f.extraBuffers(l.device)
	return l, nil
}

// best is the library of dir to load.
func best(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("ggml: %w", err)
	}
	paths, err := filepath.Glob(filepath.Join(abs, variants))
	if err != nil {
		return "", fmt.Errorf("ggml: %s: %w", dir, err)
	}
	fallback := filepath.Join(abs, single)
	switch {
	case len(paths) == 0 && !exists(fallback):
		return "", fmt.Errorf("ggml: %s: has no %s and no %s; %s", dir, variants, single, library.Remedy)
	case library.Here() != nil:
		return "", fmt.Errorf("ggml: %w", library.Here())
	}
	slices.Sort(paths)
	var found string
	var faults []error
	top := 0
	for _, path := range paths {
		n, err := score(path)
		if err != nil {
			faults = append(faults, err)
		}
		if n > top {
			found, top = path, n
		}
	}
	if found != "" {
		return found, nil
	}
	switch {
	case exists(fallback):
		return fallback, nil
	case len(faults) > 0:
		return "", fmt.Errorf("ggml: no library of %s can be used: %w", dir, faults[0])
	}
	return "", fmt.Errorf("ggml: %s: none of the %d variants of the CPU backend runs on this CPU", dir, len(paths))
}

// score is how well a variant of the CPU backend fits this CPU, 0 if it does not run here.
func score(path string) (int, error) {
	lib, err := library.Load(path)
	if err != nil {
		return 0, err
	}
	defer library.Unload(lib)
	var f func() int32
	if err := library.Bind(lib, "ggml_backend_score", &f); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return int(f()), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Buffers names the types of buffers that weights may lie in: the plain one, "CPU",
// and those that repack them, for the types of blocks they can.
func (l *Library) Buffers() []string {
	names := []string{l.f.buftName(l.f.plainBuffer())}
	for _, b := range l.extra {
		names = append(names, l.f.buftName(b))
	}
	return names
}

func (l *Library) buffer(name string) (pointer, error) {
	for _, b := range append([]pointer{l.f.plainBuffer()}, l.extra...) {
		if l.f.buftName(b) == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("ggml: no buffer type %s; there are %s", name, strings.Join(l.Buffers(), " "))
}

// types bounds the numbers of types: GGUF has them in bytes' range.
const types = 256

// typeOf is the number of a type of GGUF, which is ggml's.
func (l *Library) typeOf(name string) (int32, error) {
	for id := range gguf.Type(types) {
		if _, _, ok := id.Block(); !ok || id.String() != name {
			continue
		}
		if have := l.f.typeName(int32(id)); strings.EqualFold(have, name) {
			return int32(id), nil
		}
		break
	}
	return 0, fmt.Errorf("ggml: version %s has no type %s", l.Version, name)
}
