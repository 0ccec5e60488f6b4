package chat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// percent fills a format such as "%s: %d" as Python's % does.
func (r *render) percent(format string, values []jinja.Value) (jinja.Value, error) {
	w := &writer{r: r}
	for w.err == nil {
		before, rest, found := strings.Cut(format, "%")
		if w.put(before); !found {
			break
		}
		spec := rest[:len(rest)-len(strings.TrimLeft(rest, "-+ #0123456789."))]
		if len(spec) == len(rest) {
			return jinja.None(), errors.New("the format ends within %")
		}
		letter := rest[len(spec)]
		format = rest[len(spec)+1:]
		switch {
		case letter == '%':
			w.put("%")
			continue
		case len(values) == 0:
			return jinja.None(), errors.New("the format has more places than there are values")
		}
		w.formatted(spec, letter, values[0])
		values = values[1:]
	}
	if len(values) > 0 && w.err == nil {
		w.err = errors.New("there are more values than the format has places")
	}
	return w.value()
}

// mostWidth is how wide a formatted value may be made.
const mostWidth = 1000

// formatted writes a value by a directive: "-8.2" and 'f', say.
func (w *writer) formatted(spec string, letter byte, v jinja.Value) {
	for field := range strings.SplitSeq(strings.TrimLeft(spec, "-+ #0"), ".") {
		if n, err := strconv.Atoi(field); field != "" && (err != nil || n > mostWidth) {
			w.err = fmt.Errorf("the format %%%s%c is not supported", spec, letter)
			return
		}
	}
	x, isNumber := numberOf(v)
	switch {
	case letter == 's' || letter == 'r':
		s, err := w.r.str(v)
		if letter == 'r' && v.IsString() {
			s = quote(s)
		}
		if w.err = err; err == nil {
			w.put(fmt.Sprintf("%"+spec+"s", s))
		}
	case !isNumber || strings.IndexByte("dixXofFeEgG", letter) < 0:
		w.err = fmt.Errorf("%%%s%c does not take %s", spec, letter, w.r.typeName(v))
	case strings.IndexByte("fFeEgG", letter) >= 0:
		w.put(fmt.Sprintf("%"+spec+string(letter), x.f))
	case !x.isInt && letter != 'd' && letter != 'i':
		w.err = fmt.Errorf("%%%s%c does not take a float", spec, letter)
	default:
		n := x.i
		if !x.isInt {
			n = int64(x.f)
		}
		if letter == 'i' {
			letter = 'd'
		}
		w.put(fmt.Sprintf("%"+spec+string(letter), n))
	}
}

// braces fills a format such as "{}: {0}" as Python's format does. Names and directives behind a colon are not supported.
func braces(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	w := &writer{r: r}
	next, rest := 0, v.AsString()
	for rest != "" && w.err == nil {
		c, n := utf8.DecodeRuneInString(rest)
		switch {
		case strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}"):
			w.put(rest[:1])
			n = 2
		case c == '{':
			field, _, found := strings.Cut(rest[1:], "}")
			at, err := strconv.Atoi(field)
			if field == "" {
				at, err = next, nil
				next++
			}
			if !found || err != nil || at < 0 || at >= len(a) {
				return v, fmt.Errorf("the field {%s} of the format is not supported", field)
			}
			s, err := r.str(a[at])
			if err != nil {
				return v, err
			}
			w.put(s)
			n = len(field) + 2
		case c == '}':
			return v, errors.New("a single } in the format")
		default:
			n = len(rest)
			if i := strings.IndexAny(rest, "{}"); i > 0 {
				n = i
			}
			w.put(rest[:n])
		}
		rest = rest[n:]
	}
	return w.value()
}
