package llama

import "encoding/binary"

// stretched makes a saved sequence of n positions of one with fewer: keys and values of the first ones come again and again, at
// new positions. It is nil if the state is not one of a plain cache whose values are stored as the keys are.
//
//	magic, sequence, streams 1, cells c | c times: position, sequences 1, sequence
//	0, layers | for each layer: type, bytes of a row, c rows of keys | for each layer: type, bytes of a row, c rows of values
func stretched(state []byte, n int) []byte {
	r := &reader{rest: state}
	head := r.take(8)
	streams, cells := r.uint32(), int(r.uint32())
	if streams != 1 || cells < 1 || cells > n {
		return nil
	}
	out := append(make([]byte, 0, int(int64(len(state))*int64(n)/int64(cells))), head...)
	out = binary.LittleEndian.AppendUint32(out, 1)
	out = binary.LittleEndian.AppendUint32(out, uint32(n))
	for i := range cells {
		position, sequences, sequence := r.uint32(), r.uint32(), r.uint32()
		if int(position) != i || sequences != 1 || sequence != 0 {
			return nil
		}
	}
	for i := range n {
		out = binary.LittleEndian.AppendUint32(out, uint32(i))
		out = binary.LittleEndian.AppendUint32(out, 1)
		out = binary.LittleEndian.AppendUint32(out, 0)
	}
	transposed, layers := r.uint32(), r.uint32()
	if transposed != 0 {
		return nil
	}
	out = binary.LittleEndian.AppendUint32(out, transposed)
	out = binary.LittleEndian.AppendUint32(out, layers)
	for range 2 * int64(layers) {
		if out = r.rows(out, cells, n); out == nil {
			return nil
		}
	}
	if r.short || len(r.rest) > 0 {
		return nil
	}
	return out
}

// reader reads a saved state. Behind its end everything is 0, and short is set.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, max(0, min(n, 16)))
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }

// rows appends the keys or values of one layer to out, n rows made of `cells` rows. It is nil if they are not there.
func (r *reader) rows(out []byte, cells, n int) []byte {
	head := r.take(12) // type, bytes of a row
	size := binary.LittleEndian.Uint64(head[4:])
	if r.short || size > uint64(len(r.rest))/uint64(cells) {
		return nil
	}
	out = append(out, head...)
	data := r.take(cells * int(size))
	for left := n * int(size); left > 0; {
		part := data[:min(left, len(data))]
		out, left = append(out, part...), left-len(part)
	}
	return out
}
