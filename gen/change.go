package gen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Change replaces the file at path by what f makes of it: f gets the path of the file, which may not be there, and returns its
// new content. Of several processes that do so at once each sees what the one before has written. A reader sees the old file
// or the new one. An error of f leaves the file as it is.
//
// A file beside it, which only one process can create, says that the file is being changed: that works on every
// system. One that a killed process left is removed when it is old; should its process only have slept, a change
// may be lost, but the file is whole.
func Change(path string, f func(path string) ([]byte, error)) error {
	path, err := Followed(path) // all that link to it wait for each other
	if err != nil {
		return err
	}
	mark := path + ".new"
	if err := createAlone(mark); err != nil {
		return err
	}
	defer os.Remove(mark)
	data, err := f(path)
	if err != nil {
		return err
	}
	return WriteFile(path, data)
}

// A file is changed in milliseconds: a process that takes abandoned is dead.
const (
	abandoned  = 10 * time.Second
	pollChange = 5 * time.Millisecond
)

// createAlone creates a file that nobody else has now, and waits for it if need be.
func createAlone(path string) error {
	for began := time.Now(); ; time.Sleep(pollChange) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			if err == nil {
				err = f.Close()
			}
			return err
		}
		removeOld(path)
		if time.Since(began) > 3*abandoned {
			return fmt.Errorf("%w: another tmacc writes it, or remove it", err)
		}
	}
}

// removeOld removes a mark that a killed process left. Of several processes that see it only one does: another one, which has seen the old mark,
// could else remove the next process's. A file beside it says who.
func removeOld(path string) {
	if !old(path) {
		return
	}
	guard := path + ".old"
	f, err := os.OpenFile(guard, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if old(guard) { // its process was killed between the next two calls
			os.Remove(guard)
		}
		return
	}
	defer os.Remove(guard)
	f.Close()
	if old(path) { // it is still the same one
		os.Remove(path)
	}
}

func old(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > abandoned
}
