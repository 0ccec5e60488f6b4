package model

// SystemMemory is how many bytes of memory this process may still take, as Open compares with what a model takes. 0: the system does
// not say.
func SystemMemory() int64 { return systemMemory() }
