// Package models compares the bits of models' logits on all targets.
package models

import (
	"fmt"
	"os"
	"testing"

	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain lets the test be its own worker, with envChild its own child, and one that quantizes.
func TestMain(m *testing.M) {
	worker.Main()
	chosen.Share()
	if quantizes() {
		return
	}
	if os.Getenv(envChild) == "" {
		sparing.Run(m)
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
