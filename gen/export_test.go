package gen

// OnStep sets a function that is called before each change that Write and Complete make to the
// file system.
func OnStep(f func()) { step = f }
