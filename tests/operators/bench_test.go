package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand"
	"path"
	"strings"
	"testing"
	"unsafe"

	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	optraces "github.com/tmacc/tmacc/runtime/ops/traces"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/native"
)

// traceFile is a schedule of an operator: runtime/ops/traces/BITS/NAME.json.
type traceFile struct {
	name, bits string
	schedule.Trace
}

// traces reads the schedules for vectors of some number of bits.
func traces(t testing.TB, bits string) (out []traceFile) {
	t.Helper()
	files, err := fs.Glob(optraces.Files, bits+"/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f := traceFile{name: strings.TrimSuffix(path.Base(name), ".json"), bits: bits}
		data, err := optraces.Files.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &f.Trace)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, f)
	}
	return out
}

// BenchmarkOperators times kernels that stay in the nearest caches.
func BenchmarkOperators(b *testing.B) {
	for bits, name := range map[string]string{"256": "avxvnni", "512": "avx512"} {
		for _, f := range traces(b, bits) {
			for _, k := range []int{128, 2048} {
				b.Run(fmt.Sprintf("%s/%s/K=%d", bits, f.name, k), func(b *testing.B) { benchmark(b, f, native.Target(b, name), k) })
			}
		}
	}
}

func benchmark(b *testing.B, f traceFile, target lower.Target, size int) {
	o := operator.Find(f.name)
	rng := rand.New(rand.NewSource(1))
	c, err := check.NewOperator(rng, *o, map[string]int{"K": size, "H": size, "R": 4, "D": size}, false)
	if err != nil {
		b.Fatal(err)
	}
	k, err := schedule.CompileOperator(*o, f.Trace)
	if err != nil {
		b.Fatal(err)
	}
	code, err := lower.Build(context.Background(), target, k.Nest)
	if err != nil {
		b.Fatal(err)
	}
	file, err := lower.Emit(target, "main", code)
	if err != nil {
		b.Fatal(err)
	}
	img, err := jit.Assemble(file)
	if err != nil {
		b.Skip(err)
	}
	defer img.Close()
	fn, err := img.Func(k.Nest.Name)
	if err != nil {
		b.Fatal(err)
	}
	args := c.Args(rng, k)
	words := make([]uint64, len(args))
	for i, a := range args {
		if words[i] = uint64(a.Int); a.Buf != nil {
			words[i] = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(a.Buf))))
		}
	}
	for b.Loop() {
		fn.Call(words)
	}
	if rows, ok := matmulRows(f.name); ok {
		seconds := b.Elapsed().Seconds() / float64(b.N)
		b.ReportMetric(float64(rows*size*operator.Panel)/seconds/1e9, "GMAC/s")
		b.ReportMetric(float64(size*operator.Panel*c.PanelBytes())/seconds/1e9, "GB/s")
	}
}

// matmulRows is the number of rows of an operator matmul_TYPE_ROWS.
func matmulRows(name string) (rows int, ok bool) {
	if !strings.HasPrefix(name, "matmul_") {
		return 0, false
	}
	_, err := fmt.Sscan(name[strings.LastIndex(name, "_")+1:], &rows)
	return rows, err == nil
}
