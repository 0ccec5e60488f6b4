//go:build !linux

package timing

import "time"

func threadTime() (used time.Duration, known bool) { return 0, false }

// Spread leaves threads where the system puts them.
func Spread() (restore func()) { return func() {} }
