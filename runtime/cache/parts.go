package cache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A file of parts is a head and the parts. Everything begins at a multiple of a page, with zeros before. Numbers are little endian:
//
//	head    magic (8 bytes)   SHA-256 of the identity (32)   number of parts, then their sizes (8 each)
//	        CRC-32C of each piece of each part (4 each)   CRC-32C of the head up to here (4)
//
// All but the CRCs follows from the identity and the sizes. So does the length of the file.
const (
	partsMagic = "tmaccP\x00\x01"
	partsName  = ".parts" // ends the name of such a file, behind the key
	pageBytes  = 1 << 12
	pieceBytes = 4 << 20 // of a part has a CRC of its own
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MostParts is the usual limit of a folder of parts, in bytes.
const MostParts = 64 << 30

// Parts keeps files of several large parts, which a process maps instead of reading them. No more than one file is for an identity.
type Parts struct {
	folder *Folder
	most   int64
}

// OpenParts opens a folder for such files, as Open does. When they take more than most bytes, the oldest go.
func OpenParts(path string, most int64) (*Parts, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return &Parts{f, most}, nil
}

// Path is the absolute path of the folder.
func (p *Parts) Path() string { return p.folder.path }

// Close closes the folder. What was loaded stays.
func (p *Parts) Close() error { return p.folder.Close() }

// Damaged is the error of a file that is not what was saved. It has been removed, unless the folder does not allow that.
type Damaged struct{ Path string }

func (e *Damaged) Error() string { return e.Path + ": is damaged" }

// plan is where the parts of a file are.
type plan struct {
	head   []byte // without the CRCs
	crcs   int    // the offset of the first
	pieces []span
	parts  []span
	size   int64 // of the file
}

// span is bytes of a file.
type span struct{ at, size int64 }

func newPlan(identity []byte, sizes []int64) (*plan, error) {
	x, id := &plan{}, sha256.Sum256(identity)
	x.head = append(append(x.head, partsMagic...), id[:]...)
	x.head = binary.LittleEndian.AppendUint64(x.head, uint64(len(sizes)))
	x.crcs, x.size = len(x.head)+8*len(sizes), 0
	count := int64(0)
	for _, n := range sizes {
		if n < 0 || n > math.MaxInt64/4-x.size {
			return nil, fmt.Errorf("cache: a part of %d bytes", n)
		}
		x.head = binary.LittleEndian.AppendUint64(x.head, uint64(n))
		count, x.size = count+(n+pieceBytes-1)/pieceBytes, x.size+n
	}
	x.size = pages(int64(x.crcs) + 4*count + 4)
	for _, n := range sizes {
		for at := int64(0); at < n; at += pieceBytes {
			x.pieces = append(x.pieces, span{x.size + at, min(pieceBytes, n-at)})
		}
		x.parts = append(x.parts, span{x.size, n})
		x.size = pages(x.size + n)
	}
	if x.size > math.MaxInt/2 {
		return nil, fmt.Errorf("cache: %d bytes are more than this system maps", x.size)
	}
	return x, nil
}

// pages rounds a number of bytes up to whole pages.
func pages(n int64) int64 { return (n + pageBytes - 1) / pageBytes * pageBytes }

// fileName is the name of the file of an identity.
func fileName(identity []byte) string { return keyOf(identity) + partsName }

// Load maps the parts that were saved for an identity, with these sizes; without them parts is nil. It reads all bytes and compares their
// checksums, so that what it returns is what was saved. The parts are read-only, and hold until close is called. The error is a
// *Damaged if the file was another one.
func (p *Parts) Load(identity []byte, sizes []int64) (parts [][]byte, close func() error, err error) {
	x, err := newPlan(identity, sizes)
	if err != nil {
		return nil, nil, err
	}
	name := fileName(identity)
	data, unmap, err := p.mapped(name, x.size)
	if data == nil || err != nil {
		return nil, nil, err
	}
	if !x.verify(data) {
		p.folder.root.Remove(name)
		return nil, nil, cmp.Or(unmap(), error(&Damaged{p.folder.path + string(os.PathSeparator) + name}))
	}
	now := time.Now()
	p.folder.root.Chtimes(name, now, now) // where that is not possible, it goes sooner
	return x.cut(data), unmap, nil
}

// mapped maps a file of a size, nil if there is none that the user alone can write.
func (p *Parts) mapped(name string, size int64) (data []byte, unmap func() error, err error) {
	info, err := p.folder.root.Lstat(name) // before it is opened, which would wait for a pipe
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("cache: %w", err)
	case !info.Mode().IsRegular() || info.Size() != size || safe(name, info) != nil:
		p.folder.root.RemoveAll(name)
		return nil, nil, &Damaged{p.folder.path + string(os.PathSeparator) + name}
	}
	f, err := p.folder.root.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("cache: %w", err)
	}
	defer f.Close()
	if data, unmap, err = mapFile(f, int(size)); err != nil {
		return nil, nil, fmt.Errorf("cache: %w", err)
	}
	return data, unmap, nil
}

