package gen

import (
	"errors"
	"fmt"
	godoc "go/doc"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tmacc/tmacc/lower"
)

var (
	packageName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	productName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	targetName  = regexp.MustCompile(`^[a-z][a-z0-9]*(\+[a-z][a-z0-9]*(-[a-z0-9]+)*)?$`)
	kernelName  = regexp.MustCompile(`^[a-z][A-Za-z0-9_]*$`)
)

// reserved are names of packages that Go gives a meaning of its own: a program; what must be a function; what the go
// command leaves out.
var reserved = []string{"main", "init", "documentation"}

// longestPackage leaves room for the ends of files' names, which may have 255 bytes.
const longestPackage = 200

// CheckPackage is an error if Go cannot build, or import, a package of kernels of that name, or its files cannot be
// called so.
func CheckPackage(name string) error {
	switch {
	case !packageName.MatchString(name):
		return errors.New("the name must be lower-case letters and digits")
	case len(name) > longestPackage:
		return fmt.Errorf("the name must have at most %d letters: files are called by it", longestPackage)
	case token.IsKeyword(name):
		return errors.New("the name must be no keyword of Go")
	case slices.Contains(reserved, name):
		return errors.New("the name must not be " + strings.Join(reserved[:len(reserved)-1], ", ") + " or " + reserved[len(reserved)-1])
	case slices.Contains(devices, name):
		return errors.New("Windows takes the name for a device")
	}
	return nil
}

// CheckProduct is an error if no product of a package with several can have a name.
func CheckProduct(name string) error {
	if !productName.MatchString(name) {
		return errors.New("the name must be letters and digits and begin with a capital")
	}
	return nil
}

// imported are the packages that files of a package import, by the names that they have there.
var imported = []string{"runtime", "abi", "cpu", "format", "gguf", "fmt", "rand", "testing"}

// CheckKernel is an error if no function in assembly can have a name: in the file that declares it, types of Go and
// imported packages have theirs.
func CheckKernel(name string) error {
	switch {
	case !kernelName.MatchString(name):
		return errors.New("the name must be letters, digits and '_' and begin with a small letter")
	case Meant(name) || slices.Contains(imported, name):
		return errors.New("the name has a meaning of its own in Go")
	}
	return nil
}

// Meant says that a name means something in Go, so that no function can be declared by it without harm.
func Meant(name string) bool {
	return token.IsKeyword(name) || godoc.IsPredeclared(name) || name == "init" || name == "main" || name == "_"
}

// devices are names that Windows takes for devices, whatever comes behind a dot in them.
var devices = []string{"con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
	"lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9"}

// shortened ends what Windows makes of long names: "PROGRA~1".
var shortened = regexp.MustCompile(`~[0-9]+$`)

// CheckPath is an error if the go command takes no package, or module, of that import path: it has the rules of
// golang.org/x/mod/module.CheckImportPath, and no argument of a command may look like a flag.
func CheckPath(path string) error {
	elements := strings.Split(path, "/")
	for _, e := range elements {
		if err := checkElement(e); err != nil {
			return err
		}
	}
	if last := elements[len(elements)-1]; strings.ContainsRune("-~+", rune(last[0])) {
		return fmt.Errorf("%q begins with %q", last, last[0])
	}
	if path[0] == '-' {
		return errors.New("it begins with '-'")
	}
	return nil
}

// checkElement checks what stands between two slashes.
func checkElement(e string) error {
	for _, r := range e {
		if r >= utf8.RuneSelf || !wordByte(byte(r)) && !strings.ContainsRune("-.~+", r) {
			return fmt.Errorf("%q has the character %q: want English letters, digits and - . _ ~ +", e, r)
		}
	}
	short, _, _ := strings.Cut(e, ".")
	switch {
	case e == "":
		return errors.New("a part of it is empty")
	case strings.HasSuffix(e, "."):
		return fmt.Errorf("%q ends in a dot", e)
	case slices.Contains(devices, strings.ToLower(short)):
		return fmt.Errorf("Windows takes %q for a device", e)
	case shortened.MatchString(short):
		return fmt.Errorf("%q looks like a name that Windows has shortened", e)
	}
	return nil
}

// FileNames lists the files of a package with targets, without go.mod. tensors says whether the package has tensors.
func FileNames(pkg string, ts []lower.Target, tensors bool) []string {
	names := []string{pkg + ".go", pkg + "_test.go"}
	if tensors {
		names = append(names, pkg+"_tensors.go")
	}
	if len(ts) > 0 {
		names = append(names, pkg+"_noasm.go")
	}
	for _, t := range ts {
		m := t.Machine()
		names = append(names, pkg+"_dispatch_"+m.Arch()+".go", pkg+"_stubs_"+m.Arch()+".go", pkg+"_"+m.Identifier()+"_"+m.Arch()+".s")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Check is an error if Package has one for the names in s, whatever is compiled for its products: it needs no Targets.
func Check(s Spec) error {
	_, err := newWriter(s)
	return err
}
