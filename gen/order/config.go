package order

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/tmacc/tmacc/lower/core"
)

// ConfigName is the file that tmacc compile reads if its flags name nothing to compile.
const ConfigName = "tmacc.yaml"

// configKeys lists the keys of the file, each with the values that it takes. They are flags of tmacc compile.
var configKeys = map[string]keyKind{
	"package": {}, "output": {path: always}, "module": {}, "act": {}, "act-group": {}, "max-k": {}, "model": {},
	"target": {list: true, commas: true}, "core": {list: true, commas: true, path: core.IsFile}, "format": {list: true, path: ifJSON}, "gguf": {list: true, path: always}, "kernel": {list: true, pairs: true},
	"no-check": {}, "no-measure": {}, "no-records": {},
}

// ConfigKeys lists the keys of tmacc.yaml, sorted and separated by commas.
func ConfigKeys() string { return keyNames(configKeys) }

// KernelKeys lists the keys of an entry of kernel, sorted and separated by commas.
func KernelKeys() string { return keyNames(kernelKeys) }

// subjects lists the keys that say what to compile.
var subjects = []string{"format", "kernel", "model", "gguf"}

// keyKind says which values a key takes. Without list, that is one text, number or truth value.
type keyKind struct {
	list   bool              // a list of texts, or one
	pairs  bool              // the items are keys and values
	commas bool              // a text may be several, separated by commas; other texts of a list have no comma
	path   func(string) bool // whether a text is a path, which is relative to the file; nil: never
}

func always(string) bool { return true }

func ifJSON(s string) bool { return strings.HasSuffix(s, ".json") }

// kernelKeys lists the keys of an entry of kernel, and of -kernel.
var kernelKeys = map[string]keyKind{"name": {}, "format": {path: ifJSON}, "act-group": {}, "max-k": {}, "target": {}, "trace": {path: always}}

// Setting is a key of the file and its values.
type Setting struct {
	Key    string
	Line   int      // of the key; the first line is 1
	Values []string // as the flag of that name takes them
	Lines  []int    // of each value
}

// Settings lists the settings of a file, in its order. No key is there twice.
type Settings []Setting

// Has reports whether the file sets one of keys.
func (s Settings) Has(keys ...string) bool {
	return slices.ContainsFunc(s, func(x Setting) bool { return slices.Contains(keys, x.Key) })
}

// CheckSubject refuses settings that name nothing to compile.
func (s Settings) CheckSubject() error {
	if s.Has(subjects...) {
		return nil
	}
	return fmt.Errorf("says nothing to compile: it names none of %s", strings.Join(subjects, ", "))
}

// Origins has the place, path and line, of each value that a file set. It is indexed by key and, for a key that takes
// a list, by value.
type Origins map[[2]string]string

// Add notes the place of a value.
func (o Origins) Add(key, value, place string) { o[origin(key, value)] = place }

// At puts the place of a value in front of err, which is about that value. If no file has set the value, or err is nil,
// At returns err.
func (o Origins) At(key, value string, err error) error {
	if place, ok := o[origin(key, value)]; ok && err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return err
}

// Set reports whether a file has set key.
func (o Origins) Set(key string) bool {
	for place := range o {
		if place[0] == key {
			return true
		}
	}
	return false
}

// origin is the index of a value in Origins.
func origin(key, value string) [2]string {
	if !configKeys[key].list {
		value = ""
	}
	return [2]string{key, value}
}

// MaxConfig bounds the size of the file, in bytes. That bounds the depth of its lists too: the parser takes time by the
// square of the depth.
const MaxConfig = 16 << 10

