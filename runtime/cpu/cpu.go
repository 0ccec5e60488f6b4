// Package cpu tells processor cores apart by what CPUs say of themselves.
package cpu

import "fmt"

// ID is a CPU as CPUID describes it: "AuthenticAMD", family 25, model 97. The zero ID is a CPU that says nothing.
type ID struct {
	Vendor        string
	Family, Model int
}

// Set is CPUs of one vendor: those from the first to the last family and model. A last one of 0 is no limit.
type Set struct {
	Vendor      string `json:"vendor"`
	FirstFamily int    `json:"first_family,omitempty"`
	LastFamily  int    `json:"last_family,omitempty"`
	FirstModel  int    `json:"first_model,omitempty"`
	LastModel   int    `json:"last_model,omitempty"`
}

// Has says that id is one of s.
func (s Set) Has(id ID) bool {
	return s.Vendor == id.Vendor && within(id.Family, s.FirstFamily, s.LastFamily) && within(id.Model, s.FirstModel, s.LastModel)
}

func within(n, first, last int) bool { return n >= first && (n <= last || last == 0) }

// String is s for people: "AuthenticAMD family 25", "AuthenticAMD from family 26 on".
func (s Set) String() string {
	return s.Vendor + limits("family", s.FirstFamily, s.LastFamily) + limits("model", s.FirstModel, s.LastModel)
}

func limits(what string, first, last int) string {
	switch {
	case first == 0 && last == 0:
		return ""
	case first == last:
		return fmt.Sprintf(" %s %d", what, first)
	case last == 0:
		return fmt.Sprintf(" from %s %d on", what, first)
	}
	return fmt.Sprintf(" %s %d to %d", what, first, last)
}

// Among says that id is in one of the sets.
func Among(sets []Set, id ID) bool {
	for _, s := range sets {
		if s.Has(id) {
			return true
		}
	}
	return false
}
