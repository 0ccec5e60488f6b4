package lower_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
)

// TestTooLarge: a function that expansions make far larger is refused.
func TestTooLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString("func k(x ptr, out ptr)\n\tv0:u8x32 = load x+0\n\tv1:u8x128 = load x+32\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "\tv%d:u8x32 = lookup128mod v%d v1\n", i+2, max(i+1, 2)*min(i, 1))
	}
	b.WriteString("\tstore out+0 v2001\n")
	f, err := vir.Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = lower.Compile(amd64.ByName("avx2"), f)
	var refused *nest.Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "repeat less code") {
		t.Errorf("%v", err)
	}
}
