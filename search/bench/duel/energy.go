package duel

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Energy reads the meters of the processors' packages, as Linux's powercap has them.
type Energy struct {
	root  fs.FS
	zones []zone
}

// zone is one meter: its files, and the microjoules at which it begins again.
type zone struct {
	file string
	most uint64
}

// NewEnergy finds the meters below a root, usually that of the system. It is nil if there are none, or none that this process may
// read: energy is then not known.
func NewEnergy(root fs.FS) *Energy {
	names, err := fs.Glob(root, "sys/class/powercap/*/name")
	if err != nil {
		return nil
	}
	e := &Energy{root: root}
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil || !strings.HasPrefix(string(text), "package-") {
			continue // a part of a package, or a platform
		}
		z := zone{file: path.Join(path.Dir(name), "energy_uj")}
		_, readable := number(root, z.file)
		var known bool
		z.most, known = number(root, path.Join(path.Dir(name), "max_energy_range_uj"))
		if !readable || !known {
			return nil // the sum would be too small
		}
		e.zones = append(e.zones, z)
	}
	if len(e.zones) == 0 {
		return nil
	}
	return e
}

// number is the number in a file, if there is one.
func number(root fs.FS, name string) (uint64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// read is the state of all meters, nil of a nil Energy.
func (e *Energy) read() []uint64 {
	if e == nil {
		return nil
	}
	state := make([]uint64, len(e.zones))
	for i, z := range e.zones {
		state[i], _ = number(e.root, z.file)
	}
	return state
}

// since is the joules since a state, 0 of a nil Energy. A meter may have begun again once.
func (e *Energy) since(before []uint64) (joules float64) {
	if e == nil {
		return 0
	}
	for i, now := range e.read() {
		used := now - before[i]
		if now < before[i] {
			used += e.zones[i].most + 1
		}
		joules += float64(used) / 1e6
	}
	return joules
}
