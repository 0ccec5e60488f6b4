package lower

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
)

var update = flag.Bool("update", false, "rewrite testdata")

// toyNames are the toy machines that testdata names.
var toyNames = map[string]Features{
	"all": toyAll, "none": 0, "dotu": toyDotU, "doti": toyDotI, "dot2": toyDot2 | toySel,
	"abs": toyDot2 | toySel | toyAbs, "products": toyProducts,
}

// Each file of testdata is a case of the pass its name begins with: comments, the
// machine ("toy NAME", with "place 1", "repeat 2" or "foldall" for a plan), the function
// before, "-->", the function after, without the unused code that the pass leaves. A case of "kernel" ends in machine operations.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, want, ok := strings.Cut(string(data), "-->\n")
	if !ok {
		t.Fatal("no -->")
	}
	target, p, text := parseCase(t, head)
	f, err := vir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txt"), "_")
	got := goldenRun(t, target, p, name, f)
	if *update {
		if err := os.WriteFile(file, []byte(head+"-->\n"+got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// parseCase takes the comments and the toy line off a case.
func parseCase(t *testing.T, head string) (target toy, p plan, text string) {
	has := Features(toyAll)
	for line := range strings.Lines(head) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "toy "):
			var known bool
			if has, known = toyNames[words[1]]; !known {
				t.Fatalf("no toy %s", words[1])
			}
			p.foldAll = strings.Contains(line, "foldall")
			if strings.Contains(line, "place 1") {
				p.place = 1
			}
			if strings.Contains(line, "repeat 2") {
				p.repeat = 2
			}
		default:
			text += line
		}
	}
	return newToy(has), p, text
}

func goldenRun(t *testing.T, target toy, p plan, pass string, f *vir.Func) string {
	if pass == "kernel" {
		k, err := Compile(target, f)
		if err != nil {
			return err.Error() + "\n"
		}
		if err := replay(k, 3); err != nil {
			t.Error(err)
		}
		return Dump(k)
	}
	x := newTable(target)
	p.sink, p.reload = sinkAll, true
	if pass == "leaves" {
		p.sink = sinkLeaves
	}
	for _, ps := range append(x.front(), x.back(p)...) {
		if ps.name != pass {
			continue
		}
		g, err := ps.run(f)
		if err != nil {
			return err.Error() + "\n"
		}
		if ps.leaves&unusedCode != 0 {
			if g, err = dce(g); err != nil {
				t.Fatal(err)
			}
		}
		if err := vir.Verify(g); err != nil {
			t.Fatal(err)
		}
		return g.String()
	}
	t.Fatalf("no pass %s", pass)
	return ""
}