// Config reads the settings of a YAML file. Relative paths in it are relative to the folder of the file. An error begins
// with the path and the line, "tmacc.yaml:3: ".
func (in Inputs) Config(path string) (Settings, error) {
	data, err := in.Text(path)
	if err != nil {
		return nil, err
	}
	settings, err := ParseConfig(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return settings, nil
}

// ParseConfig reads settings. It makes relative paths paths in dir. An error begins with the line, "3: ", and names the
// key.
func ParseConfig(data []byte, dir string) (settings Settings, err error) {
	if len(data) > MaxConfig {
		return nil, fmt.Errorf("1: has %d bytes; it may have %d", len(data), MaxConfig)
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
	body, err := document(file)
	if err != nil {
		return nil, err
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
		if settings.Has(s.Key) {
			return nil, fmt.Errorf("%d: %s is there twice", s.Line, s.Key)
		}
		settings = append(settings, s)
	}
	return settings, nil
}

// document is the only document of a file.
func document(file *ast.File) (body ast.Node, err error) {
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
	return body, nil
}

// yamlError puts an error of the parser on one line, with the number of the line in front.
func yamlError(err error) error {
	text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	if place, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "] "); ok {
		line, _, _ := strings.Cut(place, ":")
		return fmt.Errorf("%s: %s", line, rest)
	}
	return fmt.Errorf("1: %s", text)
}

// nodeLine is the line that n begins on.
func nodeLine(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

// pairsOf lists the keys and values of a mapping. The error calls it what.
func pairsOf(n ast.Node, what string) ([]*ast.MappingValueNode, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	}
	return nil, fmt.Errorf("%d: %s: want keys and values: %s", nodeLine(n), what, ConfigKeys())
}

// keyNames lists keys, sorted and separated by commas.
func keyNames(keys map[string]keyKind) string {
	var names []string
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// settingOf reads a key, one of keys, and its values.
func settingOf(p *ast.MappingValueNode, keys map[string]keyKind, dir string) (Setting, error) {
	key, ok := scalar(p.Key)
	s := Setting{Key: key, Line: nodeLine(p.Key)}
	kind, known := keys[key]
	if !ok || !known {
		return s, fmt.Errorf("%d: unknown key %q: have %s%s", s.Line, key, keyNames(keys), ofKernel(key))
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
			s.Values, s.Lines = append(s.Values, text), append(s.Lines, nodeLine(item))
		}
	}
	if len(s.Values) == 0 {
		return s, fmt.Errorf("%d: %s: is an empty list", s.Line, key)
	}
	return s, nil
}

// ofKernel adds to an error about an unknown key that a kernel has such a key.
func ofKernel(key string) string {
	if _, known := kernelKeys[key]; !known {
		return ""
	}
	return fmt.Sprintf("; %s belongs to an entry of kernel", key)
}

// texts splits v at its commas, if the key takes several texts.
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

// valueOf is a value as the flag of that name takes it.
func valueOf(n ast.Node, s Setting, kind keyKind, dir string) (string, error) {
	if kind.pairs {
		return kernelText(n, s, dir)
	}
	v, ok := scalar(n)
	if kind.path != nil && kind.path(v) && !filepath.IsAbs(v) {
		v = filepath.Join(dir, v)
	}
	switch {
	case !ok && kind.list:
		return "", fmt.Errorf("%d: %s: want a text or a list of texts", s.Line, s.Key)
	case !ok:
		return "", fmt.Errorf("%d: %s: want one value", s.Line, s.Key)
	case kind.list && (strings.ContainsAny(v, "\"\n") || !kind.commas && strings.Contains(v, ",")):
		return "", fmt.Errorf("%d: %s: %q: want no comma and no quote in it", nodeLine(n), s.Key, v)
	}
	return v, nil
}

// kernelText is an item of the key kernel, as the flag -kernel takes it.
func kernelText(n ast.Node, s Setting, dir string) (string, error) {
	pairs, err := pairsOf(n, s.Key)
	if err != nil {
		return "", fmt.Errorf("%d: %s: want keys and values: %s", s.Line, s.Key, KernelKeys())
	}
	var words []string
	for _, p := range pairs {
		x, err := settingOf(p, kernelKeys, dir)
		if err != nil {
			return "", err
		}
		if strings.ContainsAny(x.Values[0], ",=\"\n") {
			return "", fmt.Errorf("%d: %s: %q: want no comma, '=' or quote in it", x.Line, x.Key, x.Values[0])
		}
		words = append(words, x.Key+"="+x.Values[0])
	}
	return strings.Join(words, ","), nil
}

// scalar is the text of n, if n is a text, a number or a truth value.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}
