package random

import (
	"os"
	"testing"

	"github.com/tmacc/tmacc/search/worker"
)

// TestMain lets the test be its own worker, in which kernels run.
func TestMain(m *testing.M) {
	worker.Main()
	os.Exit(m.Run())
}
