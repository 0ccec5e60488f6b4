// Package weights keeps the packed matrices of models in a folder of the user. The next start maps them into memory instead of
// packing the file again.
//
//	FOLDER/a1b2.../   a model's file: its path, size and time, and samples of all tensors
//	       c3d4...    a packed matrix, by the tensor's name, the product and its target
//
// Matrices are written by runtime.Matrix.Save and mapped by runtime.Product.LoadMatrix. These refuse a matrix in another layout, which is
// then packed again.
package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/cache"
)

// Store keeps the matrices of one file. It is for one goroutine.
type Store struct {
	dir    string
	failed error
	saved  int64
}

// Path is the folder of all models unless told otherwise.
func Path() (string, error) { return cache.Path("weights") }

// Open opens the store of a model, which lies in a file, in a folder. The error is a *cache.Unsafe if others can write the
// folder. Models that nobody has used for long are removed.
func Open(folder string, f *gguf.File) (*Store, error) {
	key, err := keyOf(f)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	all, err := cache.Open(folder)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	s := &Store{dir: filepath.Join(all.Path(), key)}
	if err := os.Mkdir(s.dir, 0o700); err != nil && !os.IsExist(err) {
		return nil, fmt.Errorf("weights: %w", err)
	}
	now := time.Now()
	os.Chtimes(s.dir, now, now)
	removeUnused(all.Path(), now)
	return s, nil
}

// unused is how long a model is kept that nobody uses.
const unused = 30 * 24 * time.Hour

// removeUnused removes the folders of models out of use. Processes that have mapped their matrices keep them.
func removeUnused(folder string, now time.Time) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && now.Sub(info.ModTime()) > unused {
			os.RemoveAll(filepath.Join(folder, e.Name()))
		}
	}
}

// sample is how many bytes of each end of a tensor identify it.
const sample = 4 << 10

// keyOf identifies the contents of a model's files.
func keyOf(f *gguf.File) (string, error) {
	if len(f.Paths) == 0 {
		return "", errors.New("the model lies in no file")
	}
	h := sha256.New()
	for _, path := range f.Paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		info, err := os.Stat(abs)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %d %d\n", abs, info.Size(), info.ModTime().UnixNano())
	}
	var buf [sample]byte
	for i := range f.Tensors {
		if err := addTensor(h, &f.Tensors[i], buf[:]); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// addTensor adds the name, the type, the shape and both ends of a tensor.
func addTensor(h hash.Hash, t *gguf.Tensor, buf []byte) error {
	fmt.Fprintf(h, "%q %s %v %d\n", t.Name, t.TypeName(), t.Shape, t.Size)
	if t.Err != nil {
		return nil // the model says so
	}
	for _, at := range []int64{0, max(0, t.Size-sample)} {
		n, err := t.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return err
		}
		h.Write(buf[:n])
	}
	return nil
}

// file is the path of the matrix of a tensor for a product.
func (s *Store) file(p *runtime.Product, tensor string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", tensor, p.Name(), p.Target(), p.Act().Group))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16]))
}

// Load is the matrix of a tensor for a product, mapped, nil if it is not kept.
func (s *Store) Load(p *runtime.Product, tensor string) *runtime.Matrix {
	x, err := p.LoadMatrix(s.file(p, tensor))
	if err != nil {
		return nil
	}
	return x
}

// Save keeps the matrix of a tensor. After a failure it keeps nothing more of the model: see Err.
func (s *Store) Save(x *runtime.Matrix, tensor string) {
	if s.failed != nil {
		return
	}
	if s.failed = x.Save(s.file(x.Product(), tensor)); s.failed != nil {
		os.RemoveAll(s.dir) // such as for want of room
		return
	}
	s.saved += int64(len(x.Packed()))
}

// Saved is how many bytes were saved.
func (s *Store) Saved() int64 { return s.saved }

// Folder is the folder of the model.
func (s *Store) Folder() string { return s.dir }

// Err is why a matrix could not be kept, nil if all were.
func (s *Store) Err() error { return s.failed }
