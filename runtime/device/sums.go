package device

import (
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// sums are the dispatches of a sequence whose workgroups share sums. Each adds them up in a place of its own, as dispatches may run at once.
type sums struct {
	of    []*vulkan.Dispatch
	at    []int64 // where the place of each begins
	bytes int64
}

// add gives a dispatch some words for each workgroup of the dimensions before the parts.
func (s *sums) add(c *card, d *vulkan.Dispatch, words int, grid []int) {
	for i := range grid {
		words *= d.Groups[i]
	}
	s.of, s.at = append(s.of, d), append(s.at, s.bytes)
	unit := max(c.d.Limits.RangeAlignment, 4)
	s.bytes += (int64(4*words) + unit - 1) / unit * unit
}

// place gives the dispatches their places in a buffer, which it replaces by one of zeros if it is too small.
func (s *sums) place(c *card, b **vulkan.Buffer) error {
	if s.bytes == 0 {
		return nil
	}
	if *b == nil || (*b).Size() < s.bytes {
		if *b != nil {
			(*b).Free()
			*b = nil
		}
		var err error
		if *b, err = c.zeros(s.bytes); err != nil {
			return err
		}
	}
	for i, d := range s.of {
		end := s.bytes
		if i+1 < len(s.at) {
			end = s.at[i+1]
		}
		d.Buffers = append(d.Buffers, vulkan.Range{Buffer: *b, Offset: s.at[i], Size: end - s.at[i]})
	}
	return nil
}

// zeros makes a buffer of zeros.
func (c *card) zeros(bytes int64) (*vulkan.Buffer, error) {
	b, err := c.buffer(bytes)
	if err != nil {
		return nil, err
	}
	if err := zero(b); err != nil {
		b.Free()
		return nil, err
	}
	return b, nil
}

// zero makes the contents of a buffer zeros.
func zero(b *vulkan.Buffer) error {
	data := make([]byte, min(b.Size(), 1<<20))
	for at := int64(0); at < b.Size(); at += int64(len(data)) {
		if err := b.Upload(at, data[:min(int64(len(data)), b.Size()-at)]); err != nil {
			return err
		}
	}
	return nil
}
