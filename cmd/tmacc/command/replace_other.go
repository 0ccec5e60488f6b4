//go:build !unix

package command

import "errors"

// replace turns this process into another program, where the system can do that.
func replace(string, []string) error { return errors.ErrUnsupported }
