package gomod

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// devices are names that Windows takes for devices, whatever comes behind a dot in them.
var devices = []string{"con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
	"lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9"}

// Device reports whether Windows takes a name in small letters for a device.
func Device(name string) bool { return slices.Contains(devices, name) }

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
	case Device(strings.ToLower(short)):
		return fmt.Errorf("Windows takes %q for a device", e)
	case shortened.MatchString(short):
		return fmt.Errorf("%q looks like a name that Windows has shortened", e)
	}
	return nil
}

// wordByte reports whether c is an English letter, a digit or '_'.
func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
