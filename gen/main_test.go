package gen

import (
	"testing"

	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain makes the tests take less CPU time.
func TestMain(m *testing.M) { sparing.Run(m) }
