package format

import (
	"math"
	"slices"
)

// Shared is one kind of number that weights share, and a part of their packed
// matrix: the tensor's name, its type, and how many weights of a row share one.
type Shared struct {
	Name  string
	Elem  DType
	Span  int // elements of K, 0: all
	Limit int // of an index, how many values it has; else 0
	noun  string
}

// The names of the parts of a packed weight matrix: its codes and what its weights share.
const (
	Codes     = "codes"
	Scales    = "scales"
	Zeros     = "zeros"
	Supers    = "supers"
	Mins      = "mins"
	SuperMins = "supermins"
	Books     = "books" // indices
)

func (w Weight) scales() Shared { return Shared{Scales, w.Scale, w.Group, 0, "scale"} }

// Shared lists what weights of format w share, scales first.
func (w Weight) Shared() []Shared {
	list := []Shared{w.scales()}
	if w.Zero {
		list = append(list, Shared{Zeros, I8, w.Group, 0, "zero point"})
	}
	if w.Min {
		list = append(list, Shared{Mins, w.Scale, w.Group, 0, "minimum"})
	}
	if w.Super > 0 {
		list = append(list, Shared{Supers, F16, w.Super, 0, "super-scale"})
	}
	if w.Super > 0 && w.Min {
		list = append(list, Shared{SuperMins, F16, w.Super, 0, "super-minimum"})
	}
	if w.Books > 0 {
		list = append(list, Shared{Books, U8, w.BookGroup, w.Books, "book index"})
	}
	return list
}

// Unit is what the columns of a matrix are a multiple of: a super-block, a group,
// what has one book or 1.
func (w Weight) Unit() int { return max(w.Super, w.Group, w.BookGroup, 1) }

// perRow is the number of s that a row of k weights has of its own.
func (s Shared) perRow(per Per, k int) int {
	switch {
	case s.Span > 0:
		return k / s.Span
	case per == PerTensor:
		return 0
	}
	return 1
}

// perTensor says that all weights share one s.
func (s Shared) perTensor(per Per) bool { return s.Span == 0 && per == PerTensor }

