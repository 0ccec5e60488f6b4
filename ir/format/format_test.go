package format

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name, canonical string
		per             Per
		scale           DType
		group           int
		zero            bool
	}{
		{"w4", "w4", PerRow, F32, 0, false},
		{"w4-row", "w4", PerRow, F32, 0, false},
		{"w4-f32", "w4", PerRow, F32, 0, false},
		{"w4-f16", "w4-row-f16", PerRow, F16, 0, false},
		{"w4-g32", "w4-g32", PerGroup, F16, 32, false},
		{"w4-g32-f16", "w4-g32", PerGroup, F16, 32, false},
		{"w4-g128-f32", "w4-g128-f32", PerGroup, F32, 128, false},
		{"w4-f32-g128", "w4-g128-f32", PerGroup, F32, 128, false},
		{"w4-g32-z", "w4-g32-z", PerGroup, F16, 32, true},
		{"w4-g32-f32-z", "w4-g32-f32-z", PerGroup, F32, 32, true},
		{"w2-tensor", "w2-tensor", PerTensor, F32, 0, false},
		{"w2-row-f16", "w2-row-f16", PerRow, F16, 0, false},
		{"ternary-tensor-f16", "ternary-tensor-f16", PerTensor, F16, 0, false},
		{"q4_0", "q4_0", PerGroup, F16, 32, false},
		{"q4_0-f32", "q4_0-g32-f32", PerGroup, F32, 32, false},
		{"q4_0-g32", "q4_0", PerGroup, F16, 32, false},
		{"q4_0-z", "q4_0-z", PerGroup, F16, 32, true},
		{"tq2_0-row", "tq2_0-row", PerRow, F32, 0, false},
		{"w4-g32-bf16", "w4-g32-bf16", PerGroup, BF16, 32, false},
		{"w4-g32-m", "w4-g32-m", PerGroup, F16, 32, false},
		{"w4-m-f32-g32", "w4-g32-f32-m", PerGroup, F32, 32, false},
		{"w4-g32-s256", "w4-g32-s256", PerGroup, U8, 32, false},
		{"w4-s256-u8-g32-m", "w4-g32-s256-m", PerGroup, U8, 32, false},
		{"w4-g16-s64-i8-z", "w4-g16-s64-i8-z", PerGroup, I8, 16, true},
		{"q4_0-s256", "q4_0-g32-s256", PerGroup, U8, 32, false},
		{"q4_0-s256-i8", "q4_0-g32-s256-i8", PerGroup, I8, 32, false},
	} {
		w, err := Lookup(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if w.String() != c.canonical || w.Name != c.canonical || w.Per != c.per || w.Scale != c.scale || w.Group != c.group || w.Zero != c.zero {
			t.Errorf("%s: got %s: %+v", c.name, w, w)
		}
		again, err := Lookup(w.String())
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Errorf("%s: Lookup(%s) = %+v, %v", c.name, w, again, err)
		}
	}
}

func TestLookupRefusals(t *testing.T) {
	for name, want := range map[string]string{
		"":                         `format: unknown format "": there are ` + strings.Join(Names(), " "),
		"w9":                       `format: unknown format "w9": there are ` + strings.Join(Names(), " ") + `; groups are written -g32`,
		"w4g32":                    `; did you mean w4-g32?`,
		"W2G64-z":                  `; did you mean w2-g64-z?`,
		"tenary":                   `; did you mean ternary?`,
		"tenary-g32":               `; did you mean ternary-g32?`,
		"tenary-G64-F32":           `; did you mean ternary-g64-f32?`,
		"tenary-x32":               `; did you mean ternary?`,
		"Q4_0":                     `; did you mean q4_0?`,
		"Q4_K_M":                   `; did you mean q4_k?`,
		"w4-":                      `unknown piece ""; there are tensor, row, gN (one scale per N weights), sN (of two levels, one per N), bN (an index of its codebook per N), f16, bf16, f32, i8, u8, z (zero points) and m (minimums)`,
		"w4-g":                     `unknown piece "g"`,
		"w4-g032":                  `unknown piece "g032"`,
		"w4-g-32":                  `unknown piece "g"`,
		"w4-g99999999999999999999": `unknown piece`,
		"w4-g40":                   `group is 40; it must be a multiple of 16, 16 to 65536`,
		"w4-g32-g64":               `piece "g64" repeats or contradicts an earlier one`,
		"w4-g32-row":               `piece "row" repeats or contradicts`,
		"w4-f16-f32":               `piece "f32" repeats or contradicts`,
		"w4-g32-z-z":               `piece "z" repeats`,
		"w4-z":                     `zero points need a scale per group; it is per row`,
		"w4-tensor-z":              `zero points need a scale per group; it is per tensor`,
		"w4-m":                     `minimums need a scale per group; it is per row`,
		"w4-s256":                  `super is 256, but the scale is per row; set per to group or leave super out`,
		"w4-g32-s80":               `super is 80; it must be a multiple of the group, up to 65536`,
		"w4-g32-s256-f16":          `scale is f16; with super it must be i8 or u8`,
		"w4-g32-u8":                `scale is u8; it must be f16, bf16 or f32, or with super i8 or u8`,
		"w4-g32-z-m":               `has both zero points and minimums`,
		"w4-g32-s256-s512":         `piece "s512" repeats or contradicts an earlier one`,
	} {
		wantError(t, name, want)(Lookup(name))
	}
}

