package command

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/ggufgen"
	"github.com/tmacc/tmacc/tests/hostile"
)

// The set of hostile files: each a header and the size of the file, which is zeros behind it.
func hostileFiles() map[string]struct {
	head *ggufgen.File
	size int64
} {
	const (
		huge   = math.MaxUint64
		sparse = 1 << 38
		most   = 72_000 - 1 // tensors, and one for the rest of the file
		kindU8 = uint32(0)
		text   = uint32(8)
		array  = uint32(9)
	)
	type file = struct {
		head *ggufgen.File
		size int64
	}
	nested := func(deep int, of uint32, n uint64) *ggufgen.File {
		f := ggufgen.Header(0, 1).Add("a", array)
		for range deep {
			f.Add(array, uint64(1))
		}
		return f.Add(of, n)
	}
	many := func(n int, shape func(i int) (typ uint32, size uint64, shape []uint64), name string) *ggufgen.File {
		f, offset := ggufgen.Header(uint64(n)+1, 0), uint64(0)
		for i := range n {
			typ, size, extents := shape(i)
			f.Tensor(fmt.Sprintf(name, i), typ, offset, extents...)
			offset += (size + 31) / 32 * 32
		}
		return f.Tensor("rest", 99, offset, 1)
	}
	values := ggufgen.Header(0, 1<<16)
	for i := range 1 << 16 {
		values.Add(fmt.Sprint(i), kindU8, []byte{1})
	}
	return map[string]file{
		"tensors without end":   {ggufgen.Header(huge, 0), sparse},
		"values without end":    {ggufgen.Header(0, huge), sparse},
		"text without end":      {ggufgen.Header(0, 1).Add("a", text, uint64(huge)), sparse},
		"text of all bytes":     {ggufgen.Header(0, 1).Add("a", text, uint64(sparse-64)), sparse},
		"texts without end":     {nested(0, text, huge/16), sparse},
		"empty texts":           {nested(0, text, 1<<22), sparse},
		"more empty texts":      {nested(0, text, 1<<35), sparse},
		"numbers":               {nested(0, 0, 1<<37), sparse},
		"truth values":          {nested(0, 7, 1<<37), sparse},
		"large numbers":         {nested(0, 12, 1<<34), sparse},
		"empty arrays":          {nested(0, array, 4<<20-64), sparse},
		"most empty arrays":     {nested(0, array, 1<<16), sparse},
		"arrays of arrays":      {nested(1, array, 1<<16-1), sparse},
		"arrays too deep":       {nested(20, array, 1), sparse},
		"most values":           {values, sparse},
		"more values":           {ggufgen.Header(0, 1<<20), sparse},
		"a tensor of all rows":  {many(1, func(int) (uint32, uint64, []uint64) { return 8, 0, []uint64{1 << 32, 1 << 32} }, "t%d"), sparse},
		"a size that overflows": {many(1, func(int) (uint32, uint64, []uint64) { return 8, 0, []uint64{32, 1 << 62} }, "t%d"), sparse},
		"a large matrix":        {many(1, func(int) (uint32, uint64, []uint64) { return 8, 34 << 32, []uint64{1 << 20, 1 << 17} }, "t%d"), sparse},
		"an unknown large type": {many(1, func(int) (uint32, uint64, []uint64) { return 99, 0, []uint64{1 << 20, 1 << 42} }, "t%d"), sparse},
		"overlapping tensors":   {many(1000, func(int) (uint32, uint64, []uint64) { return 8, 0, []uint64{32, 1 << 10} }, "t%d"), sparse},
		"tensors of all shapes": {many(most, func(i int) (uint32, uint64, []uint64) {
			m, k := uint64(i/4096+1), uint64(i%4096+1)*32
			return 8, m * k / 32 * 34, []uint64{k, m}
		}, "t%d.weight"), sparse},
		"tensors of all names": {many(most, func(i int) (uint32, uint64, []uint64) { return 2, 18, []uint64{32, 1} }, strings.Repeat("x", 120)+"%x"), sparse},
		"names of numbers":     {many(most, func(i int) (uint32, uint64, []uint64) { return 2, 18, []uint64{32, 1} }, strings.Repeat("1.", 60)+"%x"), sparse},
		"tensors left out":     {many(most, func(i int) (uint32, uint64, []uint64) { return 0, 4, []uint64{1, 1} }, strings.Repeat("x", 120)+"%x"), sparse},
		"scalars":              {many(most, func(i int) (uint32, uint64, []uint64) { return 0, 4, nil }, "%d"), sparse},
		"empty tensors":        {many(most, func(i int) (uint32, uint64, []uint64) { return 0, 0, []uint64{0} }, "%d"), sparse},
		"names to be escaped":  {many(most, func(i int) (uint32, uint64, []uint64) { return 0, 4, []uint64{1} }, strings.Repeat("\x1b", 120)+"%x"), sparse},
		"tensors with gaps":    {many(most, func(i int) (uint32, uint64, []uint64) { return 0, 64, []uint64{1} }, strings.Repeat("x", 120)+"%x"), sparse},
		"shapes too large":     {many(most, func(i int) (uint32, uint64, []uint64) { return 0, 4, []uint64{huge, huge, huge, uint64(i)} }, strings.Repeat("x", 120)+"%x"), sparse},
		"names of zeros":       {ggufgen.Header(most+1, 0), sparse},
		"keys of zeros":        {ggufgen.Header(0, 1<<16), sparse},
		"vectors":              {many(most, func(i int) (uint32, uint64, []uint64) { return 0, 4, []uint64{1} }, strings.Repeat("x", 120)+"%x"), sparse},
		"a long name":          {many(700, func(i int) (uint32, uint64, []uint64) { return 2, 18, []uint64{32, 1} }, strings.Repeat("1.", 1<<15)+"%d"), sparse},
		"a stack of matrices":  {many(1, func(i int) (uint32, uint64, []uint64) { return 41, 18 << 30, []uint64{128, 1, 1 << 16, 1 << 14} }, "t%d"), sparse},
	}
}

