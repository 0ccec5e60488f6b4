package operators

import (
	"testing"

	"github.com/tmacc/tmacc/gen"
)

// TestCommitted: package runtime/ops is what its definitions and traces make of it.
func TestCommitted(t *testing.T) {
	files, err := Package()
	if err != nil {
		t.Fatal(err)
	}
	names, err := gen.Differences("../../runtime/ops", files)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) > 0 {
		t.Errorf("run go generate ./runtime/ops: it changes %v", names)
	}
}
