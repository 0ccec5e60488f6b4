package vir

import (
	"math"
	"testing"
)

// TestBounds states ranges as TestRanges does, of arguments that are not constant: what depends
// on constants only is computed, and tells nothing about a rule. v1 is an i8, v3 is 0..15,
// v10 is -8..7, v11 is 64..127, v12 is -128..-1, v13 is a u8 in 64..127 and v14 an i16 like v1.
func TestBounds(t *testing.T) {
	const prelude = `
		v21:i8x8 = splat 64
		v22:i8x8 = splat -1
		v10:i8x8 = shrs v1 4
		v11:i8x8 = maxs v1 v21
		v12:i8x8 = mins v1 v22
		v13:u8x8 = bitcast v11
		v14:i16x8 = widen v1
	`
	for _, row := range []struct {
		body   string
		lo, hi int64
	}{
		{"v9:i8x8 = and v10 v3", 0, 15}, // -1 & 15
		{"v9:i8x8 = and v3 v10", 0, 15},
		{"v9:i8x8 = and v11 v11", 0, 127},
		{"v9:i8x8 = shl v10 2", -32, 28},
		{"v9:i8x8 = shl v10 4", -128, 112},
		{"v9:i8x8 = shl v10 5", -128, 127},
		{"v9:u8x8 = shru v13 2", 16, 31},
		{"v9:i8x8 = shrs v12 1", -64, -1},
		{"v9:i8x8 = shru v12 1", 64, 127},
		{"v9:u8x8 = bitcast v12", 128, 255},
		{"v8:u8x8 = bitcast v12\nv9:i8x8 = bitcast v8", -128, -1},
		{"v9:i8x8 = submsb v1 v3 v10", -8, 23}, // -8..7 or 0-7..15+8
		{"v9:u8x8 = addsat v2 v2", 0, 30},
		{"v9:u8x8 = addsat v13 v13", 128, 254},
		{"v8:u8x8 = addsat v13 v13\nv9:u8x8 = addsat v8 v13", 192, 255},
		{"v8:u8x8 = addsat v13 v13\nv7:u8x8 = addsat v8 v8\nv9:u8x8 = addsat v7 v13", 255, 255},
		{"v9:u8x8 = subsat v13 v2", 49, 127},
		{"v9:u8x8 = subsat v2 v13", 0, 0},
		{"v9:u8x8 = subsat v13 v13", 0, 63},
		{"v9:i8x8 = sign v10 v1", -8, 8},
		{"v9:i8x8 = sign v11 v1", -127, 127},
		{"v9:i8x8 = abs v10", 0, 8},
		{"v9:i8x8 = abs v11", 64, 127},
		{"v8:i8x8 = shrs v12 1\nv9:i8x8 = abs v8", 1, 64},
		{"v9:i8x8 = avgs v10 v11", 28, 67}, // (-8+64+1)>>1, (7+127+1)>>1
		{"v9:u8x8 = avgu v2 v13", 32, 71},
		{"v9:i8x8 = mins v10 v11", -8, 7},
		{"v9:i8x8 = maxs v10 v11", 64, 127},
		{"v8:i16x8 = widen v10\nv9:i16x8 = addpairs v8 v14", -256, 254},
		{"v8:i16x8 = widen v10\nv9:i16x8 = addpairs v8 v8", -16, 14},
		{"v8:i16x8 = widen v11\nv9:i16x8 = addpairs v8 v8", 128, 254},
		{"v8:i32x4 = splat 100\nv7:i16x8 = widen v10\nv9:i32x4 = sum2 v8 v7", 84, 114},
		{"v8:i16x8 = widen v10\nv7:i32x8 = widen v8\nv9:i32x2 = redadd v7", -32, 28},
		{"v8:i16x8 = widen v10\nv7:i32x8 = widen v8\nv9:i32x1 = redadd v7", -64, 56},
		{"v8:i16x8 = widen v10\nv7:i32x8 = widen v8\nv9:i32x8 = redadd v7", -8, 7},

		// What parameters say stays known through words, and through folded arguments.
		{"v8:u32x4 = load sums+0\nv7:u32x4 = spread v8 1\nv9:i32x4 = bitcast v7", -300, 300},
		{"v8:u8x8 = half [act+0 u8x16] 1\nv9:i8x8 = bitcast v8", -100, 100},
		{"v8:u8x8 = half [in+0 u8x16] 1\nv9:i8x8 = bitcast v8", -128, 127},

		// Constants are exact, wrapped as they are, except the payload of a NaN that was computed.
		{"v7:i8x1 = splat 127\nv8:i8x1 = splat 1\nv9:i8x1 = add v7 v8", -128, -128},
		{"v7:i8x1 = splat -128\nv8:i8x1 = splat 1\nv9:i8x1 = sub v7 v8", 127, 127},
		{"v7:f32x1 = splat 1\nv8:f32x1 = add v7 v7\nv9:i32x1 = bitcast v8", math.MinInt32, math.MaxInt32},
	} {
		f := mustParse(t, rangePrelude+prelude+row.body)
		if err := Verify(f); err != nil {
			t.Errorf("%s: %v", row.body, err)
			continue
		}
		if have, want := Ranges(f)[9], (Range{row.lo, row.hi}); have != want {
			t.Errorf("%s: have %v, want %v", row.body, have, want)
		}
	}
}

// TestProductRanges has the factors whose products need more than 64 bits, and those that nearly do.
func TestProductRanges(t *testing.T) {
	u32, half := FullRange(u32), Range{0, math.MaxInt32}
	over := Range{0, math.MaxInt32 + 1}
	for _, c := range []struct{ r, s, want Range }{
		{u32, u32, anything},
		{u32, over, anything},
		{over, over, anything},
		{u32, half, Range{0, (1<<32 - 1) * math.MaxInt32}},
		{half, u32, Range{0, (1<<32 - 1) * math.MaxInt32}},
		{half, half, Range{0, math.MaxInt32 * math.MaxInt32}},
		{FullRange(i32), FullRange(i32), Range{-math.MaxInt32 << 31, 1 << 62}},
		{Range{-3, 5}, Range{-7, 2}, Range{-35, 21}},
		{Range{2, 5}, Range{-7, -2}, Range{-35, -4}},
	} {
		if have := c.r.mul(c.s); have != c.want {
			t.Errorf("%v times %v is %v, want %v", c.r, c.s, have, c.want)
		}
		if have := c.s.mul(c.r); have != c.want {
			t.Errorf("%v times %v is %v, want %v", c.s, c.r, have, c.want)
		}
	}
}
