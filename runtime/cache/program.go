package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// version identifies the sources of this program, if whoever links it sets it, as tests do: go build -ldflags=-X=github.com/tmacc/tmacc/runtime/cache.version=HASH.
var version string

// ThisProgram identifies this program by the bytes of its file: they have the compiler, all schedules that it chooses, and the
// runtime. Where they cannot be read, no other process has the same identity. A version that the linker set goes before the bytes.
var ThisProgram = sync.OnceValue(func() string {
	if version != "" {
		return version
	}
	h := sha256.New()
	f, err := os.Open(executable())
	if err == nil {
		defer f.Close()
		_, err = io.Copy(h, f)
	}
	if err != nil {
		return fmt.Sprintf("unknown, process %d at %v: %v", os.Getpid(), time.Now(), err)
	}
	return hex.EncodeToString(h.Sum(nil))
})

// executable is the path of the program file: on Linux of the file that runs, even if another one has its name by now.
func executable() string {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self
	}
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}