// TestHostileSet: whatever a file says, tmacc compile -dry-run answers within bounds,
// in a process of its own.
func TestHostileSet(t *testing.T) {
	if path := os.Getenv("TMACC_HOSTILE"); path != "" {
		code := run([]string{"compile", path, "-dry-run", "-q", "-target", "avx2"}, io.Discard, os.Stdout)
		fmt.Printf("\ncost %d %d %d\n", code, hostile.Peak(), hostile.CPUTime())
		return
	}
	_, timed := hostile.Campaign(0)
	for name, h := range hostileFiles() {
		path := filepath.Join(t.TempDir(), "hostile.gguf")
		if err := os.WriteFile(path, h.head.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, h.size); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestHostileSet$")
		cmd.Env = append(os.Environ(), "TMACC_HOSTILE="+path, "GOGC=100") // as a user's process has it
		out, err := cmd.CombinedOutput()
		said, cost, _ := strings.Cut(string(out), "\ncost ")
		var code, memory int
		var used time.Duration
		if _, scan := fmt.Sscan(cost, &code, &memory, &used); err != nil || scan != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		if said != "" && len(said) < 300 {
			said = ": " + strings.TrimSpace(said)
		}
		t.Logf("%s: exit code %d, %d MiB, %v%s", name, code, memory>>20, used.Round(time.Millisecond), said)
		switch {
		case code != 0 && code != exitUsage && code != exitUnsupported, strings.Count(said, "\n") > 1:
			t.Errorf("%s: exit code %d%s", name, code, said)
		case memory > hostile.MostMemory, timed && used > hostile.MostTime:
			t.Errorf("%s: %d MiB, %v", name, memory>>20, used)
		}
	}
}

// seedFiles are small files with a tensor of every type, and the beginnings of real ones.
func seedFiles(t *testing.T) [][]byte {
	f, err := gguf.Open("../../../testdata/gguf/blocks.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head, data := new(ggufgen.File), []byte(nil)
	tensors := uint64(0)
	for i := range f.Tensors {
		x := &f.Tensors[i]
		values, size, known := x.Type.Block()
		if !known || x.Name != x.TypeName() || len(x.Shape) < 2 {
			continue
		}
		b, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		head.Tensor(x.Name+".weight", uint32(x.Type), uint64(len(data)), uint64(values), 2)
		data = append(data, b[:2*size]...)
		data = append(data, make([]byte, -len(data)&31)...)
		tensors++
	}
	meta := []any{"general.alignment", uint32(4), uint32(32), "names", uint32(9), uint32(8), uint64(2), "a", "bc",
		"deep", uint32(9), uint32(9), uint64(1), uint32(5), uint64(2), int32(1), int32(2), "yes", uint32(7), []byte{1}}
	all := ggufgen.Header(tensors+1, 4).Add(meta...)
	all.Write(head.Bytes())
	all.Tensor("NVFP4.scale", 0, uint64(len(data)), 1)
	data = append(data, 0, 0, 128, 63) // 1
	all.Write(make([]byte, -all.Len()&31))
	all.Write(data)
	i2s := ggufgen.Header(1, 0)
	i2s.Tensor("I2_S.weight", 36, 0, 128, 4)
	i2s.Write(make([]byte, -i2s.Len()&31+128*4/4+32))
	seeds := [][]byte{all.Bytes(), i2s.Bytes(), halfModel(0, "blk.0.ffn_up.weight").Bytes()}
	for _, name := range []string{"llama-q4_0.gguf", "bitnet-tq2_0.gguf"} {
		whole, err := os.ReadFile("../../../testdata/gguf/" + name)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, whole)
	}
	return seeds
}