// cut is the parts of a file.
func (x *plan) cut(data []byte) [][]byte {
	parts := make([][]byte, len(x.parts))
	for i, s := range x.parts {
		parts[i] = data[s.at:][:s.size:s.size]
	}
	return parts
}

// verify says that data is what was saved.
func (x *plan) verify(data []byte) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // as on a bad disk
	defer func() { ok = recover() == nil && ok }()
	sums := data[x.crcs:][:4*len(x.pieces)]
	end := x.crcs + len(sums)
	if !bytes.Equal(data[:x.crcs], x.head) || crc32.Checksum(data[:end], castagnoli) != binary.LittleEndian.Uint32(data[end:]) {
		return false
	}
	return each(len(x.pieces), func(i int) error {
		s := x.pieces[i]
		if sum, ok := checksum(data[s.at:][:s.size]); !ok || sum != binary.LittleEndian.Uint32(sums[4*i:]) {
			return errors.ErrUnsupported // of no interest
		}
		return nil
	}) == nil
}

// checksum is the CRC-32C of mapped memory. ok is false if it cannot be read.
func checksum(data []byte) (sum uint32, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { ok = recover() == nil }()
	return crc32.Checksum(data, castagnoli), true
}

// each calls do for 0 to n-1 in GOMAXPROCS threads. After an error it may leave some out.
func each(n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := next.Add(1) - 1; int(i) < n && failed.Load() == nil; i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Save keeps parts of these sizes for an identity, and then maps them as Load does. fill gives part i, in memory that holds until its next call.
// An error is one of fill, or one of the folder: there is no room, say. A process that is killed leaves nothing under a name that counts.
func (p *Parts) Save(identity []byte, sizes []int64, fill func(i int) ([]byte, error)) (parts [][]byte, close func() error, err error) {
	x, err := newPlan(identity, sizes)
	if err != nil {
		return nil, nil, err
	}
	if err := p.room(x.size, fileName(identity)); err != nil {
		return nil, nil, err
	}
	step()
	temp, f, err := p.folder.create(0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("cache: %w", err)
	}
	var data []byte
	unmap := func() error { return nil }
	if err = x.write(f, fill); err == nil {
		step()
		var release func() error
		if data, release, err = mapFile(f, int(x.size)); err == nil {
			unmap = release
		}
	}
	err = cmp.Or(err, f.Close()) // some systems rename no open files
	if err == nil {
		err = p.folder.root.Rename(temp, fileName(identity))
	}
	if err != nil {
		p.folder.root.Remove(temp)
		return nil, nil, errors.Join(fmt.Errorf("cache: %w", err), unmap())
	}
	step()
	return x.cut(data), unmap, nil
}

// write writes a file. Its space is reserved first, so that a full disk is known before the parts are made.
func (x *plan) write(f *os.File, fill func(i int) ([]byte, error)) error {
	if err := reserve(f, x.size); err != nil {
		return err
	}
	head := slices.Clone(x.head)
	for i, part := range x.parts {
		data, err := fill(i)
		if err == nil && int64(len(data)) != part.size {
			err = fmt.Errorf("part %d has %d bytes, not %d", i, len(data), part.size)
		}
		if err != nil {
			return err
		}
		step()
		if head, err = writePart(f, part.at, data, head); err != nil {
			return err
		}
	}
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	_, err := f.WriteAt(head, 0)
	return err
}

// writePart writes a part, and appends the CRCs of its pieces to head.
func writePart(f *os.File, at int64, data, head []byte) ([]byte, error) {
	n := (len(data) + pieceBytes - 1) / pieceBytes
	sums := make([]uint32, n)
	err := each(n, func(i int) error {
		piece := data[i*pieceBytes : min((i+1)*pieceBytes, len(data))]
		sums[i] = crc32.Checksum(piece, castagnoli)
		_, err := f.WriteAt(piece, at+int64(i)*pieceBytes)
		return err
	})
	for _, sum := range sums {
		head = binary.LittleEndian.AppendUint32(head, sum)
	}
	return head, err
}

// room removes the files that have not been used for the longest time until another one of a size fits. One of its name goes anyway.
func (p *Parts) room(size int64, name string) error {
	if size > p.most {
		return fmt.Errorf("cache: %d bytes are more than all of %s may take, %d", size, p.folder.path, p.most)
	}
	if err := p.folder.tidy(); err != nil {
		return err
	}
	var files []fs.FileInfo
	err := p.folder.each(func(e fs.DirEntry) {
		if info, err := e.Info(); err == nil && ours(e) && e.Name() != name {
			files, size = append(files, info), size+info.Size()
		}
	})
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		if size <= p.most {
			break
		}
		if !strings.HasPrefix(info.Name(), writing) && p.folder.root.Remove(info.Name()) == nil {
			size -= info.Size()
		}
	}
	return err
}

// readFile is a file, where it cannot be mapped.
func readFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data = make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
		return nil, nil, err
	}
	return data, func() error { return nil }, nil
}
