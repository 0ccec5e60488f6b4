// Package models compares the bits of models' logits on all targets.
package models

import (
	"fmt"
	"os"
	"testing"

	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain lets the test be its own worker, and with envChild its own child.
func TestMain(m *testing.M) {
	worker.Main()
	if os.Getenv(envChild) == "" {
		sparing.Run(m)
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