// halfModel is one of the two parts of a model with three tensors.
func halfModel(no uint16, matrix string) *ggufgen.File {
	f := ggufgen.Header(uint64(2-no), 3).Add("split.no", uint32(2), no, "split.count", uint32(2), uint16(2), "split.tensors.count", uint32(5), int32(3))
	f.Tensor(matrix, 2, 0, 32, 2)
	if no == 0 {
		f.Tensor("output_norm.weight", 0, 64, 2)
	}
	return f.Pad(64 + 8*int(1-no))
}

// otherHalf is the name of the part that is no mutant.
const otherHalf = "mutant-00002-of-00002.gguf"

// files tries files on everything that reads them.
type files struct {
	dir      string
	products map[string]*runtime.Product // by format; pure Go
	read     int                         // tensors
}

// try lets tmacc plan, and packs and multiplies every tensor that can be read.
func (f *files) try(data []byte) error {
	path := filepath.Join(f.dir, "mutant-00001-of-00002.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	if code, _, stderr := tmacc("compile", path, "-dry-run", "-q", "-target", "avx2"); code != 0 && code != exitUsage && code != exitUnsupported || strings.Contains(stderr, "BUG") {
		return fmt.Errorf("exit code %d: %s", code, stderr)
	}
	file, err := gguf.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	for i := range file.Tensors {
		x := &file.Tensors[i]
		_, _ = file.Scales(x.Name)
		if x.Err != nil || len(x.Shape) < 2 || x.Size > int64(len(data)) {
			continue
		}
		b, err := x.Bytes()
		if err != nil {
			return err
		}
		for _, l := range blocks.Layouts(x.TypeName()) {
			if err := f.multiply(l, b, x.Shape[1], x.Shape[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// multiply packs and multiplies a matrix in blocks of type l, if it is one.
func (f *files) multiply(l blocks.Block, b []byte, m, k int) error {
	p := f.products[l.Weight]
	if p == nil {
		w, err := format.Lookup(l.Weight)
		if err != nil {
			return err
		}
		act := blocks.UsualAct(w)
		p = runtime.New(runtime.Spec{Name: l.Type, Weight: w, Act: act, LimitK: 1 << 17, Layouts: []*format.Layout{format.PlainLayout(w)}})
		f.products[l.Weight] = p
	}
	if size, err := l.Size(m, k); err != nil || size > len(b) {
		return nil
	}
	x, err := p.NewMatrixOfBlocks(l.Type, b, m, k)
	if err != nil {
		return nil // a scale that is not finite, or a forbidden code
	}
	defer x.Close()
	f.read++
	return x.Multiply(make([]float32, m), make([]float32, k), 1, runtime.Options{})
}

// TestMutatedFiles: no mutant of a file panics, or takes long, or much memory.
// TMACC_MUTANTS=100000 is the whole campaign.
func TestMutatedFiles(t *testing.T) {
	mutants, timed := hostile.Campaign(300)
	seeds := seedFiles(t)
	f := &files{dir: t.TempDir(), products: map[string]*runtime.Product{}}
	if err := os.WriteFile(filepath.Join(f.dir, otherHalf), halfModel(1, "blk.1.ffn_up.weight").Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range seeds[:3] {
		if err := f.try(s); err != nil {
			t.Fatal(err)
		}
	}
	if f.read < 26 {
		t.Fatalf("%d tensors of the seeds are read", f.read)
	}
	seed := uint64(drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano())))
	rng := rand.New(rand.NewPCG(seed, 0))
	var data []byte
	defer func() {
		if x := recover(); x != nil {
			t.Errorf("seed %d, %s", seed, hostile.Keep(data))
			panic(x)
		}
	}()
	most, slowest := uint64(0), time.Duration(0)
	for i := range mutants {
		s := seeds[0]
		switch n := rng.IntN(200); {
		case n == 0:
			s = seeds[3+rng.IntN(len(seeds)-3)]
		case n < 40:
			s = seeds[1+n%2]
		}
		data = hostile.Mutate(rng, s, 1<<12)
		began := hostile.Used()
		if err := f.try(data); err != nil {
			t.Fatalf("mutant %d of seed %d, %s: %v", i, seed, hostile.Keep(data), err)
		}
		cost := began.Since()
		most, slowest = max(most, cost.Bytes), max(slowest, cost.Time)
		if cost.Bytes > hostile.MostMemory || timed && cost.Time > hostile.MostTime {
			t.Fatalf("mutant %d of seed %d, %s: %d MiB, %v", i, seed, hostile.Keep(data), cost.Bytes>>20, cost.Time)
		}
	}
	t.Logf("%d mutants, seed %d: %d tensors multiplied; the most memory of one %.1f MiB, the most time %v", mutants, seed, f.read, float64(most)/(1<<20), slowest)
}
