package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// TestReadme follows the first screen of README.md: its two commands in a new module, then its program. The program is
// the one of examples/small, whose imports the screen leaves out.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	program, err := os.ReadFile("../examples/small/main.go")
	if err != nil {
		t.Fatal(err)
	}
	screen := firstScreen(t)
	commands, code := shorter(t, fencedText(t, screen, "sh")), fencedText(t, screen, "go")
	if !strings.HasSuffix(string(program), code) {
		t.Errorf("the program of README.md is not the end of examples/small/main.go:\n%s", code)
	}
	script := "go mod init example.com/small\n" + commands + "cat >main.go <<'END OF FILE'\n" + string(program) + "END OF FILE\ngo mod tidy\ngo run .\n"
	if out := inShell(t, t.TempDir(), script); !strings.HasSuffix(out, "[128 256] <nil>\n") {
		t.Errorf("the program prints something else:\n%s", out)
	}
}

// firstScreen is README.md up to its first section. It fits one page of a terminal.
func firstScreen(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	screen, _, _ := strings.Cut(string(text), "\n## ")
	lines := strings.Split(screen, "\n")
	if len(lines) > 45 {
		t.Errorf("the first screen of README.md has %d lines, of 45", len(lines))
	}
	for _, line := range lines {
		if len([]rune(line)) > 100 {
			t.Errorf("more than 100 characters on the first screen of README.md: %s", line)
		}
	}
	return screen
}

// fencedText is the text of the only block of a language.
func fencedText(t *testing.T, page, language string) string {
	t.Helper()
	var found []string
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		if m[2] == language {
			found = append(found, m[3])
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of %s, not one", len(found), language)
	}
	return found[0]
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	code    = regexp.MustCompile("(?ms)^```.*?^```$")
)

// TestLinks: links of all Markdown pages lead to files of the repository, and to headings that are there.
func TestLinks(t *testing.T) {
	links := 0
	for _, page := range markdown(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			links++
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if anchor != "" && !hasAnchor(t, target, anchor) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links found", links)
	}
}

// markdown lists the pages of the repository.
func markdown(t *testing.T) []string {
	t.Helper()
	var pages []string
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			pages = append(pages, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// hasAnchor: a heading of the page becomes the anchor: lower case, - for spaces, and no punctuation.
func hasAnchor(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		name := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(name, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestFormatNames: the names that docs/formats.md explains are formats.
func TestFormatNames(t *testing.T) {
	text, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("(?m)^\\| `([^`]*)` \\|").FindAllStringSubmatch(string(text), -1)
	for _, m := range names {
		name := strings.TrimSuffix(m[1], ir.FloatSuffix)
		if w, err := format.Lookup(name); err != nil || w.String() != name {
			t.Errorf("docs/formats.md explains %s: %v", m[1], err)
		}
	}
	if len(names) < 5 {
		t.Errorf("only %d names found", len(names))
	}
}

// TestLab: docs/lab/README.md names every file of its folder.
func TestLab(t *testing.T) {
	const lab = "../docs/lab"
	index, err := os.ReadFile(filepath.Join(lab, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(lab, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		folder := "`" + filepath.Base(filepath.Dir(path)) + "`" // a row of its own stands for its files
		if name := d.Name(); name != "README.md" && !strings.Contains(string(index), name) && !strings.Contains(string(index), folder) {
			t.Errorf("docs/lab/README.md does not say what %s is", path)
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files: %v", files, err)
	}
}
