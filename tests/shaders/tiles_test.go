package shaders

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
)

// tileText multiplies a tile that lanes have put into shared memory by one of a buffer, converts and scales the sums, by numbers
// of the rows and numbers of the columns, and stores both, the sums by columns. It has every other operation on tiles, too. R, C, D, E, S and B stand for the shape, and L for
// the lanes of a subgroup.
const tileText = `func tiles(a ptr align 16, b ptr align 16, c ptr align 16, scales ptr align 16, sums ptr align 16, out ptr align 16, near shared AB)
	loop l0 1 lane
		loop l1 L lane
			v0:u8xU = load a+0 l0*AB l1*U
			store near+0 l1*U v0
		end
		barrier
		v1:ExRxDa = loadrows near+0 by ROW
		v2:ExDxCb = loadcolumns b+0 l0*BB by ROW
		v3:SxRxCc = loadrows c+0 l0*CB by WIDE
		v4:SxRxCc = matmul v3 v1 v2
		storecolumns sums+0 l0*CB by TALL v4
		CONVERT
		v11:f16xRxCc = loadcolumns scales+0 by 0
		v12:f32xRxCc = cvthalf v11
		v13:f32xRxCc = canonnan v12
		v14:f32xRxCc = sub v13 v5
		storecolumns sums+CB l0*CB by TALL v14
		v15:f32xRxCc = splat 0
		v16:f32xRxCc = add v15 v14
		storerows out+CB l0*CB by WIDE v16
		v6:f32xRxCc = loadcolumns scales+0 by 0
		v7:f32xRxCc = loadrows scales+64 by 0
		v8:f32xRxCc = mul v6 v7
		v9:f32xRxCc = mul v5 v8
		v10:f32xRxCc = add v9 v6
		storerows out+0 l0*CB by WIDE v10
	end
`

func tileFunc(t *testing.T, s spirv.Shape, lanes int) *vir.Func {
	t.Helper()
	sum, convert := "i32", "v20:i32xRxCc = mul v4 v3\n\t\tv17:i32xRxCc = add v20 v3\n\t\tv18:i32xRxCc = splat -7\n\t\tv19:i32xRxCc = sub v17 v18\n\t\tv5:f32xRxCc = cvtf32 v19"
	if s.From == format.F16 {
		sum, convert = "f32", "v5:f32xRxCc = add v4 v4"
	}
	n := s.From.Bytes()
	text := tileText
	for _, x := range []struct {
		name string
		by   any
	}{{"CONVERT", convert}, {"ROW", n * s.Depth}, {"WIDE", 4 * s.Columns}, {"TALL", 4 * s.Rows}, {"AB", n * s.Rows * s.Depth}, {"BB", n * s.Depth * s.Columns}, {"CB", 4 * s.Rows * s.Columns},
		{"E", s.From}, {"R", s.Rows}, {"D", s.Depth}, {"C", s.Columns}, {"S", sum}, {"L", lanes}, {"U", n * s.Rows * s.Depth / lanes}} {
		text = strings.ReplaceAll(text, x.name, fmt.Sprint(x.by))
	}
	f, err := vir.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

// tileArgs are numbers that no rounding of a product depends on.
func tileArgs(s spirv.Shape) (args []vir.Arg) {
	rng := rand.New(rand.NewSource(3))
	numbers := func(n int, e format.DType) {
		var b []byte
		for range n {
			switch x := rng.Intn(255) - 127; e {
			case format.I8:
				b = append(b, byte(x))
			case format.F16:
				b = binary.LittleEndian.AppendUint16(b, format.HalfFromFloat32(float32(x)))
			case format.I32:
				b = binary.LittleEndian.AppendUint32(b, uint32(x*x*x))
			default:
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)/3))
			}
		}
		args = append(args, vir.Arg{Buf: b})
	}
	numbers(s.Rows*s.Depth, s.From)
	numbers(s.Depth*s.Columns, s.From)
	if s.From == format.F16 { // whole numbers
		numbers(0, format.I32)
		for i := range s.Rows * s.Columns {
			args[2].Buf = binary.LittleEndian.AppendUint32(args[2].Buf, math.Float32bits(float32(i*i)))
		}
	} else {
		numbers(s.Rows*s.Columns, format.I32)
	}
	numbers(32, format.F32)
	for range 2 {
		args = append(args, vir.Arg{Buf: make([]byte, 8*s.Rows*s.Columns)})
	}
	return args
}

// TestTiles runs products of cooperative matrices of every shape that the device has. Modules of the others are held against
// spirv-val.
func TestTiles(t *testing.T) {
	ran := 0
	for _, target := range Targets(true) {
		for _, s := range spirv.Shapes {
			t.Run(s.String(), func(t *testing.T) {
				if tiles(t, target, s) {
					ran++
				}
			})
		}
	}
	mustRun(t, ran)
}

// mustRun wants something to have run on the device if TMACC_TILES says that it has cooperative matrices.
func mustRun(t *testing.T, ran int) {
	t.Helper()
	if t.Logf("%d ran on %v", ran, Device(t)); ran == 0 && os.Getenv("TMACC_TILES") == "1" {
		t.Error("no product of cooperative matrices ran on the device")
	}
}

// tiles says whether the device has the shape.
func tiles(t *testing.T, target spirv.Target, s spirv.Shape) bool {
	d := Device(t)
	lanes := max(Controls(d).Subgroup, 8)
	f := tileFunc(t, s, lanes)
	sh := Compiled(t, target, f, spirv.Controls{Subgroup: lanes})
	if !slices.Equal(sh.Shapes, []spirv.Shape{s}) {
		t.Errorf("it needs %v", sh.Shapes)
	}
	Accepted(t, sh)
	want := tileArgs(s)
	if err := vir.Eval(f, want); err != nil {
		t.Fatal(err)
	}
	if !Runs(d, sh) {
		return false
	}
	have := tileArgs(s)
	if err := Run(d, Compiled(t, target, f, Controls(d)), f, have); err != nil {
		t.Fatal(err)
	}
	for i := range have {
		if !bytes.Equal(have[i].Buf, want[i].Buf) {
			t.Errorf("%s is %x, want %x", f.Params[i].Name, have[i].Buf, want[i].Buf)
		}
	}
	return true
}

// TestTileAlignment: rows of matrices begin where Vulkan allows it (VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986): at multiples of 16 bytes, or of
// their own length if that is less.
func TestTileAlignment(t *testing.T) {
	const text = "func tile(a ptr align ALIGN, out ptr align 16)\n\tloop l0 8 lane\n\tend\n\tv0:i8xSHAPEa = loadrows a+OFF by STEP\n\tstorerows out+0 by 32 v0\n"
	for _, c := range []struct {
		shape            string
		align, off, step int
		refused          string
	}{{"16x32", 16, 0, 32, ""}, {"16x32", 16, 16, 48, ""}, {"16x32", 8, 0, 32, "16"}, {"16x32", 16, 8, 32, "16"}, {"16x32", 16, 0, 36, "16"}, {"8x8", 16, 8, 24, ""}, {"8x8", 4, 0, 8, "8"}} {
		f, err := vir.Parse(strings.NewReplacer("ALIGN", fmt.Sprint(c.align), "SHAPE", c.shape, "OFF", fmt.Sprint(c.off), "STEP", fmt.Sprint(c.step)).Replace(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := lower.Select(t.Context(), Targets(true)[0], f)
		if err != nil {
			t.Fatal(err)
		}
		want := "rows of a matrix begin at multiples of " + c.refused + " bytes"
		if _, err := Targets(true)[0].Print(s, spirv.Controls{}); (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
