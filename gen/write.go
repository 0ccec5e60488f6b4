package gen

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/lower"
)

// Temporary is a pattern of os.CreateTemp: files of such names that are left behind go with the next that is written.
const Temporary = temporary + "*"

// Names in the directory of a package, which the go command does not look at.
const (
	temporary = ".tmacc-writing-" // before a number: a package, or a file, that is being written
	pending   = ".tmacc-commit"   // one that is written, with files that are not in their places yet
	removals  = ".remove-"        // in it: the names of files that go, one on a line
)

// step is called before every change of the file system; tests kill the process there.
var step = func() {}

// Write puts the files of a package into dir, which it makes if need be. Files that
// tmacc wrote for the package before and that are no longer part of it are removed; a
// go.mod that is there stays as it is, and a file by somebody else whose name is needed is an error.
//
//	dir/.tmacc-writing-123/  all new files, and the list of files to remove
//	dir/.tmacc-commit/       the same: one rename, after which the package is the new one
//	dir/                     each file renamed to its place: Complete
//
// Killed before that rename, or with a full disk, it leaves the old package. Killed
// after it, the next call of Complete or Write does the rest; until
// then the files belong to two packages, which do not build together (bind).
func Write(dir string, files []lower.File) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		if toNothing(dir) {
			return errorf(dir, "is a link to nothing")
		}
		return err
	}
	if err := Complete(dir); err != nil {
		return err
	}
	temp, err := stage(dir, files)
	if temp == "" || err != nil {
		return err
	}
	defer os.RemoveAll(temp) // unless it has its name
	for range 10 {           // another process may write, too: its package goes first
		step()
		if err = os.Rename(temp, filepath.Join(dir, pending)); err == nil {
			break
		}
		if err := Complete(dir); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if err := Complete(dir); err != nil {
		return err
	}
	removeAbandoned(dir)
	return nil
}

// stage writes new files into a directory of its own in dir. Without new files it makes none.
func stage(dir string, files []lower.File) (temp string, err error) {
	stale, err := leftovers(dir, files)
	if err != nil {
		return "", err
	}
	changed, err := changes(dir, files)
	if err != nil || len(changed)+len(stale) == 0 {
		return "", err
	}
	if err := noneForeign(dir, changed); err != nil {
		return "", err
	}
	step()
	if temp, err = os.MkdirTemp(dir, Temporary); err != nil {
		return "", err
	}
	made := temp // an error returns none
	defer func() {
		if err != nil {
			os.RemoveAll(made)
		}
	}()
	if err := os.Chmod(temp, 0o755); err != nil {
		return "", err
	}
	if len(stale) > 0 {
		name := removals + strings.TrimPrefix(filepath.Base(temp), temporary)
		changed = append(changed, lower.File{Name: name, Data: []byte(strings.Join(stale, "\n"))})
	}
	for _, f := range changed {
		step()
		if err := writeSynced(filepath.Join(temp, f.Name), f.Data); err != nil {
			return "", err
		}
	}
	return temp, nil
}

// changes are the files whose lines are not those in dir. Line ends do not count: version control may write "\r\n" for
// the "\n" of tmacc, which Go reads alike, and such a file stays as it is. It is an error if one cannot take its place.
func changes(dir string, files []lower.File) ([]lower.File, error) {
	var changed []lower.File
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		old, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && f.Name != "go.mod" && !same(f.Name, old, f.Data):
			changed = append(changed, f)
		case err != nil:
			return nil, err
		}
	}
	return changed, nil
}

// same says that a file is as it is to be.
func same(name string, a, b []byte) bool {
	if isModule(name) {
		return bytes.Equal(a, b)
	}
	return sameLines(a, b)
}

// sameLines says that two texts have the same lines, whether these end in "\n" or in "\r\n".
func sameLines(a, b []byte) bool {
	unix := func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }
	return bytes.Equal(unix(a), unix(b))
}

// Vacant is an error if a file in dir that is not by tmacc has one of the names, such as FileNames returns.
func Vacant(dir string, names ...string) error {
	var files []lower.File
	for _, n := range names {
		files = append(files, lower.File{Name: n})
	}
	return noneForeign(dir, files)
}

