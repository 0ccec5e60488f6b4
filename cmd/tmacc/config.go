package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"
)

// configName is the file that tmacc compile reads if nothing else says what to
// compile.
const configName = "tmacc.yaml"

// configKeys are what may stand in it: flags of tmacc compile, with what they take.
var configKeys = map[string]keyKind{
	"package": {}, "output": {path: always}, "module": {}, "act": {}, "act-group": {}, "max-k": {}, "model": {},
	"target": {list: true, commas: true}, "core": {list: true, commas: true, path: ifJSON}, "format": {list: true, path: ifJSON}, "gguf": {list: true, path: always}, "kernel": {list: true, pairs: true},
	"no-check": {}, "no-measure": {},
}

// subjects are the keys that say what to compile.
var subjects = []string{"format", "kernel", "model", "gguf"}

// keyKind is what a key takes: a text, number or truth value; or a list of texts; or
// of pairs of keys and texts. A text may be several, separated by commas, or may have none. Relative paths are those
// of the file.
type keyKind struct {
	list, pairs, commas bool
	path                func(string) bool
}

func always(string) bool { return true }

func ifJSON(s string) bool { return strings.HasSuffix(s, ".json") }

// kernelKeys are the keys of a -kernel.
var kernelKeys = map[string]keyKind{"name": {}, "format": {path: ifJSON}, "act-group": {}, "max-k": {}, "target": {}, "trace": {path: always}}

// setting is a key of the file and its values, as its flag takes them.
type setting struct {
	key    string
	line   int
	values []string
	lines  []int // of each value
}

// origins are the places in a file, path and line, of what it set: by key and, of a key with a list, by value.
type origins map[[2]string]string

// at is an error about a value, with its place in front if a file has set it.
func (o origins) at(key, value string, err error) error {
	if place, ok := o[origin(key, value)]; ok && err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return err
}

// set says that the file has set a key.
func (o origins) set(key string) bool {
	for place := range o {
		if place[0] == key {
			return true
		}
	}
	return false
}

// origin is the key of a value in origins.
func origin(key, value string) [2]string {
	if !configKeys[key].list {
		value = ""
	}
	return [2]string{key, value}
}

// maxConfig bounds the size of the file, in bytes, and with it the depth of it: parsing takes time by its square.
const maxConfig = 16 << 10

// configure sets the flags of tmacc compile that are not on the command line from
// a file: path, or if that is empty and what the command line does not say what to
// compile, the one in this directory, if it is there. It returns what the file has set, nil if there was none.
func (c *cli) configure(flags *pflag.FlagSet, path string, asked bool) (origins, error) {
	if path == "" {
		if _, err := os.Stat(configName); asked || errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		path = configName
	}
	data, err := c.readText(path)
	if err != nil {
		return nil, err
	}
	settings, err := parseConfig(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	if !asked && !slices.ContainsFunc(settings, func(s setting) bool { return slices.Contains(subjects, s.key) }) {
		return nil, fmt.Errorf("%s: says nothing to compile: it names none of %s", path, strings.Join(subjects, ", "))
	}
	if flags.Lookup("output").Changed || !slices.ContainsFunc(settings, func(s setting) bool { return s.key == "output" }) {
		settings = slices.DeleteFunc(settings, func(s setting) bool { return s.key == "output" })
		if !flags.Lookup("output").Changed {
			flags.Lookup("output").Value.Set(filepath.Dir(path))
		}
	}
	from := origins{}
	for _, s := range settings {
		f := flags.Lookup(s.key)
		if f.Changed {
			continue // the command line counts
		}
		for i, v := range s.values {
			if err := f.Value.Set(v); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %s", path, s.lines[i], s.key, wants(f, v, err))
			}
			from[origin(s.key, v)] = fmt.Sprintf("%s:%d", path, s.lines[i])
		}
	}
	return from, nil
}

// badNumber says why text, of which strconv says err, is no number.
func badNumber(text string, err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Sprintf("%q: is too large", text)
	}
	return fmt.Sprintf("%q: want a number", text)
}

// wants says what is wrong with a value of a flag.
func wants(f *pflag.Flag, value string, err error) string {
	if twice := (errTwice{}); errors.As(err, &twice) {
		return twice.Error()
	}
	switch f.Value.Type() {
	case "int", "int64":
		return badNumber(value, err)
	case "intSlice":
		return fmt.Sprintf("%q: want numbers, separated by commas", value)
	case "bool":
		return fmt.Sprintf("%q: want true or false", value)
	}
	return err.Error()
}

