package session

import (
	"testing"

	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain makes this test its own worker.
func TestMain(m *testing.M) {
	Main()
	chosen.Share()
	sparing.Run(m)
}
