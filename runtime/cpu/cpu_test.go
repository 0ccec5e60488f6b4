package cpu

import "testing"

func TestSets(t *testing.T) {
	const amd, intel = "AuthenticAMD", "GenuineIntel"
	for _, c := range []struct {
		set  Set
		text string
		in   []ID
		out  []ID
	}{
		{Set{Vendor: amd}, amd, []ID{{amd, 0, 0}, {amd, 23, 1}, {amd, 99, 200}}, []ID{{}, {intel, 6, 1}, {"authenticamd", 23, 1}}},
		{Set{Vendor: amd, FirstFamily: 25, LastFamily: 25}, amd + " family 25", []ID{{amd, 25, 0}, {amd, 25, 97}}, []ID{{amd, 24, 97}, {amd, 26, 0}, {intel, 25, 0}}},
		{Set{Vendor: amd, FirstFamily: 26}, amd + " from family 26 on", []ID{{amd, 26, 0}, {amd, 27, 3}}, []ID{{amd, 25, 97}}},
		{Set{intel, 6, 6, 170, 172}, intel + " family 6 model 170 to 172", []ID{{intel, 6, 170}, {intel, 6, 172}}, []ID{{intel, 6, 169}, {intel, 6, 173}, {intel, 7, 171}}},
	} {
		if got := c.set.String(); got != c.text {
			t.Errorf("%q, want %q", got, c.text)
		}
		for _, id := range c.in {
			if !c.set.Has(id) || !Among([]Set{{Vendor: "other"}, c.set}, id) {
				t.Errorf("%v is not one of %v", id, c.set)
			}
		}
		for _, id := range c.out {
			if c.set.Has(id) || Among([]Set{c.set}, id) {
				t.Errorf("%v is one of %v", id, c.set)
			}
		}
	}
	if Among(nil, ID{}) {
		t.Error("no sets have a CPU")
	}
}
