package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/timing"
)

// maxText bounds the size of JSON and vir files, in bytes.
const maxText = 16 << 20

// readText reads a small file of text in UTF-8, with or without a byte-order mark; "-" is standard input. Its error
// names the file once, and repeats nothing of it.
func (c *cli) readText(path string) ([]byte, error) {
	defer c.blocking()()
	var r io.Reader = c.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, plain(err)
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, maxText+1))
	switch {
	case err != nil:
		return nil, plain(err)
	case bytes.HasPrefix(data, []byte("GGUF")):
		return nil, fmt.Errorf("%s: is a GGUF file, which tmacc compile takes as its argument or by -gguf; want a text", path)
	case len(data) > maxText:
		return nil, fmt.Errorf("%s: larger than %d MiB: this is no such file", path, maxText>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as editors on Windows write it
	if what := notText(data); what != "" {
		return nil, fmt.Errorf("%s: %s", path, what)
	}
	return data, nil
}

// notText says what data is, if it is no text in UTF-8, and what to do about it; "" if it is.
func notText(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "is text in UTF-16: save it as UTF-8"
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return "is no text in UTF-8"
	}
	return ""
}

// readJSON is readText of a file of JSON that has what it says.
func (c *cli) readJSON(path, what string) ([]byte, error) {
	data, err := c.readText(path)
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = fmt.Errorf("%s: is empty: want %s", path, what)
	}
	return data, err
}

// plain is message.Plain.
func plain(err error) error { return message.Plain(err) }

// inner is message.Inner.
func inner(err error, path string) error { return message.Inner(err, path) }

// weight is the format of a name or of a JSON file.
func (c *cli) weight(arg string) (format.Weight, error) {
	if !strings.HasSuffix(arg, ".json") && !strings.ContainsRune(arg, filepath.Separator) {
		return format.Lookup(arg)
	}
	data, err := c.readJSON(arg, "a format, as tmacc formats -json prints them")
	if err != nil {
		return format.Weight{}, err
	}
	var w format.Weight
	if err := json.Unmarshal(data, &w); err != nil {
		return w, lined(arg, data, err)
	}
	if strings.HasSuffix(w.Name, ir.FloatSuffix) {
		return w, fmt.Errorf("%s: format %q: names that end in %s say that activations are f32: choose another", arg, w.Name, ir.FloatSuffix)
	}
	return w, nil
}

// trace is the schedule in a JSON file.
func (c *cli) trace(path string) (schedule.Trace, error) {
	data, err := c.readJSON(path, "a list of steps, as tmacc show -stage trace prints below its first line")
	if err != nil {
		return nil, err
	}
	var list []map[string]json.RawMessage
	var kind *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &list); errors.As(err, &kind) || err == nil && list == nil || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return nil, fmt.Errorf("%s: not a trace: want a list of steps, as tmacc show -stage trace prints below its first line", path)
	}
	var t schedule.Trace
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, lined(path, data, err)
	}
	return t, nil
}

// given is the schedule in a JSON file that stands for the default one.
func (c *cli) given(path string) (given, error) {
	t, err := c.trace(path)
	return given{path: path, Trace: t}, err
}

