package order

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ConfigName is the file that tmacc compile reads if nothing else says what to
// compile.
const ConfigName = "tmacc.yaml"

// configKeys are what may stand in it: flags of tmacc compile, with what they take.
var configKeys = map[string]keyKind{
	"package": {}, "output": {path: always}, "module": {}, "act": {}, "act-group": {}, "max-k": {}, "model": {},
	"target": {list: true, commas: true}, "core": {list: true, commas: true, path: ifJSON}, "format": {list: true, path: ifJSON}, "gguf": {list: true, path: always}, "kernel": {list: true, pairs: true},
	"no-check": {}, "no-measure": {},
}

// Subjects are the keys that say what to compile.
var Subjects = []string{"format", "kernel", "model", "gguf"}

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

// Setting is a key of the file and its values, as its flag takes them.
type Setting struct {
	Key    string
	Line   int
	Values []string
	Lines  []int // of each value
}

// Origins are the places in a file, path and line, of what it set: by key and, of a key with a list, by value.
type Origins map[[2]string]string

// At is an error about a value, with its place in front if a file has set it.
func (o Origins) At(key, value string, err error) error {
	if place, ok := o[origin(key, value)]; ok && err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return err
}

// Set says that the file has set a key.
func (o Origins) Set(key string) bool {
	for place := range o {
		if place[0] == key {
			return true
		}
	}
	return false
}

// Add notes the place, path and line, of a value.
func (o Origins) Add(key, value, place string) { o[origin(key, value)] = place }

// origin is the key of a value in Origins.
func origin(key, value string) [2]string {
	if !configKeys[key].list {
		value = ""
	}
	return [2]string{key, value}
}

// MaxConfig bounds the size of the file, in bytes, and with it the depth of it: parsing takes time by its square.
const MaxConfig = 16 << 10

// ParseConfig reads Settings; relative paths are those of files in dir. An error
// begins with the line and names the key.
func ParseConfig(data []byte, dir string) (settings []Setting, err error) {
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
		return nil, fmt.Errorf("1: is empty: it needs one of %s", strings.Join(Subjects, ", "))
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
		if slices.ContainsFunc(settings, func(o Setting) bool { return o.Key == s.Key }) {
			return nil, fmt.Errorf("%d: %s is there twice", s.Line, s.Key)
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

// kernelText is an item of the key kernel as -kernel takes it.
func kernelText(n ast.Node, s Setting, dir string) (string, error) {
	pairs, err := pairsOf(n, s.Key)
	if err != nil {
		return "", fmt.Errorf("%d: %s: want keys and values: %s", s.Line, s.Key, keyNames(kernelKeys))
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

// ConfigKeys lists the keys of tmacc.yaml, sorted and separated by commas.
func ConfigKeys() string { return keyNames(configKeys) }

// KernelKeys lists the keys of an entry of kernel, sorted and separated by commas.
func KernelKeys() string { return keyNames(kernelKeys) }
