//go:build !unix

package llama

// fakeMain does nothing where processes have no extra files.
func fakeMain() {}
