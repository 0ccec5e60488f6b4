// Package llama runs models by llama.cpp, loaded from prebuilt libraries into a process of its own: this program, started again (see
// Main). The process sleeps between requests, so that both sides of a comparison have the machine for themselves in turn, and
// a fault of the library is an error here. It calls public functions of llama.h, ggml.h and ggml-cpu.h only, without cgo. Libraries
// are loaded where package library loads them.
package llama

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/search/measure/library"
)

// Version is the version of llama.cpp whose structures this package knows.
const Version = "0.5.0"

// isVersion says that a library's text is of Version, which a build between releases also names.
func isVersion(text string) bool {
	number, _, _ := strings.Cut(text, "-")
	return number == Version
}

// Engine says which library runs models.
type Engine struct {
	Version string // of llama.cpp, as the library says: "0.5.0-dev"
	Library string // the file of the CPU backend that the library has chosen for this CPU
}

// Options says how a model runs. Weights are repacked where the library can.
type Options struct {
	Path    string // of the GGUF file
	Context int    // most tokens
	Float   bool   // keys and values are f32 instead of f16
	Plain   bool   // flash attention, which is usual, is off: it rounds to f16
	Embed   bool   // the model computes embeddings
	Pooling int    // of embeddings: 0 none, 1 mean, 2 the first, 3 the last token's
}

// Memory is what a loaded model takes, as the library says.
type Memory struct {
	Buffers []Buffer // of weights
	Cache   int64    // bytes of keys and values
}

// Buffer is one buffer of weights: CPU_Mapped has the file's pages, CPU_REPACK and others have copies in another layout.
type Buffer struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Turn is what a process did at one request.
type Turn struct {
	Steps  []time.Duration // of each decoded batch, as a call of llama_decode takes
	Logits []float32       // after the last token, if they were asked for
	// Embeddings are of the text, or of each token, if they were asked for.
	Embeddings []float32
	Idle       Idle // since the request before
}

// Idle is what a process did between two requests, when it had nothing to do.
type Idle struct {
	Time time.Duration // that passed
	CPU  time.Duration // that its threads used
}

// pattern matches libllama, but not the libraries whose names begin so.
const pattern = "libllama*.so"

// find is the path of libllama in a folder.
func find(dir string) (string, error) {
	if err := library.Folder(dir, "libllama.so"); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	paths, err := filepath.Glob(filepath.Join(abs, pattern))
	if err != nil {
		return "", err
	}
	paths = slices.DeleteFunc(paths, func(path string) bool {
		rest := strings.TrimPrefix(filepath.Base(path), "libllama")
		return rest != ".so" && !strings.HasPrefix(rest, ".v")
	})
	switch len(paths) {
	case 0:
		return "", fmt.Errorf("%s: has no %s; %s", dir, pattern, library.Remedy)
	case 1:
		return paths[0], nil
	}
	return "", fmt.Errorf("%s: has %d libraries %s: leave one of them", dir, len(paths), pattern)
}

// Check is an error if a folder has no libllama, or if libraries cannot be loaded here: library.ErrStatic if this program cannot.
func Check(dir string) error {
	if err := library.Here(); err != nil && !errors.Is(err, library.ErrStatic) {
		return fmt.Errorf("llama.cpp: %w", err)
	}
	if _, err := find(dir); err != nil {
		return fmt.Errorf("llama.cpp: %w", err)
	}
	return library.Here()
}
