//go:build amd64 || arm64

package runtime

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/abi"
)

// Assembly of generated packages, for the CPUs above, has the places of parameters built in: if they change, so must abi.Version.
func TestABI(t *testing.T) {
	places := func(args any) string {
		var b strings.Builder
		for typ, i := reflect.TypeOf(args), 0; i < typ.NumField(); i++ {
			fmt.Fprintf(&b, "%s %d ", typ.Field(i).Name, typ.Field(i).Offset)
		}
		return b.String()
	}
	have := fmt.Sprint(abi.Version, ": ", places(abi.GemmArgs{}), "; ", places(abi.PrepareArgs{}))
	const want = "8: Out 0 OutStep 8 Weights 16 Act 72 Sums 80 ActScale 88 Residual 96 Offsets 104 List 112 ListCount 120 Tiles 128 TileBytes 136 OutBytes 144 SideBytes 152 SideOut 160 Count 168 Scratch 176 ; " +
		"X 0 Act 8 Sums 16 ActScale 24 Amax 32 Finite 40 Inv 48 Wide 56 Table 64 Pair 72 Residual 80 Offsets 88 Span 96 Excess 104 Next 112 TableStep 120 Count 128 "
	if have != want {
		t.Errorf("count up abi.Version, then write here\n%s", have)
	}
	s := fakeSpec(t, "w1", 0, 8, 64, []int{1})
	s.Variants[0].ABI--
	if err := s.check(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("was generated for version %d of the runtime's interface, this is version %d", abi.Version-1, abi.Version)) {
		t.Errorf("%v: assembly of another version must be refused", err)
	}
}
