package jit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// NoTemporary is the error of a system where no temporary files can be made.
type NoTemporary struct {
	Folder string // where they belong
	Err    error
}

func (e *NoTemporary) Error() string {
	named := ""
	if os.Getenv("TMPDIR") == e.Folder {
		named = ", which TMPDIR names"
	}
	return fmt.Sprintf("jit: no temporary files can be made in %s%s: %v", e.Folder, named, e.Err)
}

func (e *NoTemporary) Unwrap() error { return e.Err }

// briefly begins the names of folders that are needed for minutes at most.
const briefly = "tmacc-jit-"

// leftFor is the age from which such a folder is nobody's any more.
const leftFor = time.Hour

// swept is done once: processes that were killed leave folders behind.
var swept sync.Once

// TempDir makes a folder for temporary files that are needed for minutes at most. The error is a *NoTemporary.
func TempDir() (string, error) {
	folder := os.TempDir()
	swept.Do(func() { sweep(folder, time.Now()) })
	dir, err := os.MkdirTemp(folder, briefly)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return "", &NoTemporary{folder, err}
	}
	return dir, nil
}

// sweep removes what processes that ended an hour ago or more have left in a folder. What belongs to others stays.
func sweep(folder string, now time.Time) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // making a folder will say why
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), briefly) {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > leftFor {
			os.RemoveAll(filepath.Join(folder, e.Name()))
		}
	}
}