// Count is the number of s in an m by k matrix of w.
func (w Weight) Count(s Shared, m, k int) int {
	if s.perTensor(w.Per) {
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
func (w Weight) ScaleCount(m, k int) int { return w.Count(w.scales(), m, k) }

// ScaleIndex is the index of the scale of weight (row, col) of a matrix with k
// columns among its ScaleCount scales: row-major, groups ascending.
func (w Weight) ScaleIndex(row, col, k int) int { return w.Index(w.scales(), row, col, k) }

// Scaling is what applies to one weight: of two levels the products, in f32, and their factors.
type Scaling struct {
	Scale, Min      float32 // Min is 0 without minimums
	Zero            int8    // 0 without zero points
	Super, SuperMin float32
	Sub, SubMin     int32
}

// Times combines a sub-scale and a sub-minimum with the scale and minimum of their super-block.
func (x Scaling) Times(super, superMin float32) Scaling {
	x.Super, x.SuperMin, x.Sub, x.SubMin = super, superMin, int32(x.Scale), int32(x.Min)
	x.Scale, x.Min = float32(super*x.Scale), float32(superMin*x.Min)
	return x
}

// Value is a weight of that level: scale*(level-zero) - min, each rounded once.
func (x Scaling) Value(level int) float32 {
	v := float32(x.Scale * float32(level-int(x.Zero))) // the conversions forbid fusing
	return float32(v - x.Min)
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
	j, least := row*(k/w.Super)+col/w.Super, float32(0)
	if w.Min {
		least = s.SuperMins[j]
	}
	return x.Times(s.Supers[j], least)
}

// NewSource is an m by k matrix of codes, with the numbers that weights share as
// number gives them: number i of each kind.
func (w Weight) NewSource(codes []byte, m, k int, number func(x Shared, i int) float32) Source {
	s := Source{Codes: codes}
	for _, x := range w.Shared() {
		n := w.Count(x, m, k)
		of := s.numbers(x.Name)
		of.resize(n)
		for i := range n {
			of.set(i, number(x, i))
		}
	}
	return s
}

// numbers is one kind of number in a Source, whatever they are kept as.
type numbers interface {
	count() int
	at(i int) float32
	set(i int, v float32)
	resize(n int)               // n numbers, all 0
	share(of numbers, i, n int) // n numbers of another source, from number i
	// unfit is the index of the first that is not finite, that elem does not hold exactly or
	// that reaches a limit that is not 0; -1 if there is none.
	unfit(limit int, elem DType) int
}

// list is numbers in a slice of the source.
type list[T float32 | int8 | uint8] struct{ of *[]T }

func (l list[T]) count() int           { return len(*l.of) }
func (l list[T]) at(i int) float32     { return float32((*l.of)[i]) }
func (l list[T]) set(i int, v float32) { (*l.of)[i] = T(v) }
func (l list[T]) resize(n int)         { *l.of = make([]T, n) }

func (l list[T]) share(of numbers, i, n int) { *l.of = (*of.(list[T]).of)[i:][:n] }

func (l list[T]) unfit(limit int, elem DType) int {
	least, most, integers := elem.integers()
	if limit > 0 {
		most = min(most, limit-1)
	}
	for i, v := range *l.of {
		v := float32(v)
		switch {
		case !integers && v-v == 0 && elem.holds(v):
		case integers && isInteger(v, least, most):
		default:
			return i
		}
	}
	return -1
}

// The parts that a packed matrix may have by their numbers, in the order of kernels' arguments.
const (
	CodesPart = iota
	ScalesPart
	ZerosPart
	MinsPart
	SupersPart
	SuperMinsPart
	BooksPart
)

// PartNames are the names of those parts.
var PartNames = [...]string{CodesPart: Codes, ScalesPart: Scales, ZerosPart: Zeros, MinsPart: Mins, SupersPart: Supers, SuperMinsPart: SuperMins, BooksPart: Books}

// numbers returns all numbers of one kind, by the name of its part.
func (s *Source) numbers(name string) numbers {
	switch name {
	case Scales:
		return list[float32]{&s.Scales}
	case Zeros:
		return list[int8]{&s.Zeros}
	case Mins:
		return list[float32]{&s.Mins}
	case Supers:
		return list[float32]{&s.Supers}
	case SuperMins:
		return list[float32]{&s.SuperMins}
	case Books:
		return list[uint8]{&s.Books}
	}
	panic("BUG: format: no numbers called " + name)
}

// Number is number i of kind x.
func (s *Source) Number(x Shared, i int) float32 { return s.numbers(x.Name).at(i) }

// Equal reports whether s and o hold the same bits.
func (s Source) Equal(o Source) bool {
	same := slices.Equal(s.Codes, o.Codes)
	for _, name := range PartNames[ScalesPart:] {
		a, b := s.numbers(name), o.numbers(name)
		same = same && a.count() == b.count()
		for i := 0; same && i < a.count(); i++ {
			same = math.Float32bits(a.at(i)) == math.Float32bits(b.at(i))
		}
	}
	return same
}

// Row is row r of a matrix of format w with k columns, for Dequantize.
func (s *Source) Row(w Weight, r, k int) Source { return s.Rows(w, r, r+1, k) }

// Level is what the code of weight (row, col) means, of format w in a matrix with k columns.
func (s *Source) Level(w Weight, row, col, k int) int {
	book := byte(0)
	if w.Books > 0 {
		book = s.Books[row*(k/w.BookGroup)+col/w.BookGroup]
	}
	return w.Level(book, s.Codes[row*k+col])
}

// Value is weight (row, col): scale*(level-zero) - min, each rounded once.
func (s *Source) Value(w Weight, row, col, k int) float32 {
	return s.Scaling(w, row, col, k).Value(s.Level(w, row, col, k))
}

// Dequantize writes the values of one row, a matrix of 1 by len(dst).
func (w Weight) Dequantize(dst []float32, row Source) error {
	if err := row.Check(w, 1, len(dst)); err != nil {
		return err
	}
	for i := range dst {
		dst[i] = row.Value(w, 0, i, len(dst))
	}
	return nil
}