// parseConfig reads settings; relative paths are those of files in dir. An error
// begins with the line and names the key.
func parseConfig(data []byte, dir string) (settings []setting, err error) {
	if len(data) > maxConfig {
		return nil, fmt.Errorf("1: has %d bytes; it may have %d", len(data), maxConfig)
	}
	defer func() {
		if x := recover(); x != nil { // the library's, not ours
			settings, err = nil, fmt.Errorf("1: is not YAML: %v", x)
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlError(err)
	}
	var body ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && body != nil {
			return nil, fmt.Errorf("%d: has a second document", nodeLine(d.Body))
		}
		if d.Body != nil {
			body = d.Body
		}
	}
	if body == nil {
		return nil, fmt.Errorf("1: is empty: it needs one of %s", strings.Join(subjects, ", "))
	}
	pairs, err := pairsOf(body, "the file")
	if err != nil {
		return nil, err
	}
	for _, p := range pairs {
		s, err := settingOf(p, configKeys, dir)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(settings, func(o setting) bool { return o.key == s.key }) {
			return nil, fmt.Errorf("%d: %s is there twice", s.line, s.key)
		}
		settings = append(settings, s)
	}
	return settings, nil
}

// yamlError is one of the parser, which has the line in front, on one line.
func yamlError(err error) error {
	text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	if place, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "] "); ok {
		line, _, _ := strings.Cut(place, ":")
		return fmt.Errorf("%s: %s", line, rest)
	}
	return fmt.Errorf("1: %s", text)
}

func nodeLine(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

// pairsOf are the keys and values of a mapping.
func pairsOf(n ast.Node, what string) ([]*ast.MappingValueNode, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	}
	return nil, fmt.Errorf("%d: %s: want keys and values: %s", nodeLine(n), what, keyNames(configKeys))
}

func keyNames(keys map[string]keyKind) string {
	var names []string
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func settingOf(p *ast.MappingValueNode, keys map[string]keyKind, dir string) (setting, error) {
	key, ok := scalar(p.Key)
	s := setting{key: key, line: nodeLine(p.Key)}
	kind, known := keys[key]
	if !ok || !known {
		return s, fmt.Errorf("%d: unknown key %q: have %s%s", s.line, key, keyNames(keys), ofKernel(key))
	}
	items := []ast.Node{p.Value}
	if l, ok := p.Value.(*ast.SequenceNode); ok && kind.list {
		items = l.Values
	}
	for _, item := range items {
		v, err := valueOf(item, s, kind, dir)
		if err != nil {
			return s, err
		}
		for _, text := range kind.texts(v) {
			s.values, s.lines = append(s.values, text), append(s.lines, nodeLine(item))
		}
	}
	if len(s.values) == 0 {
		return s, fmt.Errorf("%d: %s: is an empty list", s.line, key)
	}
	return s, nil
}

// ofKernel says of a key that is unknown in its place that a kernel has it.
func ofKernel(key string) string {
	if _, known := kernelKeys[key]; !known {
		return ""
	}
	return fmt.Sprintf("; %s belongs to an entry of kernel", key)
}

// texts are those that v is: several, if commas separate them.
func (k keyKind) texts(v string) []string {
	if !k.commas {
		return []string{v}
	}
	words := strings.Split(v, ",")
	for i, w := range words {
		words[i] = strings.TrimSpace(w)
	}
	return words
}

// valueOf is a value as its flag takes it.
func valueOf(n ast.Node, s setting, kind keyKind, dir string) (string, error) {
	if kind.pairs {
		return kernelText(n, s, dir)
	}
	v, ok := scalar(n)
	if kind.path != nil && kind.path(v) && !filepath.IsAbs(v) {
		v = filepath.Join(dir, v)
	}
	switch {
	case !ok && kind.list:
		return "", fmt.Errorf("%d: %s: want a text or a list of texts", s.line, s.key)
	case !ok:
		return "", fmt.Errorf("%d: %s: want one value", s.line, s.key)
	case kind.list && (strings.ContainsAny(v, "\"\n") || !kind.commas && strings.Contains(v, ",")):
		return "", fmt.Errorf("%d: %s: %q: want no comma and no quote in it", nodeLine(n), s.key, v)
	}
	return v, nil
}

// kernelText is an item of the key kernel as -kernel takes it.
func kernelText(n ast.Node, s setting, dir string) (string, error) {
	pairs, err := pairsOf(n, s.key)
	if err != nil {
		return "", fmt.Errorf("%d: %s: want keys and values: %s", s.line, s.key, keyNames(kernelKeys))
	}
	var words []string
	for _, p := range pairs {
		x, err := settingOf(p, kernelKeys, dir)
		if err != nil {
			return "", err
		}
		if strings.ContainsAny(x.values[0], ",=\"\n") {
			return "", fmt.Errorf("%d: %s: %q: want no comma, '=' or quote in it", x.line, x.key, x.values[0])
		}
		words = append(words, x.key+"="+x.values[0])
	}
	return strings.Join(words, ","), nil
}

// scalar is the text of a text, number or truth value.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}
