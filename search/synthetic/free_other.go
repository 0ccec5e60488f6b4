//go:build !(linux || darwin)

package synthetic

// freeBytes is not known on this system.
func freeBytes(string) (n int64, known bool) { return 0, false }
