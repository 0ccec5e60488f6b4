// Package ggml multiplies matrices with ggml's CPU backend, loaded into this
// process from prebuilt libraries, so that both can be timed in the same rounds.
// It calls public functions of ggml.h, ggml-backend.h and ggml-cpu.h only, without
// cgo. Libraries are loaded on linux/amd64 by programs built with Tag; elsewhere Open is
// an error that says so.
package ggml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// Tag is the build tag of programs that load libraries. They need glibc; others on
// linux/amd64 are static, and Open is ErrStatic in them.
const Tag = "peer"

// ErrStatic is what a program gets that was built without Tag.
var ErrStatic = errors.New("ggml: this program is static and loads no libraries: go install -tags " + Tag + " builds one that does")

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

// remedy says where the libraries come from.
const remedy = "npm i --ignore-scripts @node-llama-cpp/linux-x64@3.22.1 brings them in node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"

// Open loads the CPU backend of the libraries in a folder: of its variants that
// which ggml itself would take on this CPU.
func Open(dir string) (*Library, error) {
	if errHere != nil && errHere != ErrStatic {
		return nil, errHere
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("ggml: %s: no such folder; %s", dir, remedy)
	case err != nil:
		return nil, fmt.Errorf("ggml: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("ggml: %s: is not a folder; name the one that has libggml-base.so", dir)
	}
	path, err := best(dir)
	if err != nil {
		return nil, err
	}
	h, err := load(path)
	if err != nil {
		return nil, fmt.Errorf("ggml: %w", err)
	}
	l := &Library{Path: path}
	if err := l.f.find(h); err != nil {
		return nil, fmt.Errorf("ggml: %s: %w", path, err)
	}
	quiet(&l.f)
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
		return "", fmt.Errorf("ggml: %s: has no %s and no %s; %s", dir, variants, single, remedy)
	case errHere != nil:
		return "", errHere
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
