//go:build !linux

package timing

func allocate(n int, huge bool) (Memory, error) { return heap(n), nil }

// Close returns the memory; nothing may use it afterwards.
func (m *Memory) Close() error {
	*m = Memory{}
	return nil
}
