// Package weights keeps the packed matrices of models in a folder of the user. The next start maps them into memory instead of
// packing the file again. All matrices of a model are one file, which belongs to an identity: which GGUF file they are of
// (gguf.File.Identity), and how they are packed.
//
// Mapped weights are the saved ones: all bytes are read and their checksums are compared. That takes a tenth of a second for a gigabyte
// and two threads. A file that is damaged is removed, and the model is packed again.
package weights

import (
	"errors"

	"github.com/tmacc/tmacc/runtime/cache"
)

// Store keeps models. It is a model.Packed. Trouble is no error of the model: see Err.
type Store struct {
	parts *cache.Parts
	err   error
	saved int64
}

// Path is the folder of all models unless told otherwise.
func Path() (string, error) { return cache.Path("weights") }

// Open opens the store in a folder, which may take up to cache.MostParts bytes. Then the models that have not been used for the longest time are
// removed. The error is a *cache.Unsafe if others can write the folder. The caller closes the store.
func Open(folder string) (*Store, error) {
	parts, err := cache.OpenParts(folder, cache.MostParts)
	if err != nil {
		return nil, err
	}
	return &Store{parts: parts}, nil
}

// Close closes the store. Models stay as they are.
func (s *Store) Close() error { return s.parts.Close() }

// Load implements model.Packed.
func (s *Store) Load(identity []byte, sizes []int64) (parts [][]byte, close func() error) {
	parts, close, err := s.parts.Load(identity, sizes)
	s.note(err)
	return parts, close
}

// Save implements model.Packed.
func (s *Store) Save(identity []byte, sizes []int64, fill func(i int) ([]byte, error)) (parts [][]byte, close func() error) {
	parts, close, err := s.parts.Save(identity, sizes, fill)
	s.note(err)
	for _, p := range parts {
		s.saved += int64(len(p))
	}
	return parts, close
}

func (s *Store) note(err error) { s.err = errors.Join(s.err, err) }

// Saved is how many bytes were saved.
func (s *Store) Saved() int64 { return s.saved }

// Folder is the folder of the store.
func (s *Store) Folder() string { return s.parts.Path() }

// Err is why a model was not mapped or is not kept, a *cache.Damaged among them if its file was damaged. It is nil if all went well.
func (s *Store) Err() error { return s.err }
