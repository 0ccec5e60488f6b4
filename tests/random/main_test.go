package random

import (
	"testing"

	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/shaders"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain lets the test be its own worker, in which kernels run.
func TestMain(m *testing.M) {
	shaders.Quick()
	worker.Main()
	sparing.Run(m)
}