func wantError(t *testing.T, name, want string) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v; want %s", name, err, want)
		}
	}
}

func TestRows(t *testing.T) {
	for _, name := range Names() {
		w, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if w.String() != name || w.Validate() != nil {
			t.Errorf("%s: prints as %s, %v", name, w, w.Validate())
		}
		base, step, affine := w.Affine()
		if affine && (base != w.MinLevel() || base+step*(len(w.Levels)-1) != w.MaxLevel()) {
			t.Errorf("%s: affine %d + %d*code, levels %d to %d", name, base, step, w.MinLevel(), w.MaxLevel())
		}
		w.Levels[0] = 7 // a copy: the table must not change
		if again, _ := Lookup(name); again.Levels[0] == 7 {
			t.Errorf("%s: Lookup shares its levels", name)
		}
	}
}

func TestAffine(t *testing.T) {
	for _, c := range []struct {
		levels     []int
		base, step int
		ok         bool
	}{{nil, 0, 0, false}, {[]int{-1, 1}, -1, 2, true}, {[]int{-1, 0, 1}, -1, 1, true}, {[]int{3, 4, 6}, 0, 0, false}, {[]int{1, 0}, 0, 0, false}, {[]int{2, 2}, 0, 0, false}} {
		if base, step, ok := (Weight{Levels: c.levels}).Affine(); base != c.base || step != c.step || ok != c.ok {
			t.Errorf("%v: %d %d %v", c.levels, base, step, ok)
		}
	}
}

func TestSymmetric(t *testing.T) {
	for _, c := range []struct {
		levels []int
		want   bool
	}{{[]int{-1, 1}, true}, {[]int{-1, 0, 1}, true}, {[]int{1, 0, -1}, true}, {[]int{-7, 2, -2, 7}, true}, {[]int{-2, -1, 0, 1}, false},
		{[]int{-1, 0, 1, 0}, false}, {[]int{-1, 1, 1}, false}} {
		if got := (Weight{Levels: c.levels}).Symmetric(); got != c.want {
			t.Errorf("%v: %v", c.levels, got)
		}
	}
}

