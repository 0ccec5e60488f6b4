package command

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// kernelTable has traces that begin and end alike, like the traces of a product's kernels.
func kernelTable() *table {
	t := &table{head: []string{"kernel", "trace", "exact", "GEMV Gw/s"}, wide: 1, parts: "; "}
	const begin, end = "decompose dot affine; hoist_zero init; bind nt outer; bind mt outer; bind ro outer", "bind l vector; bind u unrolled"
	for _, x := range []struct{ name, own string }{{"w2_n1", "split n 1; stage w f"}, {"w2_n2", "split n 2; stage w f"}, {"w2_n4", "split n 4"}, {"w2_n4b", "split n 4"}} {
		t.add(x.name, begin+"; "+x.own+"; "+end, "yes", "28.3")
	}
	return t
}

// A table that is too wide shows in each row what tells it from the row above, however narrow the terminal.
func TestTableShowsDifferences(t *testing.T) {
	own := []string{"decompose dot affine; hoist_zero init; bind nt outer; bind mt outer; bind ro outer; split n 1; stage w f; bind l vector; bind u unrolled",
		"…; split n 2; …", "…; split n 4; without stage w f; …"}
	for _, width := range []int{170, 120, 80, 60, 40, 30} {
		var b strings.Builder
		kernelTable().print(&b, width)
		flat := strings.Join(strings.Fields(strings.NewReplacer(" yes ", "", "28.3", "").Replace(b.String())), " ")
		for _, want := range own {
			if width < 100 && !strings.Contains(flat, want) {
				t.Errorf("width %d: no %q in\n%s", width, want, &b)
			}
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > width {
				t.Errorf("width %d: a line of %d in\n%s", width, n, &b)
			}
		}
		if width == 80 && !strings.Contains(flat, "trace: … is what the row above has there.") {
			t.Errorf("no note in\n%s", &b)
		}
		if width == 40 && !strings.Contains(b.String(), "\nw2_n2   yes         28.3\n    …; split n 2; …\n") {
			t.Errorf("the trace is not below its row:\n%s", &b)
		}
		if width == 170 && strings.Contains(b.String(), "…") {
			t.Errorf("there is room for all:\n%s", &b)
		}
	}
}

// What a row does not show can be read from the row above: no item is lost.
func TestChangesAreWhole(t *testing.T) {
	for _, x := range []struct{ before, list, want string }{
		{"a, b, c", "a, b, c", "…"},
		{"a, b 1, c", "a, b 2, c", "…, b 2, …"},
		{"a, b 1, c", "a, d, c", "…, d, without b 1, …"},
		{"a, b 1, b 2, c", "a, b 3, c", "…, b 3, without b 2, …"},
		{"a, b, c", "a, c", "…, without b, …"},
		{"a, c", "a, b, c", "…, b, …"},
		{"a, b", "c, d", "c, d, without a, without b"},
		{"a, b, c, d", "b, d, e", "without a, …, without c, …, e"},
		{"a, a, b", "a, b", "…, without a, …"},
	} {
		if got := strings.Join(changes(strings.Split(x.before, ", "), strings.Split(x.list, ", ")), ", "); got != x.want {
			t.Errorf("%s after %s: %s, want %s", x.list, x.before, got, x.want)
		}
	}
	rng := rand.New(rand.NewSource(1))
	some := func() (out []string) {
		for range rng.Intn(7) {
			out = append(out, string(rune('a'+rng.Intn(4))))
		}
		return out
	}
	for range 2000 {
		before, list := some(), some()
		same := common(before, list)
		for _, all := range [][]string{before, list} {
			if rest := withoutAll(all, same); len(rest) != len(all)-len(same) {
				t.Fatalf("%v is not in %v in that order", same, all)
			}
		}
		shown := slices.DeleteFunc(changes(before, list), func(s string) bool { return s == "…" || strings.HasPrefix(s, "without ") })
		if !slices.Equal(shown, withoutAll(list, same)) {
			t.Fatalf("%v after %v shows %v", list, before, shown)
		}
	}
}

// withoutAll is a list without the items of another, in order.
func withoutAll(list, items []string) []string {
	out := []string{}
	for _, x := range list {
		if len(items) > 0 && x == items[0] {
			items = items[1:]
		} else {
			out = append(out, x)
		}
	}
	return out
}

// Every table with a wide column shows all of its cells in narrow terminals: what tells rows apart may be at their ends.
func TestTablesCutNothing(t *testing.T) {
	const long = "dram 4096x4096x1, dram 4096x4096x4, dram 4096x4096x256, l2 512x2048x1, l2 512x2048x4, l2 512x2048x25"
	for _, width := range []int{20, 40, 60, 80, 120, 160} {
		x := table{head: []string{"began", "for", "best"}, wide: 1}
		for i := range 3 {
			x.add("2026-11-26 21:00:00", fmt.Sprint(long, i), "0.912")
		}
		var b strings.Builder
		x.print(&b, width)
		flat := strings.NewReplacer("2026-11-26 21:00:00", "", "0.912", "").Replace(b.String())
		flat = strings.Join(strings.Fields(flat), "")
		for i := range 3 {
			if want := strings.ReplaceAll(fmt.Sprint(long, i), " ", ""); !strings.Contains(flat, want) {
				t.Errorf("width %d: no %s%d in\n%s", width, long, i, &b)
			}
		}
	}
	if got := wrap("aa bb cccccc d", 5); !slices.Equal(got, []string{"aa bb", "ccccc", "c d"}) {
		t.Errorf("wrapped: %q", got)
	}
	if got := wrap("", 0); !slices.Equal(got, []string{""}) {
		t.Errorf("nothing wrapped: %q", got)
	}
}
