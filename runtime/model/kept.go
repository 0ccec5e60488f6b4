package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/ops"
)

// Packed keeps the matrices of models as products want them, so that later processes map them. It identifies them by a text that says
// which file they are of, and how they are packed.
type Packed interface {
	// Load maps what was saved for an identity in parts of these sizes, in bytes; parts is nil if that is not possible. Parts are read-only, begin
	// at multiples of 64 bytes and hold until close is called.
	Load(identity []byte, sizes []int64) (parts [][]byte, close func() error)
	// Save keeps parts of these sizes and maps them. It calls fill for each of them in turn, which gives memory that holds until the next
	// call. parts is nil if that is not possible, or if fill failed.
	Save(identity []byte, sizes []int64, fill func(i int) ([]byte, error)) (parts [][]byte, close func() error)
}

// packing is the version of kept matrices: it has to grow when other bytes are made of the same file for products with the same PackedID.
const packing = 2

// identity says what the matrices of a model are made of, and how. It is nil if the file is not one that is known again.
func (l *loader) identity() ([]byte, error) {
	file, err := l.f.Identity()
	if file == "" || err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "packed weights %d, panels of %d\n%s", packing, ops.Panel, file)
	for _, x := range l.matrices() {
		fmt.Fprintf(&text, "%s of %q from %d %s as %s %d %d %t", layerName(x.layer, x.role), x.tensor.Name, x.first, x.tensor.TypeName(), x.typeName, x.m, x.k, x.role.rotated() && l.row.adjacent)
		if x.p != nil {
			fmt.Fprintf(&text, " %s", x.p.PackedID())
		}
		fmt.Fprintln(&text)
	}
	return []byte(text.String()), nil
}

// matrices are the plans of matrices.
func (l *loader) matrices() (all []*plan) {
	for i := range l.plans {
		if x := &l.plans[i]; x.role.matrix() {
			all = append(all, x)
		}
	}
	return all
}

// kept is all matrices from where they are kept, or where they are put now. It is nil if they are not kept.
func (l *loader) kept() ([]*matrix, func() error, error) {
	if l.packed == nil || l.float {
		return nil, nil, nil
	}
	identity, err := l.identity()
	if identity == nil || err != nil {
		return nil, nil, err
	}
	all := l.matrices()
	sizes := make([]int64, len(all))
	for i, x := range all {
		sizes[i] = x.bytes
	}
	if parts, free := l.packed.Load(identity, sizes); parts != nil {
		out, err := wrapAll(all, parts)
		if err == nil {
			l.advance(l.total())
			return out, free, nil
		}
		free() // and they are packed again
	}
	return l.save(identity, all, sizes)
}

// wrapAll is the matrices of all parts.
func wrapAll(all []*plan, parts [][]byte) ([]*matrix, error) {
	out := make([]*matrix, len(all))
	for i, x := range all {
		var err error
		if out[i], err = x.wrap(parts[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// save makes all matrices, one after the other in the same memory, and keeps them.
func (l *loader) save(identity []byte, all []*plan, sizes []int64) ([]*matrix, func() error, error) {
	var failed error
	memory, err := runtime.NewBuffer(int(slices.Max(sizes)))
	if err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	defer memory.Close()
	parts, free := l.packed.Save(identity, sizes, func(i int) ([]byte, error) {
		to := memory.Bytes()[:sizes[i]]
		if failed = l.fill(all[i], to); failed == nil {
			l.advance(sizes[i])
		}
		if failed == nil && i == len(all)-1 {
			failed = l.f.Unchanged()
		}
		return to, failed
	})
	if parts == nil {
		l.done = 0
		return nil, nil, failed
	}
	out, err := wrapAll(all, parts)
	if err != nil {
		free()
	}
	return out, free, err
}

// total is the bytes of all plans.
func (l *loader) total() (n int64) {
	for i := range l.plans {
		n += l.plans[i].bytes
	}
	return n
}

// advance reports that n more bytes are done.
func (l *loader) advance(n int64) {
	if l.done += n; l.progress != nil {
		l.progress(min(l.done, l.total()), l.total())
	}
}
