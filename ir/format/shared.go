package format

import (
	"math"
	"slices"
)

// Shared is one kind of number that weights share, and a part of their packed
// matrix: the tensor's name, its type, and how many weights of a row share one.
type Shared struct {
	Name string
	Elem DType
	Span int // elements of K, 0: all
	noun string
}

// The names of the parts of a packed weight matrix: its codes and what its weights share.
const (
	Codes     = "codes"
	Scales    = "scales"
	Zeros     = "zeros"
	Supers    = "supers"
	Mins      = "mins"
	SuperMins = "supermins"
)

// Shared lists what weights of format w share, scales first.
func (w Weight) Shared() []Shared {
	list := []Shared{{Scales, w.Scale, w.Group, "scale"}}
	if w.Zero {
		list = append(list, Shared{Zeros, I8, w.Group, "zero point"})
	}
	if w.Min {
		list = append(list, Shared{Mins, w.Scale, w.Group, "minimum"})
	}
	if w.Super > 0 {
		list = append(list, Shared{Supers, F16, w.Super, "super-scale"})
	}
	if w.Super > 0 && w.Min {
		list = append(list, Shared{SuperMins, F16, w.Super, "super-minimum"})
	}
	return list
}

// Unit is what the columns of a matrix are a multiple of: a super-block, a group or 1.
func (w Weight) Unit() int { return max(w.Super, w.Group, 1) }

// perRow is the number of s that a row of k weights has of its own.
func (s Shared) perRow(per Per, k int) int {
	switch {
	case per == PerTensor:
		return 0
	case s.Span == 0:
		return 1
	}
	return k / s.Span
}

// Count is the number of s in an m by k matrix of w.
func (w Weight) Count(s Shared, m, k int) int {
	if w.Per == PerTensor {
		return 1
	}
	return m * s.perRow(w.Per, k)
}

// Index is the index of the s of weight (row, col) of a matrix with k columns
// among its Count: row-major, ascending in K.
func (w Weight) Index(s Shared, row, col, k int) int {
	n := s.perRow(w.Per, k)
	if s.Span == 0 {
		return row * n
	}
	return row*n + col/s.Span
}

// ScaleCount is the number of scales of an m by k matrix, and of zero points and
// minimums if the format has them.
func (w Weight) ScaleCount(m, k int) int { return w.Count(w.Shared()[0], m, k) }

// ScaleIndex is the index of the scale of weight (row, col) of a matrix with k
// columns among its ScaleCount scales: row-major, groups ascending.
func (w Weight) ScaleIndex(row, col, k int) int { return w.Index(w.Shared()[0], row, col, k) }

// ScalesPerRow is the number of scales (zero points, minimums) that a row of k
// weights has of its own: 0 with one scale per tensor, 1 per row, k/Group.
func (w Weight) ScalesPerRow(k int) int { return w.Shared()[0].perRow(w.Per, k) }

// Scaling is what applies to one weight: of two levels the products, in f32.
type Scaling struct {
	Scale, Min float32 // Min is 0 without minimums
	Zero       int8    // 0 without zero points
}

// Scaling is what applies to weight (row, col) of a matrix of format w with k columns.
func (s *Source) Scaling(w Weight, row, col, k int) Scaling {
	i := w.ScaleIndex(row, col, k)
	x := Scaling{Scale: s.Scales[i]}
	if w.Zero {
		x.Zero = s.Zeros[i]
	}
	if w.Min {
		x.Min = s.Mins[i]
	}
	if w.Super == 0 {
		return x
	}
	j := row*(k/w.Super) + col/w.Super
	x.Scale = float32(s.Supers[j] * x.Scale)
	if w.Min {
		x.Min = float32(s.SuperMins[j] * x.Min)
	}
	return x
}

// NewSource is an m by k matrix of codes, with the numbers that weights share as
// number gives them: number i of each kind.
func (w Weight) NewSource(codes []byte, m, k int, number func(x Shared, i int) float32) Source {
	s := Source{Codes: codes}
	for _, x := range w.Shared() {
		for i := range w.Count(x, m, k) {
			v := number(x, i)
			if x.Name == Zeros {
				s.Zeros = append(s.Zeros, int8(v))
				continue
			}
			to := s.shared(x.Name)
			*to = append(*to, v)
		}
	}
	return s
}

// Number is number i of those of kind x.
func (s *Source) Number(x Shared, i int) float32 {
	if x.Name == Zeros {
		return float32(s.Zeros[i])
	}
	return (*s.shared(x.Name))[i]
}

// Equal reports whether s and o hold the same bits.
func (s Source) Equal(o Source) bool {
	same := slices.Equal(s.Codes, o.Codes) && slices.Equal(s.Zeros, o.Zeros)
	for _, name := range []string{Scales, Mins, Supers, SuperMins} {
		same = same && slices.EqualFunc(*s.shared(name), *o.shared(name), func(x, y float32) bool {
			return math.Float32bits(x) == math.Float32bits(y)
		})
	}
	return same
}

// Row is row r of a matrix of format w with k columns, for Dequantize.
func (s *Source) Row(w Weight, r, k int) Source { return s.Rows(w, r, r+1, k) }

// Value is x.Scale*(Levels[code]-x.Zero) - x.Min, each rounded once. The code
// must be allowed.
func (w Weight) Value(code byte, x Scaling) float32 {
	v := float32(x.Scale * float32(w.Levels[code]-int(x.Zero))) // the conversions forbid fusing
	return float32(v - x.Min)
}

// Dequantize writes the values of one row, a matrix of 1 by len(dst).
func (w Weight) Dequantize(dst []float32, row Source) error {
	if err := row.Check(w, 1, len(dst)); err != nil {
		return err
	}
	for i, c := range row.Codes {
		dst[i] = w.Value(c, row.Scaling(w, 0, i, len(dst)))
	}
	return nil
}