func TestWeightRefusals(t *testing.T) {
	good := Weight{Name: "mine", Bits: 2, Levels: []int{-3, 0, 1, 5}, Bound: 2, Per: PerGroup, Scale: F16, Group: 48, Zero: true}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(*Weight){
		"has no name":                                         func(w *Weight) { w.Name = "" },
		"its name must be letters":                            func(w *Weight) { w.Name = "a\nb" },
		"bits is 0; it must be 1 to 8":                        func(w *Weight) { w.Bits = 0 },
		"bits is 9":                                           func(w *Weight) { w.Bits = 9 },
		"has 1 levels; 2 bits hold 2 to 4":                    func(w *Weight) { w.Levels = w.Levels[:1] },
		"has 5 levels; 2 bits hold 2 to 4":                    func(w *Weight) { w.Levels = make([]int, 5) },
		"level of code 1 is 128; it must be -128":             func(w *Weight) { w.Levels = []int{0, 128} },
		"nominal is NaN":                                      func(w *Weight) { w.Bound = math.NaN() },
		"nominal is 3;":                                       func(w *Weight) { w.Bound = 3 },
		"scale is i8; it must be f16, bf16 or f32":            func(w *Weight) { w.Scale = I8 },
		"group is 24; it must be a multiple of 16":            func(w *Weight) { w.Group = 24 },
		"has no group; of a scale per group it says":          func(w *Weight) { w.Group = 0 },
		"set per to group or leave group out":                 func(w *Weight) { w.Per, w.Zero = PerRow, false },
		"zero points need a scale per group":                  func(w *Weight) { w.Per, w.Group = PerRow, 0 },
		"has both zero points and minimums":                   func(w *Weight) { w.Min = true },
		"minimums need a scale per group":                     func(w *Weight) { w.Per, w.Group, w.Zero, w.Min = PerRow, 0, false, true },
		"with super it must be i8 or u8":                      func(w *Weight) { w.Super = 96 },
		"super is 64; it must be a multiple of":               func(w *Weight) { w.Super, w.Scale = 64, U8 },
		"super is -48":                                        func(w *Weight) { w.Super, w.Scale = -48, U8 },
		"per is 7":                                            func(w *Weight) { w.Per = 7 },
		"books is 1; it must be 2 to 16":                      func(w *Weight) { w.Books, w.BookGroup = 1, 16 },
		"books is 17":                                         func(w *Weight) { w.Books, w.BookGroup = 17, 16 },
		"bits is 5; with several books it must be":            func(w *Weight) { w.Bits, w.Books, w.BookGroup = 5, 2, 16 },
		"has 4 levels, which are not 3 books of":              func(w *Weight) { w.Books, w.BookGroup = 3, 16 },
		"level of code 1 of book 1 is 300":                    func(w *Weight) { w.Levels, w.Books, w.BookGroup = []int{0, 1, 2, 300}, 2, 16 },
		"book_group is 16, but there is one book":             func(w *Weight) { w.BookGroup = 16 },
		"book_group is 24; it must be a multiple":             func(w *Weight) { w.Books, w.BookGroup = 2, 24 },
		"book_group is 32; it must divide the group":          func(w *Weight) { w.Books, w.BookGroup = 2, 32 },
		"w4 is a built-in format with other levels":           func(w *Weight) { w.Name = "w4-own" },
		"has the fields of the built-in format w3-g48-z; use": func(w *Weight) { w.Name, w.Bits, w.Levels, w.Bound = "w3-own", 3, UpFrom(-4, 8), 3 },
	} {
		w := good
		edit(&w)
		wantError(t, want, want)(nil, w.Validate())
	}
}

func TestWeightJSON(t *testing.T) {
	for _, name := range append(Names(), "w4-g32-z", "w2-tensor", "w3-row-f16", "w4-g32-s256-i8", "w2-g16-s256-m", "w4-g32-bf16-m", "cb4x16-g64-b16") {
		w, _ := Lookup(name)
		text, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		var back, named Weight
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, w) {
			t.Errorf("%s: %s: %+v, %v", name, text, back, err)
		}
		if err := json.Unmarshal([]byte(`"`+name+`"`), &named); err != nil || !reflect.DeepEqual(named, w) {
			t.Errorf("%s by name: %+v, %v", name, named, err)
		}
	}
	var own Weight
	text := `{"name":"fp4","bits":4,"levels":[0,1,2,3,4,6,8,12,0,-1,-2,-3,-4,-6,-8,-12],"per":"group","group":32,"scale":"f16"}`
	if err := json.Unmarshal([]byte(text), &own); err != nil || own.MaxLevel() != 12 || own.MinLevel() != -12 || own.Per != PerGroup {
		t.Errorf("own format: %+v, %v", own, err)
	}
	for text, want := range map[string]string{
		`{"name":"x","bitz":4}`:      `unknown field "bitz"; there are name, bits, levels, nominal, per, `,
		`{"name":"x","Bits":4}`:      `unknown field "Bits"; there are name, bits, levels, `,
		`{"bits":4,"bits":2}`:        `field "bits" is there twice`,
		`{"name":"x","bits":2.5}`:    `weight: bits is JSON number 2.5; want an integer`,
		`{"name":"x","levels":3}`:    `weight: levels is JSON number; want a list`,
		`{"name":"x","zero":"yes"}`:  `weight: zero is JSON string; want true or false`,
		`{"name":"x","nominal":[1]}`: `weight: nominal is JSON array; want a number`,
		`[1]`:                        `weight: JSON array; want an object with the fields name, `,
		`{"name":3}`:                 `weight: name is JSON number; want a text`,
		`{"name":"x","bits":1,"levels":[-1,1],"per":"row"}`:   `weight "x": has no scale; give it one of f16, bf16 or f32`,
		`{"name":"x","scale":"f64"}`:                          `format: weight: type "f64": unknown`,
		`{"name":"x","per":"col"}`:                            `format: weight: per "col": unknown; a scale is per tensor, row or group`,
		`{"name":"x","bits":4}`:                               `has 0 levels`,
		`{"name":"x","bits":1,"levels":[-1,1],"scale":"f32"}`: `weight "x": has no per; a scale is per tensor, row or group`,
		`"w99"`: `unknown format "w99"`,
		`null`:  `has no name`,
	} {
		var w Weight
		wantError(t, text, want)(nil, w.UnmarshalJSON([]byte(text)))
	}
}

