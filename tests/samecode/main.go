// Command samecode compares the machine code that two checkouts of tmacc emit: every
// built-in format on every target, for every number of columns, and the preparation of
// activations.
//
//	go run ./tests/samecode [-alias OLD=NEW,...] [-format w2,q4_0] OLDFOLDER NEWFOLDER
//
// Each checkout builds its own command, which compiles a package of each format. Kernels
// are compared by a hash of their instructions; names of symbols, comments and the layout
// of the file do not count, constants in memory do by their values. The program prints each
// kernel that differs, with both numbers of instructions, and exits with 1 if there is one.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	alias := flag.String("alias", "", "names that targets have in the new checkout: `OLD=NEW,...`")
	only := flag.String("format", "", "formats to compare, separated by commas (default all built-in ones that both have)")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: samecode [-alias OLD=NEW,...] [-format NAMES] OLDFOLDER NEWFOLDER")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	same, err := compare(flag.Arg(0), flag.Arg(1), *alias, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "samecode:", err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// compare prints what differs and reports whether nothing does.
func compare(oldFolder, newFolder, alias, only string) (bool, error) {
	scratch, err := os.MkdirTemp("", "samecode")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	names, err := aliases(alias)
	if err != nil {
		return false, err
	}
	before, err := build(oldFolder, filepath.Join(scratch, "old"))
	if err != nil {
		return false, err
	}
	after, err := build(newFolder, filepath.Join(scratch, "new"))
	if err != nil {
		return false, err
	}
	formats, err := commonFormats(before, after, only)
	if err != nil {
		return false, err
	}
	var total tally
	for _, format := range formats {
		a, err := before.kernels(format)
		if err != nil {
			return false, err
		}
		b, err := after.kernels(format)
		if err != nil {
			return false, err
		}
		total.add(format, renamed(a, names), b)
		floats := format + floatSuffix // not every format has such products; a checkout that lost some shows it by missing kernels
		a, _ = before.kernels(floats)
		b, _ = after.kernels(floats)
		total.add(floats, renamed(a, names), b)
	}
	fmt.Printf("%d formats: %d kernels are the same, %d differ, %d are only in the old checkout, %d only in the new one\n",
		len(formats), total.same, total.differ, total.gone, total.added)
	return total.differ+total.gone == 0, nil
}

// floatSuffix ends the names of products whose activations stay float32.
const floatSuffix = "-f32act"

// tally counts kernels.
type tally struct{ same, differ, gone, added int }

// add compares the kernels of one format and prints those that differ.
func (t *tally) add(format string, before, after map[key]code) {
	for _, k := range slices.SortedFunc(maps.Keys(before), key.compare) {
		a, b := before[k], after[k]
		_, there := after[k]
		switch {
		case !there:
			t.gone++
			fmt.Printf("%s on %s, %s: only in the old checkout\n", format, k.target, k.what)
		case a.hash != b.hash:
			t.differ++
			fmt.Printf("%s on %s, %s: %d instructions before, %d after\n", format, k.target, k.what, a.instructions, b.instructions)
		default:
			t.same++
		}
	}
	for k := range after {
		if _, there := before[k]; !there {
			t.added++
		}
	}
}

// aliases reads -alias.
func aliases(text string) (map[string]string, error) {
	names := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		from, to, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("-alias %q: want OLD=NEW", pair)
		}
		names[from] = to
	}
	return names, nil
}

// renamed is kernels with the new names of their targets.
func renamed(kernels map[key]code, names map[string]string) map[key]code {
	out := map[key]code{}
	for k, c := range kernels {
		if name, ok := names[k.target]; ok {
			k.target = name
		}
		out[k] = c
	}
	return out
}

// command is a built tmacc, a folder for the packages that it writes, and the flags that name all targets.
type command struct {
	path, scratch string
	all           []string
}

// build builds the command of a checkout in scratch.
func build(checkout, scratch string) (command, error) {
	c := command{path: filepath.Join(scratch, "tmacc"), scratch: scratch, all: []string{"-target", "all"}}
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return c, err
	}
	cmd := exec.Command("go", "build", "-o", c.path, "./cmd/tmacc")
	cmd.Dir = checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		return c, fmt.Errorf("%s: go build: %w\n%s", checkout, err, out)
	}
	if exec.Command(c.path, "cores").Run() == nil { // earlier ones have a target for each core
		c.all = append(c.all, "-core", "all")
	}
	return c, nil
}

// formats names the built-in formats.
func (c command) formats() ([]string, error) {
	out, err := exec.Command(c.path, "formats", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("%s formats: %w", c.path, err)
	}
	var rows []struct{ Name string }
	if err := json.Unmarshal(out, &rows); err != nil {
		return nil, fmt.Errorf("%s formats: %w", c.path, err)
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return names, nil
}

// commonFormats are the formats in only, or all formats that both commands have.
func commonFormats(a, b command, only string) ([]string, error) {
	if only != "" {
		return strings.Split(only, ","), nil
	}
	before, err := a.formats()
	if err != nil {
		return nil, err
	}
	after, err := b.formats()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(before, func(name string) bool { return !slices.Contains(after, name) }), nil
}

// kernels compiles a format for all targets and reads the assembly.
func (c command) kernels(format string) (map[key]code, error) {
	dir := filepath.Join(c.scratch, "kern")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	args := []string{"compile", "-format", format, "-no-check", "-no-measure", "-module", "kern", "-o", dir}
	cmd := exec.Command(c.path, append(args, c.all...)...)
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	files, _ := filepath.Glob(filepath.Join(dir, "*.s"))
	if len(files) == 0 { // completing the module needs a network, and is not needed
		return nil, fmt.Errorf("%s compile -format %s: %v\n%s", c.path, format, err, out)
	}
	all := map[key]code{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, kernelsIn(targetOf(filepath.Base(path)), string(data)))
	}
	return all, nil
}
