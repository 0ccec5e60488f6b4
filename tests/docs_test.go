package tests

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	measured "github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

// Pages that are followed literally, and the example whose files they give.
var pages = []struct {
	doc, example string
	tunes        bool // its commands measure kernels of this machine
}{
	{"getting-started.md", "small", false},
	{"new-format.md", "newformat", true},
}

// fenced is a block of a page: its language and text, and the file that it is, if
// the line before names one.
type fenced struct{ file, language, text string }

var fence = regexp.MustCompile("(?ms)(?:^`([^`\n]+)`:\n\n)?^```(\\w+)\n(.*?)^```$")

func fencesOf(t *testing.T, doc string) []fenced {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", doc))
	if err != nil {
		t.Fatal(err)
	}
	var all []fenced
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		all = append(all, fenced{m[1], m[2], m[3]})
	}
	return all
}

// prelude is for modules that are made in tests: go mod init is followed
// by what makes github.com/tmacc/tmacc this checkout, as it would be if it had been
// published; go get asks nobody for it, but takes what this checkout has downloaded.
const prelude = `set -euo pipefail
go() {
	local proxy=$(command go env GOPROXY)
	[ "$1" != get ] || proxy=file://$(command go env GOMODCACHE)/cache/download
	GOPROXY=$proxy command go "$@"
	case "$*" in
	"mod init"*) command go mod edit -replace github.com/tmacc/tmacc="$TMACC_ROOT" ;;
	esac
}
# The user's own log of searches stays as it is.
export GOCACHE="$(command go env GOCACHE)" XDG_CACHE_HOME="$TMACC_CACHE"
`

// inShell runs a script of bash in dir and returns what it prints.
func inShell(t *testing.T, dir, script string) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", prelude+script)
	cmd.Dir = dir
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "TMACC_ROOT="+root, "GOSUMDB=off", "GOWORK=off", "GOFLAGS=-mod=mod "+chosen.Program(home), "TMACC_CACHE="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// few are the targets that tests compile packages for, where compiling for all would take long.
const few = "avx2,avx512vbmi,dotprod"

// shorter is commands of a page with a search of few seconds, and with kernels for few targets. With TMACC_LONG=1 it is the commands as they are.
func shorter(t *testing.T, commands string) string {
	t.Helper()
	if drawn.New(t).Long() {
		return commands
	}
	return strings.NewReplacer(" -time 20s ", " -time 3s ", " -target all ", " -target "+few+" ").Replace(commands)
}

// TestPages follows pages of docs: it writes their files, runs their commands and
// looks for the lines that they show, each in what the commands before it print. Searches are shorter than there, and
// only the kernels of the first page are for all targets.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, p := range pages {
		t.Run(p.doc, func(t *testing.T) {
			if p.tunes && len(measure.Targets()) == 0 {
				t.Skip(measure.ErrNoTarget)
			}
			var script strings.Builder
			var want []string // of each command block
			for _, f := range fencesOf(t, p.doc) {
				switch {
				case f.file != "":
					sameAsExample(t, p.example, f)
					fmt.Fprintf(&script, "cat >%q <<'END OF FILE'\n%sEND OF FILE\n", f.file, f.text)
				case f.language == "sh":
					fmt.Fprintf(&script, "%secho '== block ended'\n", shorter(t, f.text))
					want = append(want, "")
				case f.language == "text" && len(want) > 0:
					want[len(want)-1] = f.text
				default:
					t.Fatalf("this block has no known kind\n%s", f.text)
				}
			}
			out := strings.Split(inShell(t, t.TempDir(), script.String()), "== block ended\n")
			if len(out) != len(want)+1 || len(want) < 3 {
				t.Fatalf("%d blocks ended, of %d", len(out)-1, len(want))
			}
			for i, lines := range want {
				for line := range strings.Lines(lines) {
					if line = strings.TrimSpace(line); !strings.Contains(out[i], line) {
						t.Errorf("no %q in\n%s", line, out[i])
					}
				}
			}
		})
	}
}

