package gguf

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Samples of a file's tensors that Identity reads.
const (
	samples     = 64 // of each file
	sampleBytes = 1 << 12
)

// opened is a file and what the system said of it before it was read.
type opened struct {
	*os.File
	info fs.FileInfo
}

// Identity is a text that another file has not, and that this one has not any more after it was changed: for each file that was Opened its
// size, its times and a hash of its header and of samples of its tensors. It is "" for files without a path, which have no times.
// It is an error if a file has changed since it was opened.
//
// On Linux and macOS, one of the times is that of the last change of any kind, which no program sets. Elsewhere, a file that is changed and then
// given its old time back keeps its Identity if it has the same size, header and samples.
func (f *File) Identity() (string, error) {
	var text strings.Builder
	for i, x := range f.files {
		sum, err := f.sample(x.File, x.info.Size())
		if err != nil {
			return "", errorf(quote("file", f.Paths[i]), "%v", err)
		}
		fmt.Fprintf(&text, "%s, %x\n", state(x.info), sum)
	}
	return text.String(), f.Unchanged()
}

// Unchanged is an error if a file that was Opened has changed since: what was read may be partly of the old and partly of the new one.
func (f *File) Unchanged() error {
	for i, x := range f.files {
		now, err := x.Stat()
		if err != nil {
			return errorf(quote("file", f.Paths[i]), "%v", err)
		}
		if state(now) != state(x.info) {
			return errorf(quote("file", f.Paths[i]), "was changed while it was read: open it again")
		}
	}
	return nil
}

// tick is how long a system may give all changes of a file the same time. Some file systems know whole seconds only, or even ones.
func tick(changed time.Time) time.Duration {
	if changed.Nanosecond() == 0 {
		return 2 * time.Second
	}
	return 20 * time.Millisecond
}

// settled is what a system says of a file when a change after this has another time.
func settled(x fs.File) (info fs.FileInfo, err error) {
	for range 10 { // a file that is written all the time is another one soon
		if info, err = x.Stat(); err != nil {
			return nil, err
		}
		changed := lastChange(info)
		age, tick := time.Since(changed), tick(changed)
		if age < 0 || age >= tick {
			break
		}
		time.Sleep(tick - age)
	}
	return info, nil
}

// sample is the hash of a file's header and of samples of the rest.
func (f *File) sample(x io.ReaderAt, size int64) ([]byte, error) {
	header := size
	for i := range f.Tensors {
		if t := &f.Tensors[i]; t.from.r == x && t.Offset > 0 {
			header = min(header, t.Offset)
		}
	}
	h := sha256.New()
	if err := hashOf(h, x, 0, header); err != nil {
		return nil, err
	}
	for i := range int64(samples) {
		at := header + (size-header)/samples*i
		if err := hashOf(h, x, at, min(sampleBytes, size-at)); err != nil {
			return nil, err
		}
	}
	return h.Sum(nil), nil
}

// hashOf adds n bytes of a file from an offset to a hash.
func hashOf(h hash.Hash, x io.ReaderAt, at, n int64) error {
	_, err := io.Copy(h, io.NewSectionReader(x, at, n))
	return err
}

// state is the size of a file, when it was changed and which one it is.
func state(info fs.FileInfo) string {
	return fmt.Sprintf("%d bytes, %d %d %s", info.Size(), info.ModTime().UnixNano(), lastChange(info).UnixNano(), number(info))
}
