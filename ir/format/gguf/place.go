package gguf

import (
	"cmp"
	"fmt"
	"slices"
)

// spot is a tensor among the others of its file.
type spot struct {
	*Tensor
	room int64   // bytes before the next tensor, or before the end of the file
	next *Tensor // nil of the last
}

// place makes the tensors' offsets absolute and gives each its size. header is what comes before the data.
//
//	| tensor | padding | tensor | padding | ...
//	 <----- room -----> a tensor whose type and shape take more or less than this is doubtful
//
// Tensors without values take no place, whatever their offsets are.
func (f *File) place(header, size int64) error {
	align := int64(f.Alignment)
	start := header + min((align-header%align)%align, size-header)
	spots, err := f.spots(size - start)
	if err != nil {
		return err
	}
	types := map[Type][]spot{}
	for _, s := range spots {
		types[s.Type] = append(types[s.Type], s)
	}
	meanings := map[Type]meaning{}
	for id, group := range types {
		meanings[id] = meaningOf(id, group, align)
	}
	for i := range spots {
		s := &spots[i]
		if err := s.settle(meanings[s.Type], align, size-start); err != nil {
			return err
		}
	}
	for i := range f.Tensors {
		f.Tensors[i].Offset += start
	}
	return nil
}

// spots are the tensors that have values, in the order of their offsets.
func (f *File) spots(data int64) ([]spot, error) {
	var spots []spot
	for i := range f.Tensors {
		if t := &f.Tensors[i]; t.shapeless || t.Elements() > 0 {
			spots = append(spots, spot{Tensor: t})
		} else {
			t.Offset, t.known = 0, t.Type.defined()
		}
	}
	slices.SortStableFunc(spots, func(a, b spot) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := range spots {
		s, end := &spots[i], data
		if s.Offset >= data {
			return nil, s.outside("bytes", data)
		}
		if i+1 < len(spots) {
			s.next = spots[i+1].Tensor
			end = s.next.Offset
		}
		s.room = end - s.Offset
	}
	return spots, nil
}

// outside is the error of a file that ends before its tensors do.
func (t *Tensor) outside(what string, data int64) error {
	return errorf(quote("tensor", t.Name), "%s at offset %d of the data lie outside the file, which has %d bytes of data: it was cut off or is damaged", what, t.Offset, data)
}

// fits reports whether size bytes and their padding fill the room of s.
func (s *spot) fits(size, align int64) bool { return size <= s.room && s.room-size < align }

// takes is the size that a type gives s, or the problem that it gives none.
func (s *spot) takes(i *typeInfo) (size int64, problem string) {
	row := 1
	if len(s.Shape) > 0 {
		row = s.Shape[0]
	}
	return i.size(s.Elements(), row)
}

// meaning is what a type id means in one file.
type meaning struct {
	known *typeInfo // nil if the type is unknown or in doubt
	doubt string    // why it is in doubt, or ""
}

// meaningOf compares the sizes that a type gives its tensors with their room.
func meaningOf(id Type, group []spot, align int64) meaning {
	defined := id.defined()
	var witness *spot
	if defined != nil {
		var ok bool
		if ok, witness = stands(defined, group, align); ok || witness == nil {
			return meaning{known: defined}
		}
	}
	fork := forkOf(id, group, align)
	if defined == nil {
		return meaning{known: fork}
	}
	size, _ := witness.takes(defined)
	if fork == nil && witness.next == nil && size > witness.room { // the file was cut off
		return meaning{known: defined}
	}
	return meaning{doubt: fmt.Sprintf("type id %d is not %s in this file: %s %s", id, defined.name, quote("tensor", witness.Name), witness.misfit(defined, fork, size))}
}

// forkOf is the only type of other programs that the tensors can have, or nil.
func forkOf(id Type, group []spot, align int64) (fork *typeInfo) {
	for _, row := range forks[id] {
		if ok, _ := stands(row, group, align); !ok {
			continue
		}
		if fork != nil {
			return nil
		}
		fork = row
	}
	return fork
}

// A tensor of at least telling times the alignment cannot hide in its padding that it is of another type.
const telling = 64

// stands reports whether tensors have the sizes of a type. One telling tensor that fits is enough. Without one, one of the largest
// must fit, because a small tensor with its padding may fit two types. The last tensor of the file does not speak against a type
// if there are others, because more than padding may follow it. witness is one of the largest, or nil if no shape suits the type.
func stands(i *typeInfo, group []spot, align int64) (ok bool, witness *spot) {
	most := int64(0)
	for n := range group {
		s := &group[n]
		size, problem := s.takes(i)
		if s.shapeless || problem != "" {
			continue
		}
		fits, large := s.fits(size, align), min(size, s.room)
		switch {
		case fits && size >= telling*align:
			return true, s
		case s.next == nil && len(group) > 1 || large < most:
			continue
		case witness == nil || large > most:
			most, ok, witness = large, false, s
		}
		ok = ok || fits
	}
	return ok, witness
}

// settle gives s its Size, or an Err. data are the bytes that the file has of tensors.
func (s *spot) settle(m meaning, align, data int64) error {
	if s.Offset%align != 0 {
		s.fail("offset %d is not a multiple of the alignment of %d", s.Offset, align)
	}
	s.Size = s.room
	if m.doubt != "" {
		s.fail("%s", m.doubt)
	}
	if m.known == nil || s.shapeless {
		s.apart(1)
		return nil
	}
	size, problem := s.takes(m.known)
	switch {
	case problem != "":
		s.fail("%s", problem)
		s.apart(1)
	case s.next == nil && size > s.room:
		return s.outside(fmt.Sprintf("%d bytes", size), data)
	case !s.fits(size, align):
		s.fail("%s", s.misfit(m.known, nil, size))
		s.apart(size)
	default:
		s.known, s.Size = m.known, size
	}
	return nil
}

// apart refuses s and the next tensor if s takes more than its room: one of them
// is elsewhere or has another size, and nothing says which one.
func (s *spot) apart(size int64) {
	if s.next != nil && size > s.room {
		s.fail("overlaps %s", quote("tensor", s.next.Name))
		s.next.fail("overlaps %s", quote("tensor", s.Name))
	}
}

// misfit says that s does not have the size that a type gives it, and that perhaps it is of another program's type.
func (s *spot) misfit(i, perhaps *typeInfo, size int64) string {
	before := "the end of the file"
	if s.next != nil {
		before = quote("tensor", s.next.Name).String()
	}
	so := "so it is something else, or the file is damaged"
	if perhaps != nil {
		so = fmt.Sprintf("as in %s, for which other programs use this id", perhaps.name)
	}
	return fmt.Sprintf("takes %d bytes as %s of shape %v, but %d lie before %s: %.4g bytes per value, %s",
		size, i.name, s.Shape, s.room, before, float64(s.room)/float64(s.Elements()), so)
}
