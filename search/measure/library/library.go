// Package library loads shared libraries of other systems and binds their functions, without cgo. Programs built with Tag do so on
// linux/amd64; elsewhere Here is an error that says so.
package library

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"
)

// Tag is the build tag of programs that load libraries. They need glibc; others on linux/amd64 are static, and Here is ErrStatic
// in them.
const Tag = "peer"

// ErrStatic is what a program gets that was built without Tag.
var ErrStatic = errors.New("this program is static and loads no libraries: go install -tags " + Tag + " builds one that does")

// Remedy says where the libraries come from.
const Remedy = "npm i --ignore-scripts @node-llama-cpp/linux-x64@3.22.1 brings them in node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"

// Pointer points to something of a library's.
type Pointer = unsafe.Pointer

// Here is why libraries cannot be loaded here, nil if they can.
func Here() error { return errHere }

// Folder is an error unless dir is a folder, which has the file of a name.
func Folder(dir, name string) error {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such folder; %s", dir, Remedy)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: is not a folder; name the one that has %s", dir, name)
	}
	return nil
}
