// Package cache keeps files that took long to make, in a folder of the user that nobody else can write. Each file belongs to an
// identity: a text with everything that decides what the file holds. Another identity is another file.
//
//	FOLDER/a1b2...-c3d4...   hash of the identity - hash of the identity and the data
//	FOLDER/a1b2....parts     hash of the identity: several large parts with checksums, to be mapped (Parts)
//
// The folder is its own index: a file is what its name says, or it is as good as none. A file appears with its name and all its
// bytes, or not at all, so processes may share the folder and may be killed at any time.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// EnvFolder is the environment variable that names a folder to use instead of tmacc in the user's cache directory.
const EnvFolder = "TMACC_CACHE"

// Path is the path of a folder of a name in the one of the user.
func Path(name string) (string, error) {
	if dir := os.Getenv(EnvFolder); dir != "" {
		return filepath.Join(dir, name), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w: name a folder in %s", err, EnvFolder)
	}
	return filepath.Join(dir, "tmacc", name), nil
}

// Unsafe is why a folder is not used: others could have written its files.
type Unsafe struct{ Path, Problem, Remedy string }

func (e *Unsafe) Error() string {
	return fmt.Sprintf("cache folder %s: %s: %s", e.Path, e.Problem, e.Remedy)
}

// Folder is an open folder.
type Folder struct {
	// Most bounds the bytes of all files together: of more than that, Put removes those that were not used for longest. 0: no bound.
	Most int64
	root *os.Root
	path string
}

