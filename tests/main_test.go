package tests

import (
	"testing"

	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain lets the test be its own worker, in which kernels run.
func TestMain(m *testing.M) {
	worker.Main()
	chosen.Share()
	sparing.Run(m)
}
