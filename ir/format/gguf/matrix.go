package gguf

// Matrix is the content of matrix i of t, which is a stack of Matrices of equal size: what Bytes is of a tensor of one.
// It reads no others.
func (t *Tensor) Matrix(i int) ([]byte, error) {
	if t == nil {
		return t.Bytes()
	}
	n := t.Matrices()
	switch {
	case i < 0 || i >= n:
		return nil, errorf(quote("tensor", t.Name), "has no matrix %d: it has %d, from 0 to %d", i, n, n-1)
	case t.Size%int64(n) != 0:
		return nil, errorf(quote("tensor", t.Name), "has %d bytes, which are not %d matrices of equal size", t.Size, n)
	}
	one := *t
	one.Size = t.Size / int64(n)
	one.Offset += int64(i) * one.Size
	return one.Bytes()
}