// The table of new-format.md has the fields of a format, and no others.
func TestFormatFields(t *testing.T) {
	text, err := os.ReadFile("../docs/new-format.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, fields []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
	}
	w := reflect.TypeFor[format.Weight]()
	for i := range w.NumField() {
		name, _, _ := strings.Cut(w.Field(i).Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	slices.Sort(listed)
	slices.Sort(fields)
	if !slices.Equal(listed, fields) {
		t.Errorf("the table has %v, a format %v", listed, fields)
	}
}

// TestChoices: comments name sections of choices.md that are there, and each section is named by one or has a pair.
func TestChoices(t *testing.T) {
	text, err := os.ReadFile("../docs/lab/choices.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{} // by section: whether a comment names it
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(string(text), -1) {
		if _, twice := named[m[1]]; twice {
			t.Errorf("choices.md has two sections %s", m[1])
		}
		named[m[1]] = false
	}
	f, err := os.Open("../docs/lab/pairs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := measured.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Source.Page == "choices.md" {
			named[p.Source.Section] = true
		}
	}
	names := regexp.MustCompile(`docs/lab/choices\.md, (\w+(?:, \w+)*)`)
	for _, dir := range []string{"cmd", "ir", "lower", "runtime", "search"} {
		sources(t, dir, func(file *ast.File, at func(ast.Node) string) {
			for _, c := range file.Comments {
				for _, m := range names.FindAllStringSubmatch(c.Text(), -1) {
					for _, section := range strings.Split(m[1], ", ") {
						if _, there := named[section]; !there {
							t.Errorf("%s: choices.md has no section %s", at(c), section)
						}
						named[section] = true
					}
				}
			}
		})
	}
	for _, section := range slices.Sorted(maps.Keys(named)) {
		if !named[section] {
			t.Errorf("no comment names section %s of choices.md, and no pair is of it", section)
		}
	}
}

// sameAsExample: a file of a page is that of its example.
func sameAsExample(t *testing.T, example string, f fenced) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../examples", example, f.file))
	if err != nil || string(text) != f.text {
		t.Errorf("examples/%s/%s is not what the page shows: %v", example, f.file, err)
	}
}

// appendTo adds text to a file.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(before, text...), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestExampleGGUF generates the kernels of examples/gguf, for three targets, runs it and its tests, also with the race
// detector, compiles it without cgo for one in three of other systems, and looks for packages of the compiler in what it
// links. With TMACC_LONG=1 targets and systems are all that there are.
func TestExampleGGUF(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := t.TempDir()
	example := filepath.Join(dir, "examples", "gguf")
	if err := os.CopyFS(example, os.DirFS("../examples/gguf")); err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Abs("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	d := drawn.New(t)
	if !d.Long() { // compiling for all targets takes long
		appendTo(t, filepath.Join(example, "kernels", "tmacc.yaml"), "target: ["+few+"]\n")
	}
	platforms := append([]string{"linux/amd64"}, drawn.Some(d, 3,
		[]string{"linux/arm64", "windows/amd64", "windows/arm64", "darwin/amd64", "darwin/arm64", "linux/riscv64", "js/wasm"})...)
	out := inShell(t, example, `rm -f go.sum kernels/kernels*
go mod edit -replace github.com/tmacc/tmacc="$TMACC_ROOT"
go mod tidy
go generate ./kernels
go run .
go vet ./...
go test ./...
if command -v gcc; then CGO_ENABLED=1 go test -race .; fi
for platform in `+strings.Join(platforms, " ")+`; do
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} go build -o /dev/null ./...
	echo "builds for $platform"
done
go tool tmacc compile -config kernels/tmacc.yaml -check -q
echo '== packages'
go list -deps ./kernels
`)
	for _, want := range []string{"Q40: q4_0 weights", "Q6K: q6_k weights", "queries [", "builds for " + platforms[len(platforms)-1], "is up to date", "ok  \texample.com/gguf"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, packages, _ := strings.Cut(out, "== packages\n")
	var ours []string
	for line := range strings.Lines(packages) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "github.com/tmacc/tmacc/"); ok {
			ours = append(ours, p)
		}
	}
	slices.Sort(ours)
	if got := strings.Join(ours, " "); got != "ir/format ir/format/blocks ir/format/gguf runtime runtime/abi runtime/cpu runtime/pool" {
		t.Errorf("a generated package links %s", got)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc for the race detector; all else was tested")
	}
}

// TestExampleEmbed runs examples/embed, which has at most 40 lines, with a short search: it prints each stage, what a trace takes and events,
// and writes a package that builds.
func TestExampleEmbed(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	if len(measure.Targets()) == 0 {
		t.Skip(measure.ErrNoTarget)
	}
	example := filepath.Join(t.TempDir(), "embed")
	if err := os.CopyFS(example, os.DirFS("../examples/embed")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(example, "main.go"))
	if n := strings.Count(string(text), "\n"); err != nil || n > 40 {
		t.Errorf("%v: the example has %d lines, want at most 40", err, n)
	}
	out := inShell(t, example, `rm -rf go.sum kernels
go mod edit -replace github.com/tmacc/tmacc="$TMACC_ROOT"
go mod tidy
go run . -time 1s
go vet ./...
go test ./kernels
`)
	for _, want := range append(build.StageNames(), "given: l2 512x2048x1 ", "measuring what the machine can do", " measured in ", "ok  \texample.com/embed/kernels") {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestExampleChat generates the kernels of examples/chat, whose program has at most 25 lines of code, and runs its tests, also with the race
// detector. The program builds for three platforms and for one in three of others, and links no compiler. Kernels are for three targets, or for all with TMACC_LONG=1.
func TestExampleChat(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := t.TempDir()
	example := filepath.Join(dir, "examples", "chat")
	if err := os.CopyFS(example, os.DirFS("../examples/chat")); err != nil {
		t.Fatal(err)
	}
	commands, err := filepath.Abs("../cmd")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(commands, filepath.Join(dir, "cmd")); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(example, "main.go"))
	_, code, _ := strings.Cut(string(program), "func main()")
	code, _, _ = strings.Cut(code, "// must returns")
	if n := strings.Count(strings.TrimSpace(code), "\n"); err != nil || n < 5 || n > 25 {
		t.Errorf("%v: the program has more than 25 lines:\n%s", err, code)
	}
	d := drawn.New(t)
	if !d.Long() { // compiling for all targets takes long
		appendTo(t, filepath.Join(example, "kernels", "tmacc.yaml"), "target: ["+few+"]\n")
	}
	platforms := append([]string{"linux/amd64", "windows/amd64", "darwin/arm64"}, drawn.Some(d, 3, []string{"linux/arm64", "windows/arm64", "darwin/amd64"})...)
	out := inShell(t, example, `rm -f go.sum kernels/kernels*
go mod edit -replace github.com/tmacc/tmacc="$TMACC_ROOT"
go mod tidy
go generate ./kernels
go vet ./...
go test ./...
if command -v gcc; then CGO_ENABLED=1 go test -race .; fi
for platform in `+strings.Join(platforms, " ")+`; do
	CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} go build -o /dev/null .
	echo "builds for $platform"
done
echo '== packages'
go list -deps .
`)
	for _, want := range []string{"ok  \texample.com/chat", "builds for darwin/arm64"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, packages, _ := strings.Cut(out, "== packages\n")
	for line := range strings.Lines(packages) {
		p, ours := strings.CutPrefix(strings.TrimSpace(line), "github.com/tmacc/tmacc/")
		if ours && !strings.HasPrefix(p, "runtime") && !strings.HasPrefix(p, "ir/format") {
			t.Errorf("the program links %s", p)
		}
	}
	if !strings.Contains(packages, "runtime/model/chat") {
		t.Errorf("the packages of the program are missing:\n%s", packages)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc for the race detector; all else was tested")
	}
}

// TestOwnFormats follows docs/new-format.md with other rows, given to the same three commands: five levels without order in groups of 48, and
// three in whole rows. Products have odd sizes; columns that are no whole groups are refused, and filled up. Kernels are for three targets, or for all with
// TMACC_LONG=1.
func TestOwnFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	if len(measure.Targets()) == 0 {
		t.Skip(measure.ErrNoTarget)
	}
	dir, only := t.TempDir(), ""
	if !drawn.New(t).Long() { // compiling for all targets takes long
		only = "-target " + few
	}
	for name, text := range map[string]string{
		"five.json": `{"name": "five", "bits": 3, "levels": [3, -7, 0, 90, -1], "per": "group", "group": 48, "scale": "bf16"}`,
		"odd.json":  `{"name": "odd-rows", "bits": 2, "levels": [-2, 5, 127], "per": "row", "scale": "f32"}`,
		"main.go": `package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"example.com/own/kernels"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

const m, n, k = 7, 3, 241

func main() {
	fmt.Println(kernels.Five.NewMatrix(format.Source{}, m, k))
	check(kernels.Five, 288)
	check(kernels.OddRows, k)
}

// check multiplies k columns, in rows that are filled up to some more, and compares with floats.
func check(p *runtime.Product, filled int) {
	rng := rand.New(rand.NewPCG(1, 2))
	codes := make([]byte, m*filled)
	for i := range codes {
		codes[i] = byte(rng.IntN(len(p.Weight().Levels)))
	}
	src := p.Weight().NewSource(codes, m, filled, func(_ format.Shared, i int) float32 { return float32(1 + i%3) })
	w, err := p.NewMatrix(src, m, filled)
	if err != nil {
		panic(err)
	}
	x, y := make([]float32, n*filled), make([]float32, n*m)
	for i := range x {
		if i%filled < k {
			x[i] = float32(rng.IntN(255) - 127)
		}
	}
	for j := range n {
		x[j*filled] = 127 // so that activations are their own codes
	}
	if err := w.Multiply(y, x, n, runtime.Options{Threads: 2}); err != nil {
		panic(err)
	}
	for i := range y {
		sum, row := 0.0, i%m
		for c := range k {
			scale := src.Scales[p.Weight().ScaleIndex(row, c, filled)]
			sum += float64(x[i/m*filled+c]) * float64(p.Weight().Levels[codes[row*filled+c]]) * float64(scale)
		}
		if math.Abs(sum-float64(y[i])) > 1e-6*math.Abs(sum)+1 {
			panic(fmt.Sprint(p.Weight(), " ", i, ": ", y[i], ", want ", sum))
		}
	}
	fmt.Println(p.Weight(), "agrees")
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out := inShell(t, dir, `go mod init example.com/own
go get -tool github.com/tmacc/tmacc/cmd/tmacc
go tool tmacc tune -q -format five.json,odd.json -mode l2 -n 1 -only -trials 3 -time 1m -o kernels
go tool tmacc compile -q -format five.json -format odd.json `+only+` -no-measure -o kernels
go test ./...
go mod tidy
go run .
go tool tmacc report -html search.html
grep -o 'The best schedule for\|packed tile\|rank correlation\|a core reads' search.html | sort -u
`)
	for _, want := range []string{"five on ", "odd-rows on ", "builds, vets and passes its tests", "ok  \texample.com/own/kernels", "is 241; it must be a multiple of the group of 48, of weights or activations: fill rows up to 288",
		"five agrees", "odd-rows agrees", "a core reads\npacked tile\nrank correlation\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
