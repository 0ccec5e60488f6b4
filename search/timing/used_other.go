//go:build !unix

package timing

import "time"

// ProcessTime is 0: this system does not say.
func ProcessTime() time.Duration { return 0 }