func TestHalf(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := HalfToFloat32(h)
		// The definition: sign, five exponent bits, ten fraction bits.
		exp, frac := int(h>>10&31), float64(h&1023)
		want := math.Ldexp(1024+frac, exp-25)
		if exp == 0 {
			want = math.Ldexp(frac, -24)
		}
		if h>>15 == 1 {
			want = -want
		}
		switch {
		case exp < 31 && (float64(f) != want || math.Signbit(float64(f)) != (h>>15 == 1)):
			t.Fatalf("%04x is %v, want %v", h, f, want)
		case exp == 31 && frac == 0 && !math.IsInf(float64(f), 1-2*int(h>>15)):
			t.Fatalf("%04x is %v", h, f)
		case exp == 31 && frac != 0 && !math.IsNaN(float64(f)):
			t.Fatalf("%04x is %v", h, f)
		}
		back := h
		if exp == 31 && frac != 0 {
			back |= 0x200 // NaNs become quiet
		}
		if got := HalfFromFloat32(f); got != back {
			t.Fatalf("%04x -> %v -> %04x", h, f, got)
		}
		if exp == 31 || h>>15 == 1 {
			continue
		}
		// Between h and its successor: below, at and above the middle, both signs.
		next := float64(HalfToFloat32(h + 1))
		if h+1 == 0x7c00 {
			next = 65536
		}
		mid := float32((float64(f) + next) / 2) // exact: 12 bits
		even := h + h&1
		for _, c := range []struct {
			f    float32
			want uint16
		}{{math.Nextafter32(mid, 0), h}, {mid, even}, {math.Nextafter32(mid, 1e9), h + 1}, {math.Nextafter32(f, 1e9), h}} {
			if got := HalfFromFloat32(c.f); got != c.want {
				t.Fatalf("%v -> %04x, want %04x", c.f, got, c.want)
			}
			if got := HalfFromFloat32(-c.f); got != c.want|0x8000 {
				t.Fatalf("%v -> %04x, want %04x", -c.f, got, c.want|0x8000)
			}
		}
	}
	for f, want := range map[float32]uint16{65519.996: 0x7bff, 65520: 0x7c00, math.MaxFloat32: 0x7c00, math.SmallestNonzeroFloat32: 0, 1e-10: 0, 0x1p-25: 0, 0x1.000002p-25: 1} {
		if got := HalfFromFloat32(f); got != want {
			t.Errorf("%v -> %04x, want %04x", f, got, want)
		}
	}
}

func TestDequantize(t *testing.T) {
	w, _ := Lookup("w4-g32-f32-z")
	codes := make([]byte, 64)
	for i := range codes {
		codes[i] = byte(i % 16)
	}
	dst := make([]float32, 64)
	row := Source{Codes: codes, Scales: []float32{0.1, -3}, Zeros: []int8{-128, 5}}
	if err := w.Dequantize(dst, row); err != nil {
		t.Fatal(err)
	}
	for i, v := range dst {
		scale, zero := float32(0.1), -128
		if i >= 32 {
			scale, zero = -3, 5
		}
		if want := scale * float32(i%16-8-zero); v != want {
			t.Errorf("%d: %v, want %v", i, v, want)
		}
	}
	ternary, _ := Lookup("ternary")
	wantError(t, "code", "row 0, column 1: code 3 is forbidden")(nil, ternary.Dequantize(dst[:2], Source{Codes: []byte{0, 3}, Scales: []float32{1}}))
	wantError(t, "dst", "argument codes: has 64 elements; a 1 by 32 matrix has 32")(nil, w.Dequantize(dst[:32], row))
}

