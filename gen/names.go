package gen

import (
	"errors"
	"fmt"
	godoc "go/doc"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/gomod"
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
	case gomod.Device(name):
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
