package generation

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// stops looks for stop strings in text as it comes.
type stops struct {
	texts []string
	text  []byte // that was not handed on before the last call
	held  []byte // its end, which may become a stop string
}

// newStops checks the stop strings.
func newStops(texts []string) (*stops, error) {
	for _, x := range texts {
		if x == "" {
			return nil, errors.New("a stop string is empty")
		}
		if !utf8.ValidString(x) {
			return nil, fmt.Errorf("the stop string %q is not UTF-8", x)
		}
	}
	return &stops{texts: texts}, nil
}

// write takes more text. It returns the text that is sure to come before any stop string, and whether one was found. The
// result is valid until the next call.
func (s *stops) write(text []byte) (sure []byte, found bool) {
	if len(s.texts) == 0 {
		return text, false
	}
	s.text = append(s.text[:copy(s.text[:cap(s.text)], s.held)], text...)
	at := len(s.text)
	for _, x := range s.texts {
		if i := bytes.Index(s.text[:min(len(s.text), at+len(x))], []byte(x)); i >= 0 && i < at {
			at, found = i, true
		}
	}
	if !found {
		at -= s.begun(s.text)
	}
	s.held = s.text[at:]
	return s.text[:at], found
}

// begun is the most bytes at the end of text that a stop string begins with.
func (s *stops) begun(text []byte) int {
	most := 0
	for _, x := range s.texts {
		for n := min(len(x)-1, len(text)); n > most; n-- {
			if strings.HasPrefix(x, string(text[len(text)-n:])) {
				most = n
			}
		}
	}
	return most
}
