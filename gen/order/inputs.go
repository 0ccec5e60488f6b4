package order

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/schedule"
)

// Inputs reads the small files of text that an order names: formats, traces, settings.
// Its errors are of one line, name the file once, and repeat nothing of it.
type Inputs struct {
	// Open opens a file to read; nil stands for os.Open. The command opens "-" as standard input.
	Open func(path string) (io.ReadCloser, error)
}

// MaxText bounds the size of JSON and vir files, in bytes.
const MaxText = 16 << 20

// Text reads a file in UTF-8 of up to 16 MiB, and leaves out a byte-order mark.
func (in Inputs) Text(path string) ([]byte, error) {
	r, err := in.open(path)
	if err != nil {
		return nil, message.Plain(err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxText+1))
	switch {
	case err != nil:
		return nil, message.Plain(err)
	case bytes.HasPrefix(data, []byte("GGUF")):
		return nil, fmt.Errorf("%s: is a GGUF file, which tmacc compile takes as its argument or by -gguf; want a text", path)
	case len(data) > MaxText:
		return nil, fmt.Errorf("%s: larger than %d MiB: this is no such file", path, MaxText>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as editors on Windows write it
	if what := notText(data); what != "" {
		return nil, fmt.Errorf("%s: %s", path, what)
	}
	return data, nil
}

// open opens a file as Open says.
func (in Inputs) open(path string) (io.ReadCloser, error) {
	if in.Open == nil {
		return os.Open(path)
	}
	return in.Open(path)
}

// notText says why data is not text in UTF-8, and what to do about it. It returns "" for text.
func notText(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "is text in UTF-16: save it as UTF-8"
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return "is no text in UTF-8"
	}
	return ""
}

// JSON is Text for a file that must not be empty. The error about an empty one says what it should hold.
func (in Inputs) JSON(path, what string) ([]byte, error) {
	data, err := in.Text(path)
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = fmt.Errorf("%s: is empty: want %s", path, what)
	}
	return data, err
}

// Weight is a built-in format, by its name, or the format in a JSON file. An argument that ends in ".json"
// or has a path separator is a file.
func (in Inputs) Weight(arg string) (format.Weight, error) {
	if !strings.HasSuffix(arg, ".json") && !strings.ContainsRune(arg, filepath.Separator) {
		return format.Lookup(arg)
	}
	data, err := in.JSON(arg, "a format, as tmacc formats -json prints them")
	if err != nil {
		return format.Weight{}, err
	}
	var w format.Weight
	if err := json.Unmarshal(data, &w); err != nil {
		return w, Lined(arg, data, err)
	}
	if strings.HasSuffix(w.Name, ir.FloatSuffix) {
		return w, fmt.Errorf("%s: format %q: names that end in %s say that activations are f32: choose another", arg, w.Name, ir.FloatSuffix)
	}
	return w, nil
}

// Problem is the product of activations a and the weights that name names, as Weight does. A name that
// ends in ir.FloatSuffix means f32 activations.
func (in Inputs) Problem(name string, a Act) (ir.Problem, error) {
	name, a = a.Of(name)
	w, err := in.Weight(name)
	if err != nil {
		return ir.Problem{}, err
	}
	return a.Problem(w)
}

// steps says what a file with a trace holds.
const steps = "a list of steps, as tmacc show -stage trace prints"

// Trace is the schedule in a JSON file. A line of text may stand above the list, such as the one that tmacc show -stage trace prints
// for people: it does not count.
func (in Inputs) Trace(path string) (schedule.Trace, error) {
	data, err := in.JSON(path, steps)
	if err != nil {
		return nil, err
	}
	data = blankTitle(data)
	var list []map[string]json.RawMessage
	var kind *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &list); errors.As(err, &kind) || err == nil && list == nil || !isList(data) {
		return nil, fmt.Errorf("%s: not a trace: want %s", path, steps)
	}
	var t schedule.Trace
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, Lined(path, data, err)
	}
	return t, nil
}

// isList says whether text begins as a list of JSON does.
func isList(data []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) }

// blankTitle makes spaces of a line of text above a list, so that errors name the lines of the file.
func blankTitle(data []byte) []byte {
	title, rest, _ := bytes.Cut(data, []byte("\n"))
	if isList(data) || json.Valid(title) || !isList(rest) {
		return data
	}
	return append(bytes.Repeat([]byte(" "), len(title)), data[len(title):]...)
}

// MaxCore bounds the size of a file with a core, in bytes.
const MaxCore = 1 << 20

// Core is the processor core in a JSON file of up to 1 MiB.
func (in Inputs) Core(path string) (own core.Core, err error) {
	data, err := in.JSON(path, "a core, as tmacc cores -json NAME prints one")
	if err != nil {
		return own, err
	}
	if len(data) > MaxCore {
		return own, fmt.Errorf("%s: larger than %d MiB: this is no core", path, MaxCore>>20)
	}
	if own, err = core.Parse(data); err != nil {
		return own, Lined(path, data, err)
	}
	return own, nil
}

// Lined is err, about a file of JSON, with the line if it is an error of syntax.
func Lined(path string, data []byte, err error) error {
	if line := format.ErrorLine(data, err); line > 0 {
		return fmt.Errorf("%s:%d: %w", path, line, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
