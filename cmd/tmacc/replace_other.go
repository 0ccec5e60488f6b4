//go:build !unix

package main

import "errors"

// replace turns this process into another program, where the system can do that.
func replace(string, []string) error { return errors.ErrUnsupported }
