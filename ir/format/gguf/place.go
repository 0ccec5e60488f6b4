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
//	 <----- room -----> a type and a shape that take other than this are doubtful
//
// Tensors without values are nowhere, whatever their offset is.
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

// outside says that a file ends too early: its header cannot be believed, or the rest of it is missing.
func (t *Tensor) outside(what string, data int64) error {
	return errorf(quote("tensor", t.Name), "%s at offset %d of the data lie outside the file, which has %d bytes of data: it was cut off or is damaged", what, t.Offset, data)
}

// fits is whether so many bytes with their padding fill the room of s.
func (s *spot) fits(size, align int64) bool { return size <= s.room && s.room-size < align }

// takes is what s takes by a type, or a problem.
func (s *spot) takes(i *typeInfo) (size int64, problem string) {
	row := 1
	if len(s.Shape) > 0 {
		row = s.Shape[0]
	}
	return i.size(s.Elements(), row)
}

// meaning is what the tensors of a file mean by a type id.
type meaning struct {
	known *typeInfo // nil if it is unknown or in doubt
	doubt string    // why it is in doubt, or ""
}

// meaningOf holds a type to the room of its tensors.
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
	switch {
	case defined == nil:
		return meaning{known: fork}
	case fork == nil && witness.next == nil && witness.cut(defined):
		return meaning{known: defined}
	}
	size, _ := witness.takes(defined)
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

// stands is whether tensors have the sizes of a type: the largest of them, or one of several, which tells best,
// because a small one with its padding may fit two types. The last tensor of the file has no say if there are
// others, because more than padding may follow it. witness is one of the largest, nil if the shapes fit none.
func stands(i *typeInfo, group []spot, align int64) (ok bool, witness *spot) {
	most := int64(-1)
	for n := range group {
		s := &group[n]
		size, problem := s.takes(i)
		if s.shapeless || problem != "" || s.next == nil && len(group) > 1 || size < most {
			continue
		}
		if size > most {
			most, ok, witness = size, false, s
		}
		ok = ok || s.fits(size, align)
	}
	return ok, witness
}

// cut is whether the file ends within s.
func (s *spot) cut(i *typeInfo) bool {
	size, problem := s.takes(i)
	return problem == "" && size > s.room
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
	switch fits := s.fits(size, align); {
	case problem != "":
		s.fail("%s", problem)
		s.apart(1)
	case s.next == nil && size > s.room, fits && size > data-s.Offset:
		return s.outside(fmt.Sprintf("%d bytes", size), data)
	case !fits:
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

// misfit says that s takes another number of bytes by a type than it has, perhaps by that of another program.
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
