package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// MaxGroup is the largest Weight.Group.
const MaxGroup = 1 << 16

// Validate reports what is wrong with w, or nil.
func (w Weight) Validate() error {
	thing := fmt.Sprintf("weight %q", w.Name)
	bad := func(problem string, args ...any) error { return errorf(thing, problem, args...) }
	switch {
	case w.Name == "":
		return bad("has no name")
	case !printable(w.Name):
		return bad("its name must be letters, digits, '_', '-' and '.', at most 64 of them")
	case w.Bits < 1 || w.Bits > 8:
		return bad("bits is %d; it must be 1 to 8", w.Bits)
	case len(w.Levels) < 2 || len(w.Levels) > 1<<w.Bits:
		return bad("has %d levels; %d bits hold 2 to %d", len(w.Levels), w.Bits, 1<<w.Bits)
	case math.IsNaN(w.Bound) || w.Bound < 0 || w.Bound > float64(w.Bits):
		return bad("nominal is %v; it must be above 0 and at most bits (%d), or absent", w.Bound, w.Bits)
	case w.Per > PerGroup:
		return bad("per is %d; a scale is per tensor, row or group", w.Per)
	case w.Scale != F16 && w.Scale != F32:
		return bad("scale is %s; it must be f16 or f32", w.Scale)
	case w.Per == PerGroup && (w.Group < 16 || w.Group > MaxGroup || w.Group%16 != 0):
		return bad("group is %d; it must be a multiple of 16, 16 to %d", w.Group, MaxGroup)
	case w.Per != PerGroup && w.Group != 0:
		return bad("group is %d, but the scale is per %s; set per to group or leave group out", w.Group, w.Per)
	case w.Zero && w.Per != PerGroup:
		return bad("zero points need a scale per group; it is per %s", w.Per)
	}
	for c, v := range w.Levels {
		if v < -128 || v > 127 {
			return bad("level of code %d is %d; it must be -128 to 127", c, v)
		}
	}
	return w.validName()
}

// validName keeps a name from meaning two formats: what begins like a built-in
// format must be what Lookup makes of the name.
func (w Weight) validName() error {
	base, _, _ := strings.Cut(w.Name, "-")
	named, ok := row(base)
	if !ok {
		return nil
	}
	if named.Bits != w.Bits || !slices.Equal(named.Levels, w.Levels) {
		return errorf(fmt.Sprintf("weight %q", w.Name), "%s is a built-in format with other levels; choose another name", base)
	}
	if canonical := w.String(); canonical != w.Name {
		return errorf(fmt.Sprintf("weight %q", w.Name), "its fields are those of the built-in format %s; use that name, or one that does not begin with %s", canonical, base)
	}
	return nil
}

func printable(name string) bool {
	for _, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
		if !ok {
			return false
		}
	}
	return len(name) <= 64
}

// UnmarshalJSON reads a weight as its fields, or as a name for Lookup. It
// refuses unknown fields and what Validate refuses.
func (w *Weight) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var name string
		if err := json.Unmarshal(data, &name); err != nil {
			return err
		}
		named, err := Lookup(name)
		if err != nil {
			return err
		}
		*w = named
		return nil
	}
	type fields Weight // without methods
	var f fields
	if err := strict(data, &f); err != nil {
		return errorf("weight", "%v", err)
	}
	if err := Weight(f).Validate(); err != nil {
		return err
	}
	*w = Weight(f)
	return nil
}

func strict(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// Affine reports the base and the step, at least 1, for which Levels[c] ==
// base + step*c for every code c.
func (w Weight) Affine() (base, step int, ok bool) {
	if len(w.Levels) < 2 || w.Levels[1] <= w.Levels[0] {
		return 0, 0, false
	}
	base, step = w.Levels[0], w.Levels[1]-w.Levels[0]
	for c, v := range w.Levels {
		if v != base+step*c {
			return 0, 0, false
		}
	}
	return base, step, true
}

// MinLevel is the smallest level.
func (w Weight) MinLevel() int { return slices.Min(w.Levels) }

// MaxLevel is the largest level.
func (w Weight) MaxLevel() int { return slices.Max(w.Levels) }

// ScalesPerRow is the number of scales (and zero points) that a row of k
// weights has of its own: 0 with one scale per tensor, 1 per row, k/Group.
func (w Weight) ScalesPerRow(k int) int {
	switch w.Per {
	case PerTensor:
		return 0
	case PerRow:
		return 1
	}
	return k / w.Group
}

// ScaleCount is the number of scales of an m by k matrix.
func (w Weight) ScaleCount(m, k int) int {
	if w.Per == PerTensor {
		return 1
	}
	return m * w.ScalesPerRow(k)
}

// ScaleIndex is the index of the scale of weight (row, col) of a matrix with k
// columns among its ScaleCount scales: row-major, groups ascending.
func (w Weight) ScaleIndex(row, col, k int) int {
	switch w.Per {
	case PerTensor:
		return 0
	case PerRow:
		return row
	}
	return row*(k/w.Group) + col/w.Group
}

// Value is scale*(Levels[code]-zero), rounded once. The code must be allowed.
func (w Weight) Value(code byte, scale float32, zero int8) float32 {
	return float32(scale * float32(w.Levels[code]-int(zero))) // the conversion forbids fusing with a caller's addition
}

// Dequantize writes the values of one row: len(codes) of them, with one scale
// (per tensor or row) or one per group, and as many zeros if the format has
// zero points (else nil).
func (w Weight) Dequantize(dst []float32, codes []byte, scales []float32, zeros []int8) error {
	k, span := len(codes), len(codes)
	if w.Per == PerGroup {
		span = w.Group
		if k%span != 0 {
			return errorf("weight "+w.Name, "a row of %d weights is not whole groups of %d", k, span)
		}
	}
	groups := 0
	if k > 0 {
		groups = k / span
	}
	wantZeros := 0
	if w.Zero {
		wantZeros = groups
	}
	switch {
	case len(dst) != k:
		return errorf("argument dst", "has %d elements for %d codes", len(dst), k)
	case len(scales) != groups:
		return errorf("argument scales", "has %d elements; the row has %d", len(scales), groups)
	case len(zeros) != wantZeros:
		return errorf("argument zeros", "has %d elements; the row has %d", len(zeros), wantZeros)
	}
	for i, c := range codes {
		if int(c) >= len(w.Levels) {
			return errorf("weight "+w.Name, "column %d holds code %d; only codes 0 to %d are allowed", i, c, len(w.Levels)-1)
		}
		var zero int8
		if w.Zero {
			zero = zeros[i/span]
		}
		dst[i] = w.Value(c, scales[i/span], zero)
	}
	return nil
}
