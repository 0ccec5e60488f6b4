package delivery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/search/tune"
)

// CheckDir is an error if dir, which -o names, is no directory and none can be made there, because a file or a link to
// nothing is in the way.
func CheckDir(dir string) error {
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
			return fmt.Errorf("-o %w", message.Plain(failure))
		case err == nil || at == filepath.Dir(at):
			return nil
		case errors.Is(err, fs.ErrNotExist) && link == nil:
			return fmt.Errorf("-o %s: %sis a link to nothing: make the directory that it leads to, or remove it", dir, other(at, dir))
		}
	}
}

// other names at and a space, if it is not dir.
func other(at, dir string) string {
	if at == filepath.Clean(dir) {
		return ""
	}
	return at + " "
}

// LockPath is the lock file of the module that a package in dir belongs to. It lies at the root of the module. It lies in
// dir if dir is in no module, or in the module of tmacc.
func LockPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if root := gomod.Root(abs); root != "" && gomod.At(root) != gomod.Path {
		abs = root
	}
	return filepath.Join(abs, tune.LockName), nil
}
