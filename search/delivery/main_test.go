package delivery

import (
	"testing"

	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain makes this test its own worker, also on a device.
func TestMain(m *testing.M) {
	worker.ServeDevice(&device.Server{})
	session.Main()
	chosen.Share()
	sparing.Run(m)
}
