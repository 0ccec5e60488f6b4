//go:build !unix

package cache

import "io/fs"

// checksModes says that modes of files tell who can write them. Elsewhere the user's cache directory is private by
// access lists, which new folders inherit.
const checksModes = false

func foreign(fs.FileInfo) string { return "" }
