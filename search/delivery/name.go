package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/message"
)

// nameFor is the name of the package in dir: the asked one, else the one that go generate says of the directory it runs
// in, else the name of the Go files in dir, else the name of dir. Go files in dir must be of that package.
func nameFor(dir, asked string) (string, error) {
	if asked != "" {
		if err := gen.CheckPackage(asked); err != nil {
			return "", fmt.Errorf("-package %s: %w", message.Quoted(asked), err)
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, name := range []string{asked, generated(abs), packageIn(abs), filepath.Base(abs), "kernels"} {
		if gen.CheckPackage(name) == nil {
			return name, onePackage(dir, name)
		}
	}
	panic("BUG: kernels is no name of a package")
}

// generated is the package for whose file go generate runs this program, if that file lies in dir.
func generated(dir string) string {
	if wd, err := os.Getwd(); err != nil || wd != dir {
		return ""
	}
	return os.Getenv("GOPACKAGE")
}

// packageIn is the package of the Go files in dir, "" if there are none.
func packageIn(dir string) string {
	name := ""
	_ = eachPackage(dir, func(_, of string) error { // onePackage reports files that cannot be read
		name = cmp.Or(name, of)
		return nil
	})
	return name
}

// onePackage refuses a directory with Go files of another package.
func onePackage(dir, name string) error {
	return eachPackage(dir, func(path, of string) error {
		if of == name {
			return nil
		}
		return fmt.Errorf("%s is of package %s, the kernels beside it would be of %s: %s", path, of, name, remedy(of))
	})
}

// eachPackage calls f with each Go file in dir and its package. It leaves out tests and files that go build leaves out:
// they may be of any package. It leaves out files that are no Go: the go command reports them.
func eachPackage(dir string, f func(path, of string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return message.Plain(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if built, err := build.Default.MatchFile(dir, e.Name()); err != nil || !built {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
		if err != nil {
			continue
		}
		if err := f(path, file.Name.Name); err != nil {
			return err
		}
	}
	return nil
}

// remedy says what to do if files of another package lie in the directory.
func remedy(other string) string {
	if gen.CheckPackage(other) == nil {
		return fmt.Sprintf("give -package %s (in tmacc.yaml package: %s), or another directory with -o", other, other)
	}
	return fmt.Sprintf("kernels cannot be of %s: give another directory with -o, or rename that package and give -package", other)
}
