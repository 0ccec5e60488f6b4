package runtime

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// What a call works with stays in a pool: nothing in it may keep the buffers of callers alive.
func TestRelease(t *testing.T) {
	const n, k = 5, 128
	for _, name := range []string{"w2", "w4-g32"} {
		testRelease(t, name, 20, n, k)
		testRelease(t, name, 20, 1, k) // one call of a kernel
	}
}

func testRelease(t *testing.T, name string, m, n, k int) {
	for _, target := range []string{"fake/a", "fake/c", cpu.PureGo} {
		p, err := New(*fakeSpec(t, name, 0, 4, 32, []int{1, 4}, []int{1}, []int{2})).On(target)
		if err != nil {
			t.Fatal(err)
		}
		s := new(scratch)
		p.pool = sync.Pool{New: func() any { return s }}
		packed, act := make([]byte, must(p.PackedSize(m, k))), make([]byte, must(p.ActSize(n, k)))
		x, dst, bias := make([]float32, n*k), make([]float32, n*m), make([]float32, m)
		src := p.spec.Weight.NewSource(make([]byte, m*k), m, k, func(format.Shared, int) float32 { return 1 })
		if err := p.Pack(packed, src, m, k); err != nil {
			t.Fatal(err)
		}
		callers := [][2]uintptr{span(packed), span(act), span(x), span(dst), span(bias)}
		check := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			pointers(reflect.ValueOf(s).Elem(), "scratch", func(path string, at uintptr) {
				for i, c := range callers {
					if c[0] <= at && at < c[1] {
						t.Errorf("%s on %s: after %s, %s is in the caller's buffer %d", name, target, what, path, i)
					}
				}
			})
		}
		check("PrepareAct", p.PrepareAct(act, x, n, k))
		check("Gemm", p.Gemm(dst, packed, act, 0, m, Options{}))
		check("Gemm again", p.Gemm(dst, packed, act, 0, m, Options{}))
		check("Gemm with a bias", p.Gemm(dst, packed, act, 4, 8, Options{Bias: bias}))
		if p.Gemm(dst[1:], packed, act, 0, m, Options{}) == nil {
			t.Error("a short buffer is accepted")
		}
		check("Gemm of a short buffer", nil)
	}
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

// span is where s lies.
func span[T any](s []T) [2]uintptr {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	return [2]uintptr{at, at + uintptr(len(s))*unsafe.Sizeof(s[0])}
}

// pointers calls f for all that v points to, without following pointers.
func pointers(v reflect.Value, path string, f func(path string, at uintptr)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			pointers(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Array:
		for i := range v.Len() {
			pointers(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
	case reflect.Slice, reflect.Pointer, reflect.UnsafePointer:
		f(path, v.Pointer())
	}
}