// noneForeign is an error if one of files is in dir and not by tmacc: somebody wrote it.
func noneForeign(dir string, files []lower.File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		ours, err := isOurs(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && !ours {
			return errorf(path, "was not written by tmacc and has the name of a file of the package: rename or remove it, or choose another package name")
		}
	}
	return nil
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// Complete does what a call of Write that was killed has left to do, if there was one.
// Several processes may do it at once.
func Complete(dir string) error {
	from := filepath.Join(dir, pending)
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lists := slices.DeleteFunc(slices.Clone(entries), func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), removals) })
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removals) {
			continue
		}
		step()
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, l := range lists {
		if err := removeListed(dir, filepath.Join(from, l.Name())); err != nil {
			return err
		}
	}
	step()
	err = os.Remove(from)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) { // another process was as quick, or it is not empty: the next package
		return nil
	}
	return err
}

// removeListed removes files of tmacc that a list names, and the list.
func removeListed(dir, list string) error {
	text, err := os.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(text), "\n") {
		path := filepath.Join(dir, name)
		if ours, err := isOurs(path); err != nil || !ours || name != filepath.Base(name) {
			continue // it is gone already, or somebody else's
		}
		step()
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	step()
	if err := os.Remove(list); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// WriteFile replaces a file at once: who reads it sees the old one or the new one. What it leaves beside it if it is
// killed, a later call in that directory removes. Of a link it replaces the file that it leads to; to a device, such as
// /dev/stdout, it writes.
func WriteFile(path string, data []byte) error {
	return WriteFileBy(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFileBy is WriteFile of what write writes. After an error of write the old file stays.
func WriteFileBy(path string, write func(w io.Writer) error) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if toNothing(path) {
			return errorf(path, "is a link to nothing")
		}
		return replace(path, write)
	case err != nil:
		return err
	case info.IsDir():
		return errorf(path, "is a directory: name a file")
	}
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if open, err := f.Stat(); err == nil && os.SameFile(open, info) { // its output must not go elsewhere
			return write(f)
		}
	}
	if !info.Mode().IsRegular() {
		return writeTo(path, write)
	}
	if path, err = Followed(path); err != nil {
		return err
	}
	return replace(path, write)
}

// toNothing says that path is a dangling link.
func toNothing(path string) bool {
	_, stat := os.Stat(path)
	_, lstat := os.Lstat(path)
	return errors.Is(stat, fs.ErrNotExist) && lstat == nil
}

// Followed is the file that a link leads to, and path if it is none.
func Followed(path string) (string, error) {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, nil
	}
	return filepath.EvalSymlinks(path)
}

// writeTo writes to a device or a pipe.
func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func replace(path string, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	removeAbandoned(dir)
	temp, err := os.CreateTemp(dir, Temporary)
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		return &fs.PathError{Op: inner.Op, Path: path, Err: inner.Err} // whose name the user knows
	}
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails once it is renamed
	if err = errors.Join(write(temp), temp.Chmod(0o644), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// removeAbandoned removes what calls that were killed had begun to write: what nobody
// has changed for an hour.
func removeAbandoned(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), temporary)
		if !ours || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// Differences lists the names of the files that Write would change or remove,
// sorted: those with other lines, however the lines end. go.mod may have been tidied since and does not count.
func Differences(dir string, files []lower.File) ([]string, error) {
	names, err := leftovers(dir, files)
	if err != nil {
		return nil, err
	}
	changed, err := changes(dir, files)
	for _, f := range changed {
		if f.Name != "go.mod" {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// leftovers lists files in dir that tmacc wrote for the package of files but that
// are not among them.
func leftovers(dir string, files []lower.File) ([]string, error) {
	wanted, bases := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		wanted[f.Name] = true
		bases[base(f.Name)] = true
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if wanted[e.Name()] || !bases[base(e.Name())] || !e.Type().IsRegular() {
			continue
		}
		ours, err := isOurs(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if ours {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// isOurs reports whether tmacc wrote a file. A shader has no place to say so: it is ours if the package with its name is.
func isOurs(path string) (bool, error) {
	text, err := os.ReadFile(path)
	if err == nil && isModule(path) {
		dir, name := filepath.Split(path)
		text, err = os.ReadFile(filepath.Join(dir, base(name)+".go"))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
	}
	return bytes.HasPrefix(text, []byte("// Code generated by tmacc")), err
}

// base is the package's part of a file name: all before the first '_' or '.'.
func base(name string) string {
	if i := strings.IndexAny(name, "_."); i >= 0 {
		return name[:i]
	}
	return name
}
