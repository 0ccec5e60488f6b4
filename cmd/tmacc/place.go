package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// canBeFolder is an error if dir, which -o names, is no directory and none can be made there: a file, or a link to nothing,
// is in the way.
func canBeFolder(dir string) error {
	if dir == "" {
		return errors.New("-o: names no directory: . is this one")
	}
	_, failure := os.Stat(dir)
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		_, link := os.Lstat(at)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("-o %s: %sis not a directory", dir, other(at, dir))
		case err == nil && failure != nil && !errors.Is(failure, fs.ErrNotExist):
			return fmt.Errorf("-o %w", plain(failure))
		case err == nil || at == filepath.Dir(at):
			return nil
		case errors.Is(err, fs.ErrNotExist) && link == nil:
			return fmt.Errorf("-o %s: %sis a link to nothing: make the directory that it leads to, or remove it", dir, other(at, dir))
		}
	}
}

// noFolder is an error if path cannot be a file: it is a folder itself, or there is no folder for it.
func noFolder(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s: is a folder: want a file", path)
	}
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && !info.IsDir() {
		err = errors.New("is no folder")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, plain(err))
	}
	return nil
}

// other names at, if it is not dir.
func other(at, dir string) string {
	if at == filepath.Clean(dir) {
		return ""
	}
	return at + " "
}
