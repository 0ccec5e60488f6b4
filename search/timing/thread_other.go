//go:build !linux

package timing

import "time"

const hasThreadTime = false

func threadTime() time.Duration { return 0 }

// Spread leaves threads where the system puts them.
func Spread() (restore func()) { return func() {} }