// lined is an error of a file of JSON, with the line if it is one of syntax.
func lined(path string, data []byte, err error) error {
	if line := format.ErrorLine(data, err); line > 0 {
		return fmt.Errorf("%s:%d: %w", path, line, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// usualGroup is the -act-group that chooses by format; nobody asks for it by its number.
const usualGroup = math.MinInt

// actFlags are what -act and -act-group say.
type actFlags struct {
	elem  string // int8 or f32
	group int
}

// The types of -act.
const (
	actInt8  = "int8"
	actFloat = "f32"
)

// actVar adds the flags -act and -act-group.
func actVar(f *pflag.FlagSet, a *actFlags) {
	f.StringVar(&a.elem, "act", actInt8, "activations: int8, quantized, or f32, as they are; for one format, name it FORMAT"+ir.FloatSuffix)
	f.IntVar(&a.group, "act-group", usualGroup, "activations that share a scale along K, 0: a whole row (default 0, but for the formats of GGUF as ggml)")
	f.Lookup("act-group").DefValue = "0" // said above
}

// known refuses a type of activations that there is not.
func (a actFlags) known() error {
	if a.elem != actInt8 && a.elem != actFloat {
		return fmt.Errorf("-act %s: want %s or %s", a.elem, actInt8, actFloat)
	}
	return nil
}

// goodGroup refuses a group that activations of no product have.
func (a actFlags) goodGroup() error {
	if a.group == usualGroup {
		return nil
	}
	if err := (format.Act{Group: a.group}).ValidGroup(); err != nil {
		return fmt.Errorf("-act-group: %w", err)
	}
	return nil
}

// problem is the product of weights w with activations.
func (a actFlags) problem(w format.Weight) (ir.Problem, error) {
	if err := a.known(); err != nil {
		return ir.Problem{}, err
	}
	switch {
	case a.elem == actFloat && a.group != usualGroup:
		return ir.Problem{}, fmt.Errorf("-act-group %d: f32 activations have no scales", a.group)
	case a.elem == actFloat:
		return ir.Floats(w)
	case a.group == usualGroup:
		a.group = blocks.UsualAct(w).Group
	}
	p := ir.Problem{Weight: w, Act: format.Act{Group: a.group}}
	return p, p.Validate()
}

// of is the format that the name of a product begins with, and its activations.
func (a actFlags) of(name string) (weight string, _ actFlags) {
	weight, floats := strings.CutSuffix(name, ir.FloatSuffix)
	if floats {
		a.elem = actFloat
	}
	return weight, a
}

// product is the problem of a name, or of a JSON file with a format.
func (c *cli) product(name string, a actFlags) (ir.Problem, error) {
	name, a = a.of(name)
	w, err := c.weight(name)
	if err != nil {
		return ir.Problem{}, err
	}
	return a.problem(w)
}

// sizeFlags are what -m and -k say of a matrix to measure.
type sizeFlags struct{ m, k int }

// add adds the flags; 0 stands for what the mode has.
func (s *sizeFlags) add(f *pflag.FlagSet, m, k int) {
	of := ""
	if m == 0 {
		of = ", instead of those of the mode"
	}
	f.IntVarP(&s.m, "m", "m", m, "rows of the matrix"+of)
	f.IntVarP(&s.k, "k", "k", k, "columns of the matrix"+of)
}

// checkCalls refuses numbers of activations that are too many for sizes that were given.
func (s *sizeFlags) checkCalls(ns []int) error {
	for _, n := range ns {
		if most := max(s.m, s.k); most > 0 && n > timing.MaxMatrix/most {
			return fmt.Errorf("-n %d -m %d -k %d: at most %d activations, and as many results, are measured", n, s.m, s.k, timing.MaxMatrix)
		}
	}
	return nil
}

// check refuses sizes that f was given and that cannot be measured.
func (s *sizeFlags) check(f *pflag.FlagSet) error {
	const most = 1 << 24
	switch {
	case f.Changed("m") && (s.m < 1 || s.m > most):
		return fmt.Errorf("-m %d: want 1 to %d", s.m, most)
	case f.Changed("k") && (s.k < 1 || s.k > most):
		return fmt.Errorf("-k %d: want 1 to %d", s.k, most)
	case s.k > 0 && s.m > timing.MaxMatrix/s.k:
		return fmt.Errorf("-m %d -k %d: at most %d weights are measured", s.m, s.k, timing.MaxMatrix)
	}
	return nil
}

// checkK refuses a -k, 0: none, that is not whole units of p, which is called name.
func checkK(k int, p ir.Problem, name string) error {
	if unit := p.Unit(); k%unit != 0 {
		return fmt.Errorf("-k %d: %s wants a multiple of %d", k, name, unit)
	}
	return nil
}
