package device

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// asked is what devices answered to roundsMatrices.
var asked sync.Map // *vulkan.Device to bool

// roundsMatrices asks d whether it rounds each sum and product of cooperative matrices of floats: it computes sums that simpler ones stand for
// in real numbers, and products that others could be fused with. No property of a device says it. It is false where nothing answers.
func roundsMatrices(d *vulkan.Device) bool {
	if x, ok := asked.Load(d); ok {
		return x.(bool)
	}
	found, rounds := false, true
	for i, s := range spirv.Shapes {
		same := func(x spirv.Shape) bool { return x.Rows == s.Rows && x.Columns == s.Columns && multiplies(d, x) }
		if multiplies(d, s) && !slices.ContainsFunc(spirv.Shapes[:i], same) {
			found, rounds = true, rounds && roundsSums(d, s)
		}
	}
	x, _ := asked.LoadOrStore(d, found && rounds)
	return x.(bool)
}

// multiplies says that d has a shape.
func multiplies(d *vulkan.Device, s spirv.Shape) bool {
	from, sum := "s8", "s32"
	if s.From == format.F16 {
		from, sum = "f16", "f32"
	}
	return slices.ContainsFunc(d.Cooperative, func(c vulkan.Cooperative) bool {
		return c.M == s.Rows && c.N == s.Columns && c.K == s.Depth && c.A == from && c.B == from && c.C == sum && c.Result == sum
	})
}

// rounding is float operations on four matrices, whose results depend on every rounding. FLOATS is their type, LANES a subgroup, ROW the bytes
// of a row, and SIZE the ones of a matrix.
const rounding = `func rounding(in ptr align 64, out ptr align 64)
	loop l0 LANES lane
	end
	v0:FLOATS = loadrows in+0 by ROW
	v1:FLOATS = loadrows in+SIZE1 by ROW
	v2:FLOATS = loadrows in+SIZE2 by ROW
	v3:FLOATS = loadrows in+SIZE3 by ROW
	v4:FLOATS = add v0 v1
	v5:FLOATS = sub v4 v0
	storerows out+0 by ROW v5
	v6:FLOATS = mul v0 v1
	v7:FLOATS = mul v0 v2
	v8:FLOATS = add v6 v7
	storerows out+SIZE1 by ROW v8
	v9:FLOATS = mul v2 v3
	v10:FLOATS = sub v6 v9
	storerows out+SIZE2 by ROW v10
	v11:FLOATS = mul v6 v3
	v12:FLOATS = add v11 v2
	storerows out+SIZE3 by ROW v12
`

// roundsSums computes rounding on d, for matrices of the sums of a shape.
func roundsSums(d *vulkan.Device, s spirv.Shape) bool {
	c := controls(d)
	c.Matrices = true
	have, want, err := rounded(d, s, c)
	return err == nil && bytes.Equal(have, want)
}

// rounded is what rounding leaves on d, by a shader that asks for c, and what it is by its definition.
func rounded(d *vulkan.Device, s spirv.Shape, c spirv.Controls) (have, want []byte, err error) {
	size := 4 * s.Rows * s.Columns
	f, err := vir.Parse(strings.NewReplacer("FLOATS", fmt.Sprintf("f32x%dx%dc", s.Rows, s.Columns), "LANES", fmt.Sprint(d.Subgroup.Size), "ROW", fmt.Sprint(4*s.Columns),
		"SIZE1", fmt.Sprint(size), "SIZE2", fmt.Sprint(2*size), "SIZE3", fmt.Sprint(3*size)).Replace(rounding))
	if err != nil {
		return nil, nil, err
	}
	var in []byte
	rng := rand.New(rand.NewPCG(1, 1))
	for range size { // four matrices
		in = binary.LittleEndian.AppendUint32(in, math.Float32bits(1+100*rng.Float32()))
	}
	want = make([]byte, len(in))
	if err := vir.Eval(f, []vir.Arg{{Buf: slices.Clone(in)}, {Buf: want}}); err != nil {
		return nil, nil, err
	}
	have, err = computed(d, f, c, in)
	return have, want, err
}

// computed is what a function of cooperative matrices makes of in on d. Its length is that of in.
func computed(d *vulkan.Device, f *vir.Func, c spirv.Controls, in []byte) ([]byte, error) {
	t, _ := spirv.ByName("spirv/coop")
	selected, err := lower.Select(context.Background(), t, f)
	if err != nil {
		return nil, err
	}
	sh, err := t.Print(selected, c)
	if err != nil {
		return nil, err
	}
	p, err := d.Pipeline(sh.Binary(), vulkan.Layout{Buffers: 2, PushBytes: 4 * len(sh.Params), Subgroup: sh.Subgroup, FullSubgroups: sh.Subgroup > 0})
	if err != nil {
		return nil, err
	}
	defer p.Free()
	var buffers []*vulkan.Buffer
	for range 2 {
		b, err := d.Buffer(int64(len(in)))
		if err != nil {
			return nil, err
		}
		defer b.Free()
		buffers = append(buffers, b)
	}
	if err := buffers[0].Upload(0, in); err != nil {
		return nil, err
	}
	if err := d.Run(p, [3]int{1, 1, 1}, buffers, make([]byte, 4*len(sh.Params))); err != nil {
		return nil, err
	}
	out := make([]byte, len(in))
	return out, buffers[1].Download(0, out)
}
