package amd64

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/search/worker"
)

// TestSignedBytesAreNotAveragedAsUnsigned: VPAVGB averages numbers without signs. Bytes with signs, all pairs of
// them, are turned into such before, and back after: without that the average of -1 and 1
// would be -128. TestX86NeverAveragesSignedBytesAsUnsigned in tests has whole products.
func TestSignedBytesAreNotAveragedAsUnsigned(t *testing.T) {
	const text = "func f(x ptr, y ptr, out ptr, n int)\n\tloop l0 n\n\t\tv0:i8x32 = load x+0 l0*32\n\t\tv1:i8x32 = load y+0 l0*32\n" +
		"\t\tv2:i8x32 = avgs v0 v1\n\t\tstore out+0 l0*32 v2\n\tend\n"
	x, y := make([]byte, 1<<16), make([]byte, 1<<16)
	for i := range x {
		x[i], y[i] = byte(i), byte(i>>8)
	}
	for _, target := range Targets() {
		_, k := compiled(t, target, text)
		if have := strings.Join(instrs(k), " "); have != "VPXOR VPXOR VPAVGB VPXOR" && have != "VPXOR(mem) VPXOR(mem) VPAVGB VPXOR" &&
			have != "VPXORD(mem) VPXORD(mem) VPAVGB VPXORD" {
			t.Errorf("%s: %s", target.Machine().Name, have)
		}
		t.Run(target.Machine().Name, func(t *testing.T) {
			target := onThisCPU(t, target)
			_, k := compiled(t, target, text)
			out := make([]byte, 1<<16)
			if err := worker.Run(target, k, []vir.Arg{{Buf: x}, {Buf: y}, {Buf: out}, {Int: 1 << 16 / 32}}); err != nil {
				t.Fatal(err)
			}
			for i := range out {
				if a, b := int(int8(x[i])), int(int8(y[i])); int(int8(out[i])) != (a+b+1)>>1 {
					t.Fatalf("the average of %d and %d is %d", a, b, int8(out[i]))
				}
			}
		})
	}
}