// Open opens a folder, and makes it if need be. The error is an *Unsafe if the folder does not belong to the user, or if
// others can write in it.
func Open(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o777)
	}
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cache: %w", err)
	}
	if info, err := os.Stat(path); err == nil { // one that cannot be opened may be somebody else's
		if err := safe(path, info); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	f := &Folder{root: root, path: path}
	info, err := root.Stat(".") // of the open folder, whatever has its path by now
	if err == nil {
		err = safe(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// safe is an *Unsafe if others than the user may have written a file, or files in a folder.
func safe(path string, info fs.FileInfo) error {
	if problem := foreign(info); problem != "" {
		return &Unsafe{path, problem, "name a folder of your own in " + EnvFolder}
	}
	if checksModes && info.Mode().Perm()&0o022 != 0 {
		return &Unsafe{path, fmt.Sprintf("others can write it (mode %04o)", info.Mode().Perm()), "remove it, as they may have done so"}
	}
	return nil
}

// Path is the absolute path of f.
func (f *Folder) Path() string { return f.path }

// Close closes f.
func (f *Folder) Close() error { return f.root.Close() }

// MostBytes bounds a file.
const MostBytes = 1 << 30

// Get is the data of an identity, nil if there is none. Files under its name that are damaged it removes, and says so in damaged.
func (f *Folder) Get(identity []byte) (data []byte, damaged bool, err error) {
	data, _, damaged, err = f.find(identity)
	return data, damaged, err
}

// Program is the path of the program of an identity, "" if there is none. Until it is closed f vouches for that file.
func (f *Folder) Program(identity []byte) (path string, damaged bool, err error) {
	data, name, damaged, err := f.find(identity)
	if data == nil || err != nil {
		return "", damaged, err
	}
	return filepath.Join(f.path, name), damaged, nil
}

// find is the data of an identity and the name of its file. Damaged files are removed.
func (f *Folder) find(identity []byte) (data []byte, name string, damaged bool, err error) {
	names, err := f.named(keyOf(identity))
	if err != nil {
		return nil, "", false, err
	}
	for _, name := range names {
		data, err := f.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // another process was as quick
		case err != nil:
			return nil, "", false, err
		case data != nil && nameOf(identity, data) == name:
			f.used(name)
			return data, name, damaged, nil
		}
		damaged = true
		if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", true, fmt.Errorf("cache: %w", err)
		}
	}
	return nil, "", damaged, nil
}

// named lists the files of a key.
func (f *Folder) named(key string) (names []string, err error) {
	err = f.each(func(e fs.DirEntry) {
		if strings.HasPrefix(e.Name(), key+"-") {
			names = append(names, e.Name())
		}
	})
	return names, err
}

// each calls do for each file.
func (f *Folder) each(do func(fs.DirEntry)) error {
	dir, err := f.root.Open(".")
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	for _, e := range entries {
		do(e)
	}
	return nil
}

// read is a whole file, nil if it is none of ours: too large, not a regular file, or one that others can write.
func (f *Folder) read(name string) ([]byte, error) {
	info, err := f.root.Lstat(name) // before it is opened, which would wait for a pipe
	if err != nil || !info.Mode().IsRegular() || info.Size() > MostBytes || safe(name, info) != nil {
		return nil, err
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	defer file.Close()
	data := make([]byte, info.Size())
	switch _, err := io.ReadFull(file, data); {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return nil, nil // it was cut meanwhile
	case err != nil:
		return nil, fmt.Errorf("cache: %w", err)
	}
	return data, nil
}

// nameOf is the name of a file of an identity.
func nameOf(identity, data []byte) string {
	h, id := sha256.New(), sha256.Sum256(identity)
	h.Write(id[:])
	h.Write(data)
	return keyOf(identity) + "-" + hex.EncodeToString(h.Sum(nil))
}

func keyOf(identity []byte) string {
	sum := sha256.Sum256(identity)
	return hex.EncodeToString(sum[:keyDigits/2])
}

// keyDigits is the length of a key.
const keyDigits = 32

// step is called before every change of the folder by Put; tests kill the process there.
var step = func() {}

// Put keeps data for an identity. It also removes what nobody has used for long, and what killed processes left.
func (f *Folder) Put(identity, data []byte) error { return f.put(identity, data, 0o600) }

// PutProgram is Put of a program, for Program.
func (f *Folder) PutProgram(identity, data []byte) error { return f.put(identity, data, 0o700) }

func (f *Folder) put(identity, data []byte, mode fs.FileMode) error {
	if len(data) > MostBytes {
		return fmt.Errorf("cache: %d bytes, at most %d", len(data), MostBytes)
	}
	step()
	temp, err := f.write(data, mode)
	if err == nil {
		step()
		err = f.root.Rename(temp, nameOf(identity, data))
	}
	if err != nil {
		if temp != "" {
			f.root.Remove(temp)
		}
		return fmt.Errorf("cache: %w", err)
	}
	step()
	return f.tidy()
}

// writing begins the names of files that are being written.
const writing = ".writing-"

// create makes a file of a name of its own.
func (f *Folder) create(mode fs.FileMode) (name string, file *os.File, err error) {
	name = fmt.Sprintf("%s%d-%016x", writing, os.Getpid(), rand.Uint64())
	file, err = f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	return name, file, err
}

// write writes a file of a name of its own.
func (f *Folder) write(data []byte, mode fs.FileMode) (name string, err error) {
	name, file, err := f.create(mode)
	if err != nil {
		return "", err
	}
	step()
	_, err = file.Write(data)
	return name, errors.Join(err, file.Sync(), file.Close())
}

// A file is removed when nobody has used it for unused. One that is still being written after abandoned was left behind.
const (
	unused    = 90 * 24 * time.Hour
	abandoned = 10 * time.Minute
	fresh     = 24 * time.Hour // a use within this time of the one before is not noted
)

// used notes that a file was used. Where that is not possible, the file is made again some day.
func (f *Folder) used(name string) {
	now := time.Now()
	if info, err := f.root.Stat(name); err == nil && now.Sub(info.ModTime()) > fresh {
		f.root.Chtimes(name, now, now)
	}
}

// ours says whether a file has a name that this package gives. Others are left alone: the user may have named a folder that is in use.
func ours(e fs.DirEntry) bool {
	name := e.Name()
	key, err := hex.DecodeString(name[:min(keyDigits, len(name))])
	return strings.HasPrefix(name, writing) || err == nil && 2*len(key) == keyDigits
}

// tidy removes files out of use, and files beyond f.Most. Another process may be as quick.
func (f *Folder) tidy() error {
	var kept []fs.FileInfo
	var bytes int64
	err := f.each(func(e fs.DirEntry) {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !ours(e) {
			return
		}
		age, unfinished := time.Since(info.ModTime()), strings.HasPrefix(e.Name(), writing)
		switch {
		case age > unused || age > abandoned && unfinished:
			f.root.Remove(e.Name())
		case !unfinished:
			kept, bytes = append(kept, info), bytes+info.Size()
		}
	})
	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range kept {
		if f.Most == 0 || bytes <= f.Most {
			break
		}
		f.root.Remove(info.Name())
		bytes -= info.Size()
	}
	return err
}

// Size is the number of files in f, and their bytes.
func (f *Folder) Size() (files int, bytes int64, err error) {
	err = f.each(func(e fs.DirEntry) {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && ours(e) {
			files, bytes = files+1, bytes+info.Size()
		}
	})
	return files, bytes, err
}

// Clear removes all files. A process that has mapped one keeps it until it ends.
func (f *Folder) Clear() error {
	var errs []error
	err := f.each(func(e fs.DirEntry) {
		if !ours(e) {
			return
		}
		if err := f.root.RemoveAll(e.Name()); err != nil {
			errs = append(errs, fmt.Errorf("cache: %w", err))
		}
	})
	return errors.Join(append(errs, err)...)
}
