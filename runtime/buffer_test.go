package runtime

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/cpu"
)

func TestNewBuffer(t *testing.T) {
	for _, size := range []int{0, 1, 1000, hugePage - 1, hugePage, 3*hugePage + 17} {
		b, err := NewBuffer(size)
		if err != nil {
			t.Fatal(err)
		}
		data := b.Bytes()
		if len(data) != size || cap(data) != size || !bytes.Equal(data, make([]byte, size)) {
			t.Errorf("%d bytes: %d of %d, or not zero", size, len(data), cap(data))
		}
		if size > 0 && uintptr(unsafe.Pointer(&data[0]))%cacheLine != 0 {
			t.Errorf("%d bytes begin at %p", size, &data[0])
		}
		for i := range data {
			data[i] = 1
		}
		if err := b.Close(); err != nil || b.Bytes() != nil || b.Close() != nil {
			t.Errorf("%d bytes: closed with %v", size, err)
		}
	}
	tooLarge := []int{-1, math.MinInt, math.MaxInt, math.MaxInt - hugePage + 1}
	if strconv.IntSize == 64 { // with 32 bits, the system may have as much
		tooLarge = append(tooLarge, math.MaxInt-hugePage)
	}
	for _, size := range tooLarge {
		if _, err := NewBuffer(size); err == nil || !strings.HasPrefix(err.Error(), "NewBuffer: argument size: ") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestSaveLoad(t *testing.T) {
	p, other := New(*fakeSpec(t, "w4-g32", 0, 16, 32)), New(*fakeSpec(t, "w2-g32", 0, 16, 32))
	otherLayout := New(*fakeSpec(t, "w4-g32", 0, 8, 32))
	packed := mustPack(t, p, randomWeights(p.Weight(), 37, 320, newRand()), 37, 320)
	dir := t.TempDir()
	path := filepath.Join(dir, "w")
	for range 2 { // also over an old file
		if err := p.Save(path, packed); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("Save leaves %v, %v", left, err)
	}
	b, err := p.Load(path)
	if err != nil || !bytes.Equal(b.Bytes(), packed) || p.Verify(b.Bytes()) != nil {
		t.Fatalf("not what was saved, %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	loads := func(q *Product, data []byte) error {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		b, err := q.Load(path)
		if err == nil {
			b.Close()
		}
		return err
	}
	huge := bytes.Clone(packed)
	for i := 24; i < 48; i++ {
		huge[i] = 0x7f
	}
	binary.LittleEndian.PutUint32(huge[56:], crc32.Checksum(huge[:56], castagnoli))
	for _, c := range []struct {
		err  error
		want string
	}{
		{loads(other, packed), "w2-g32: file " + path + ": holds weights of another format than w2-g32; use the product that packed it"},
		{loads(otherLayout, packed), "file " + path + ": was packed in layout"},
		{loads(p, nil), "file " + path + ": is empty: pack the matrix"},
		{loads(p, packed[:63]), "is a packed matrix whose header is damaged or cut off: pack it again"},
		{loads(p, packed[:64]), "has 64 bytes; its header says 37 rows and 320 columns in"},
		{loads(p, packed[:len(packed)-1]), "its header says 37 rows"},
		{loads(p, append(bytes.Clone(packed), 0)), "its header says 37 rows"},
		{loads(p, make([]byte, len(packed))), "has no intact header"},
		{loads(p, huge), "its header says 9187201950435737471 rows"},
		{second(p.Load(dir)), "file " + dir + ": is not a regular file"},
		{second(p.Load(path + "x")), "file " + path + "x: no such file or directory"},
		{p.Save(path, packed[1:]), "argument packed"},
		{p.Save(filepath.Join(dir, "none", "w"), packed), "no such file or directory"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "\n") {
			t.Errorf("%v; want %s", c.err, c.want)
		}
	}
	if _, err := p.Load(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

// TestSaveKilled kills a process that packs and saves one matrix over another: the file is
// that of one of them, and what was begun goes with a later call.
func TestSaveKilled(t *testing.T) {
	const m, k = 512, 1024
	p := New(*fakeSpec(t, "w4-g32", 0, 16, 32))
	rng := newRand()
	sources := []format.Source{randomWeights(p.Weight(), m, k, rng), randomWeights(p.Weight(), m, k, rng)}
	if path := os.Getenv("TMACC_TEST_SAVE"); path != "" {
		for i := 0; ; i++ {
			x, err := p.NewMatrix(sources[i%2], m, k)
			if err == nil {
				err = x.Save(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			x.Close()
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "w")
	packed := [][]byte{mustPack(t, p, sources[0], m, k), mustPack(t, p, sources[1], m, k)}
	if err := p.Save(path, packed[0]); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSaveKilled$")
		cmd.Env = append(os.Environ(), "TMACC_TEST_SAVE="+path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(30+rng.IntN(70)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		b, err := p.Load(path)
		if err != nil || p.Verify(b.Bytes()) != nil || !bytes.Equal(b.Bytes(), packed[0]) && !bytes.Equal(b.Bytes(), packed[1]) {
			t.Fatalf("neither the one nor the other matrix: %v", err)
		}
		b.Close()
	}
	begun, other, long := filepath.Join(dir, ".w.tmacc-1"), filepath.Join(dir, ".w.tmacc"), time.Now().Add(-2*time.Hour)
	for _, name := range []string{begun, other} {
		if err := errors.Join(os.WriteFile(name, nil, 0o666), os.Chtimes(name, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Save(path, packed[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(begun); err == nil {
		t.Error("what was begun long ago stays")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// TestLog: what runs is said once for each shape.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	for _, target := range []string{"fake/a", cpu.PureGo} {
		p, err := New(*fakeSpec(t, "w4-g32", 0, 16, 32, []int{1, 4})).On(target)
		if err != nil {
			t.Fatal(err)
		}
		if newLogger("") != nil || newLogger("0") != nil {
			t.Error("logs unasked")
		}
		p.log = newLogger("1")
		p.log.to = &out
		const m, k = 16, 64
		packed := mustPack(t, p, randomWeights(p.Weight(), m, k, newRand()), m, k)
		for _, n := range []int{1, 1, 4, 9} {
			act := mustPrepare(t, p, make([]float32, n*k), n, k)
			if err := p.Gemm(make([]float32, n*m), packed, act, 0, m, Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	hash := New(*fakeSpec(t, "w4-g32", 0, 16, 32)).layout.Hash()
	want := strings.ReplaceAll(`tmacc: w4-g32: w4-g32 runs on fake/a (chosen by the caller); packed layout HASH, tiles of 16 rows
tmacc: w4-g32: 16 rows of 64 times 1 activations: k (16 by 1)
tmacc: w4-g32: 16 rows of 64 times 4 activations: k (8 by 4)
tmacc: w4-g32: 16 rows of 64 times 9 activations: k (8 by 4), then k (16 by 1)
tmacc: w4-g32: w4-g32 runs on purego (chosen by the caller); packed layout HASH, tiles of 16 rows
tmacc: w4-g32: 16 rows of 64 times 1 activations: purego
tmacc: w4-g32: 16 rows of 64 times 4 activations: purego
tmacc: w4-g32: 16 rows of 64 times 9 activations: purego
`, "HASH", hash)
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}
