package cost_test

import (
	"testing"

	"github.com/tmacc/tmacc/tests/sparing"
)

func TestMain(m *testing.M) { sparing.Run(m) }
