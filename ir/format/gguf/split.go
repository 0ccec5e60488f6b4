package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// The keys of the parts of a model, as llama.cpp's gguf-split writes them.
const (
	keyNo      = "split.no"
	keyCount   = "split.count"
	keyTensors = "split.tensors.count"
)

// split says which part of a model a file is.
type split struct {
	no, count int // which part, from 0, of how many; of a whole model count is below 2
	tensors   int // in all parts
}

// maxParts is what the 16 bits of split.count hold.
const maxParts = 1<<16 - 1

// split is what f says of itself.
func (f *File) split() (s split, err error) {
	s.tensors = len(f.Tensors)
	for _, x := range []struct {
		key  string
		into *int
	}{{keyCount, &s.count}, {keyNo, &s.no}, {keyTensors, &s.tensors}} {
		if _, given := f.keys[x.key]; !given && s.count < 2 {
			continue
		}
		if *x.into, err = f.Int(x.key); err != nil {
			return s, err
		}
	}
	switch {
	case s.count < 0 || s.count > maxParts:
		return s, errorf(quote("key", keyCount), "is %d; a model has at most %d parts", s.count, maxParts)
	case s.count >= 2 && (s.no < 0 || s.no >= s.count):
		return s, errorf(quote("key", keyNo), "is %d; the %d parts of a model count from 0", s.no, s.count)
	}
	return s, nil
}

// complete refuses a model that has other numbers of tensors than it says.
func (f *File) complete(s split) error {
	if s.tensors != len(f.Tensors) {
		return errorf(quote("key", keyTensors), "is %d, but there are %d tensors", s.tensors, len(f.Tensors))
	}
	return nil
}

// openParts opens all parts of a model by one of them, which is called path and says s of itself.
func openParts(path string, s split) (*File, error) {
	prefix, ok := strings.CutSuffix(path, partSuffix(s.no, s.count))
	if !ok {
		return nil, errorf(quote("file", filepath.Base(path)), "is part %d of %d of a model; to find the others, its name must end in %s", s.no+1, s.count, partSuffix(s.no, s.count))
	}
	whole, err := openPart(prefix, split{0, s.count, s.tensors})
	if err != nil {
		return nil, err
	}
	for no := 1; no < s.count && err == nil; no++ {
		var part *File
		if part, err = openPart(prefix, split{no, s.count, s.tensors}); err == nil {
			err = whole.add(part)
		}
	}
	if err == nil {
		err = whole.complete(s)
	}
	if err != nil {
		whole.Close()
		return nil, err
	}
	return whole, nil
}

// partSuffix is how the name of a part's file ends.
func partSuffix(no, count int) string { return fmt.Sprintf("-%05d-of-%05d.gguf", no+1, count) }

// openPart opens the file of a part, which must be what its name and the other parts say.
func openPart(prefix string, want split) (*File, error) {
	path := prefix + partSuffix(want.no, want.count)
	f, err := openOne(path)
	if err != nil {
		return nil, ofPart(path, err)
	}
	s, err := f.split()
	if err == nil && s != want {
		err = errorf(section("metadata"), "is of part %d of %d, with %d tensors in all; want part %d of %d, with %d", s.no+1, s.count, s.tensors, want.no+1, want.count, want.tensors)
	}
	if err != nil {
		f.Close()
		return nil, ofPart(path, err)
	}
	return f, nil
}

// add adds the tensors of the next part. A tensor that is in two parts is doubtful in both.
func (f *File) add(part *File) error {
	f.files, f.Paths = append(f.files, part.files...), append(f.Paths, part.Paths...)
	if len(f.Tensors)+len(part.Tensors) > maxTensors {
		return errorf(section("number of tensors"), "is %d in all parts; the limit of this reader is %d", len(f.Tensors)+len(part.Tensors), maxTensors)
	}
	before := len(f.Tensors)
	f.Tensors = append(f.Tensors, part.Tensors...)
	for name, i := range part.byName {
		first, twice := f.byName[name]
		switch {
		case !twice:
			f.byName[name] = before + i
		case name != "": // as tensors without a name may be
			f.Tensors[first].fail("is in another part, too")
			f.Tensors[before+i].fail("is in another part, too")
		}
	}
	return nil
}

// ofPart says that an error is one of the part with that path.
func ofPart(path string, err error) error {
	what := quote("part", filepath.Base(path))
	var e *Error
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errorf(what, "is missing; all parts of a model must be in one directory")
	case errors.As(err, &e):
		return &Error{what.String() + ": " + e.Thing, e.Problem}
	case errors.As(err, &p):
		return errorf(what, "%v", p.Err)
	}
	return errorf(what, "%v", err)
}
