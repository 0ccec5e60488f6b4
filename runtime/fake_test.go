package runtime

import (
	"math"
	"testing"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
)

// lookup is a built-in weight format.
func lookup(t testing.TB, name string) format.Weight {
	t.Helper()
	w, err := format.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// testLayout is a layout of tiles of rows rows and records of recordK: for each
// cell of 8 elements of a row its words, then what weights share.
func testLayout(t testing.TB, w format.Weight, rows, recordK int) *format.Layout {
	t.Helper()
	m, words, err := format.DenseMap(w.Bits, 8)
	if err != nil {
		t.Fatal(err)
	}
	codes := format.Part{
		Name: format.Codes, Map: m, WordStride: rows,
		Digits: []format.Digit{{Axis: "k", Div: 8, Mod: recordK / 8, Stride: rows * words}, {Axis: "m", Div: 1, Mod: rows, Stride: 1}},
		Fields: []format.Digit{{Axis: "k", Div: 1, Mod: 8, Stride: 1}},
	}
	l := &format.Layout{TileM: rows, RecordK: recordK, RecordBytes: rows * words * recordK / 8}
	for _, x := range w.Shared() {
		size := x.Elem.Bytes()
		part := format.Part{Name: x.Name, Elem: x.Elem, Base: l.RecordBytes, Digits: []format.Digit{{Axis: "m", Div: 1, Mod: rows, Stride: size}}}
		if x.Span == 0 {
			part.Header, part.Base = true, 0
			l.HeaderBytes = rows * size
			codes.Base = l.HeaderBytes
		} else {
			groups := recordK / x.Span
			part.Digits = append(part.Digits, format.Digit{Axis: "k", Div: x.Span, Mod: groups, Stride: size * rows})
			l.RecordBytes += size * rows * groups
		}
		l.Parts = append(l.Parts, part)
	}
	l.Parts = append(l.Parts, codes)
	if err := l.Fits(w); err != nil {
		t.Fatal(err)
	}
	return l
}

func at[T any](p unsafe.Pointer, off int) *T { return (*T)(unsafe.Add(p, off)) }

// fakeKernel does what the assembly for s and k must do, from GemmArgs alone.
func fakeKernel(s *Spec, v abi.Variant, k abi.Kernel) func(*abi.GemmArgs) {
	l := s.Layouts[v.Layout]
	codes := l.Part(format.Codes)
	rel := func(p *format.Part, row, e int) int { return l.Address(p, row, e, 0) - p.Offset(0, 0) }
	type place struct{ at, field int }
	rows := min(k.Rows, l.TileM) // of one tile
	places := make([]place, rows*l.RecordK)
	for i := range places {
		r, e := i/l.RecordK, i%l.RecordK
		places[i] = place{rel(codes, r, e), codes.Field(r, e)}
	}
	one := func(a *abi.GemmArgs) {
		all := int(a.Count) * k.StepK
		group := s.groupK()
		if group == 0 {
			group = all
		}
		filled := group // as activations have it
		if v.Fill > 0 {
			filled = v.Fill
		}
		for r := range rows {
			for c := range k.Cols {
				acc, block, blockLeast := float32(0), int32(0), int32(0)
				for g := range all / filled {
					shared := [numParts]float32{}
					for i, name := range format.PartNames {
						if p := l.Part(name); p != nil && i != format.CodesPart {
							shared[i] = p.Elem.Get(unsafe.Slice(at[byte](a.Weights[i], rel(p, r, g*group)), p.Elem.Bytes()))
						}
					}
					ws, zero, least := shared[format.ScalesPart], shared[format.ZerosPart], shared[format.MinsPart]
					if s.block() == 1 && s.Weight.Super > 0 {
						ws, least = float32(ws*shared[format.SupersPart]), float32(least*shared[format.SuperMinsPart])
					}
					sum, actSum := int32(0), int32(0)
					for i := range filled {
						at8 := g*filled + i
						act := int32(*at[int8](a.Act, at8/k.Chunk*k.Chunk*k.Cols+c*k.Chunk+at8%k.Chunk))
						if i >= group {
							if act != 0 {
								panic("a group is filled up with an activation that is not 0")
							}
							continue
						}
						e := g*group + i
						code, p := 0, places[r*l.RecordK+e%l.RecordK]
						for i, b := range codes.Map[p.field] {
							code |= int(*at[byte](a.Weights[format.CodesPart], e/l.RecordK*l.RecordBytes+p.at+b.Word*codes.WordStride)>>b.Bit&1) << i
						}
						book := 0
						if p := l.Part(format.Books); p != nil {
							book = int(*at[byte](a.Weights[format.BooksPart], rel(p, r, e)))
						}
						if code < s.Weight.Codes() {
							sum += int32(s.Weight.Level(byte(book), byte(code))) * act
						}
						actSum += act
					}
					as := float32(1)
					if s.Act.Group > 0 {
						as = *at[float32](a.ActScale, 4*(g*group/s.Act.Group*k.Cols+c))
					}
					want := actSum * int32(k.SumBy)
					if k.ScaledSums {
						want = int32(math.Float32bits(float32(actSum) * as))
					}
					if have := *at[int32](a.Sums, 4*(g*k.Cols+c)); have != want {
						panic("sums of activations are wrong")
					}
					sum -= int32(zero) * actSum
					if s.block() > 1 {
						block, blockLeast = block+sum*int32(ws), blockLeast+actSum*int32(least)
						if (g+1)%s.block() != 0 {
							continue
						}
						sum, actSum, block, blockLeast = block, blockLeast, 0, 0
						ws, least = shared[format.SupersPart], shared[format.SuperMinsPart]
					}
					term := float32(float32(sum) * float32(ws*as))
					if s.Weight.Min {
						term = float32(term - float32(least*float32(float32(actSum)*as)))
					}
					acc = float32(acc + term)
				}
				if s.Act.Group == 0 {
					acc *= *at[float32](a.ActScale, 4*c)
				}
				*at[float32](a.Out, c*int(a.OutStep)+4*r) = canonical(acc)
			}
		}
	}
	move := func(a *abi.GemmArgs, out, weights int64) {
		a.Out = unsafe.Add(a.Out, out)
		for i, name := range format.PartNames {
			if l.Part(name) != nil {
				a.Weights[i] = unsafe.Add(a.Weights[i], weights)
			}
		}
	}
	tiles := int64(k.Rows / rows)
	all := func(a *abi.GemmArgs) {
		for i := range k.Scratch {
			*at[byte](a.Scratch, i) = 0xa5
		}
		for i := range tiles { // side by side
			b := *a
			move(&b, i*a.SideOut, i*a.SideBytes)
			one(&b)
		}
	}
	return func(a *abi.GemmArgs) {
		for all(a); a.Tiles > 1; all(a) {
			a.Tiles--
			move(a, a.OutBytes, a.TileBytes)
		}
	}
}

// fakePrepare does what the assembly for s and f must do, and writes over all the
// room it is given. Its last count is K.
func fakePrepare(s *Spec, f abi.Prepare) func(*abi.PrepareArgs) {
	return func(a *abi.PrepareArgs) {
		n, extra := int(a.Count[0])*f.CountDiv[0], room
		if n == int(a.Count[1]) {
			extra = 0
		}
		x := unsafe.Slice((*float32)(a.X), n)
		codes := unsafe.Slice((*byte)(a.Act), n)
		sums := unsafe.Slice((*int32)(a.Sums), groupsOf(n, s.groupK())+extra)
		scales := unsafe.Slice((*uint32)(a.ActScale), groupsOf(n, s.Act.Group)+extra)
		for _, p := range []unsafe.Pointer{a.Amax, a.Finite, a.Inv} {
			for i := range scales {
				*at[int32](p, 4*i) = -1
			}
		}
		for i := range sums {
			sums[i] = -77
		}
		for i := range scales {
			scales[i] = math.Float32bits(7)
		}
		quantize(codes, sums[:groupsOf(n, s.groupK())], scales[:groupsOf(n, s.Act.Group)], x, s.Act.Group, s.groupK())
		for i, v := range scales {
			if v == nan {
				scales[i] = nan + 5 // any NaN will do
			}
		}
	}
}

// fakeSpec has a layout and, if cuts are given, a variant for each: the widths of
// its kernels. Those from the third on fill up groups, if records are whole ones.
func fakeSpec(t testing.TB, name string, act, rows, recordK int, cuts ...[]int) *Spec {
	w := lookup(t, name)
	s := &Spec{Name: name, Weight: w, Act: format.Act{Group: act}, LimitK: 1 << 17, Layouts: []*format.Layout{testLayout(t, w, rows, recordK)}}
	if !littleEndian {
		cuts = nil // there is no kernel for such a CPU
	}
	for i, cut := range cuts {
		v := abi.Variant{Target: "fake/" + string(rune('a'+i)), ABI: abi.Version}
		if g := s.groupK(); i >= 2 && g > 0 && recordK%g == 0 {
			v.Fill = g + 8
		}
		filled := s.fill(&v).of(recordK)
		for j, cols := range cut {
			k := abi.Kernel{Name: "k", Rows: []int{rows, rows / 2}[j%2], Cols: cols, StepK: filled, Chunk: []int{4, filled, 8}[(i+j)%3], SumBy: []int{1, -8}[j%2]}
			k.Scratch = 4 * k.Rows * cols * ((i + j) % 2)
			k.ScaledSums = w.Min && s.block() == 1 && k.SumBy == 1
			k.Fn = fakeKernel(s, v, k)
			v.Kernels = append(v.Kernels, k)
		}
		if i%2 == 0 {
			v.Prepare = &abi.Prepare{Name: "prep", Pads: []int{3 * recordK}, CountDiv: []int{3 * recordK, 1}}
			v.Prepare.Fn = fakePrepare(s, *v.Prepare)
		}
		s.Variants = append(s.Variants, v)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}
