package gen_test

import (
	"testing"

	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain makes the tests take less CPU time.
func TestMain(m *testing.M) {
	chosen.Share()
	sparing.Run(m)
}
