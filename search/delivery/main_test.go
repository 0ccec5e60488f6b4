package delivery

import (
	"testing"

	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain makes this test its own worker.
func TestMain(m *testing.M) {
	session.Main()
	sparing.Run(m)
}