// Formats with minimums and two levels have ggml's values: products
// and differences of f32.
func TestScaling(t *testing.T) {
	for _, c := range []struct {
		name string
		src  Source // of one row of 64, codes 0 to 15
		want func(i, q int) float32
	}{
		{"w4-g32-m", Source{Scales: []float32{0.333251953125, -3}, Mins: []float32{-0.0999755859375, 7.5}}, func(i, q int) float32 {
			d, m := []float32{0.333251953125, -3}[i/32], []float32{0.0999755859375, -7.5}[i/32]
			return float32(float32(d*float32(q-8)) + m)
		}},
		{"w4-g32-s64-m", Source{Scales: []float32{63, 0}, Mins: []float32{5, 255}, Supers: []float32{0.333251953125}, SuperMins: []float32{-0.0999755859375}}, func(i, q int) float32 {
			return float32(float32(float32(0.333251953125*[]float32{63, 0}[i/32])*float32(q-8)) - float32(-0.0999755859375*[]float32{5, 255}[i/32]))
		}},
		{"w4-g32-s64-i8", Source{Scales: []float32{-128, 127}, Supers: []float32{65504}}, func(i, q int) float32 {
			return float32(float32(65504*[]float32{-128, 127}[i/32]) * float32(q-8))
		}},
		{"w4-g64-bf16", Source{Scales: []float32{0x1p-128}}, func(i, q int) float32 { return 0x1p-128 * float32(q-8) }},
	} {
		w, dst := lookup(t, c.name), make([]float32, 64)
		for i := range dst {
			c.src.Codes = append(c.src.Codes, byte(i%16))
		}
		if err := w.Dequantize(dst, c.src); err != nil {
			t.Fatal(err)
		}
		for i, v := range dst {
			if want := c.want(i, i%16); math.Float32bits(v) != math.Float32bits(want) {
				t.Errorf("%s: %d is %v, want %v", c.name, i, v, want)
			}
		}
	}
}

// What a type holds, Put and Get keep; Round finds the nearest of it.
func TestDTypes(t *testing.T) {
	for d, values := range map[DType][]float32{
		U8: {0, 1, 127, 128, 255}, I8: {-128, -1, 0, 127}, F16: {0.333251953125, 0x1p-24, -65504},
		BF16: {1, -0x1.02p-126, 0x1p-133, 0x1.fep127}, F32: {0.1, -math.MaxFloat32, math.SmallestNonzeroFloat32},
	} {
		for _, v := range values {
			var b [4]byte
			d.Put(b[:], v)
			if got := d.Get(b[:]); got != v || !d.holds(v) || d.Round(v) != v {
				t.Errorf("%s: %v became %v, rounded %v", d, v, got, d.Round(v))
			}
		}
	}
	for _, c := range []struct {
		d    DType
		v, w float32
	}{
		{U8, 2.5, 2}, {U8, -7, 0}, {U8, 300, 255}, {I8, -129, -128}, {I8, 3.5, 4}, {F16, 0.1, 0.0999755859375},
		{BF16, 1 + 0x1p-8, 1}, {BF16, 1 + 0x3p-8, 1 + 0x1p-6}, {BF16, -1 - 0x1.8p-8, -1 - 0x1p-7}, {F32, 0.1, 0.1},
	} {
		if got := c.d.Round(c.v); got != c.w || c.v != c.w && c.d.holds(c.v) {
			t.Errorf("%s: %v rounds to %v, want %v", c.d, c.v, got, c.w)
		}
	}
	if negative := float32(math.Copysign(0, -1)); U8.holds(negative) || I8.holds(negative) || !BF16.holds(negative) {
		t.Error("integers have a negative zero, or bf16 has none")
	}
}

// Whatever decodes is valid, and encodes to something that decodes to the same.
func FuzzWeightJSON(f *testing.F) {
	for _, name := range Names() {
		w, _ := Lookup(name)
		text, _ := json.Marshal(w)
		f.Add(text)
	}
	f.Add([]byte(`"w4-g32-z"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var w, again Weight
		if json.Unmarshal(text, &w) != nil {
			return
		}
		if err := w.Validate(); err != nil {
			t.Fatalf("decoded, but %v", err)
		}
		back, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(back, &again); err != nil || !reflect.DeepEqual(w, again) {
			t.Fatalf("%s: %+v and %+v, %v", back, w, again, err)
		}
	})
}

// FirstForbidden finds the first of any length and place, for any number of levels.
func TestFirstForbidden(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 2; n <= 256; n++ {
		w := Weight{Bits: 8, Levels: make([]int, n)}
		for range 20 {
			codes := make([]byte, rng.IntN(40))
			for i := range codes {
				codes[i] = byte(rng.IntN(n))
			}
			if got := w.FirstForbidden(codes); got != -1 {
				t.Fatalf("%d levels, %v: %d", n, codes, got)
			}
			if len(codes) == 0 || n == 256 {
				continue
			}
			at := rng.IntN(len(codes))
			codes[at] = byte(n + rng.IntN(256-n))
			codes[at+rng.IntN(len(codes)-at)] |= codes[at]
			if got := w.FirstForbidden(codes); got != at {
				t.Fatalf("%d levels, %v: %d, want %d", n, codes, got, at)
			}
		}
	}
}
