package explorer

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/explore"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

// update measures for the page, so it needs AVX2.
var update = flag.Bool("update", false, "write the screens of docs/explore.md again, with figures of this machine")

// onPage are the figures of a terminal that the page names.
const (
	page_       = "../../../docs/explore.md"
	wideOnPage  = 80
	highOnPage  = 18
	renewsPage  = "go test ./cmd/tmacc/explorer -run TestPageOfScreens -update"
	afterUpdate = "the page has today's screens: look at them, and at the sentences around them"
)

var (
	commandOnPage = regexp.MustCompile("(?m)^```\ntmacc explore -format (\\S+) -target (\\S+) -mode (\\S+)\n```$")
	screenOnPage  = regexp.MustCompile("(?ms)^Keys: ([^\n]+)\n\n```\n(.*?)^```$")
	keyOnPage     = regexp.MustCompile("`([^`]+)`")
	figureOnPage  = regexp.MustCompile(`measured (\d+\.\d+) ± (\d+\.\d+)`)
)

// shownOnPage is what the page's screens are there to show.
var shownOnPage = []string{
	`(?m)^ \d\.\d{3} split k `,                    // other sizes of records
	`measured .* of the default(.|\n)*│\+ `,       // a figure, and lines that the change has made
	`right/left: predicted .*measured(.|\n)* \| `, // two schedules, and lines that differ
	`step \d+ is illegal`,
	`registers are needed, and there are`,
}

// The screens of docs/explore.md are those that its keys lead to. Only its measured times are its own: the test reads them there, and does not measure.
// A change of the default schedule makes other screens.
func TestPageOfScreens(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the page was made on amd64: where products of floats are fused, schedules may be others")
	}
	data, err := os.ReadFile(page_)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	s := openedAsOnPage(t, text)
	screens := screenOnPage.FindAllStringSubmatchIndex(text, -1)
	if len(screens) != len(shownOnPage) {
		t.Fatalf("%s has %d screens below keys, want %d", page_, len(screens), len(shownOnPage))
	}
	renewed, end := "", 0
	for i, at := range screens {
		keys, block := text[at[2]:at[3]], text[at[4]:at[5]]
		for _, k := range keyOnPage.FindAllStringSubmatch(keys, -1) {
			s.follow(k[1], block)
		}
		got := s.trimmed()
		if !regexp.MustCompile(shownOnPage[i]).MatchString(got) {
			t.Errorf("screen %d of %s, by the keys %s, is there to show %s: choose keys that lead to it\n%s", i+1, page_, keys, shownOnPage[i], got)
		}
		if got != block && !*update {
			t.Errorf("screen %d of %s, by the keys %s, is another one now. If the default schedule is, run\n\n  %s\n\nand read the page: its sentences name steps of the schedule. Now:\n%s\non the page:\n%s",
				i+1, page_, keys, renewsPage, got, block)
		}
		renewed, end = renewed+text[end:at[4]]+got, at[5]
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(page_, []byte(renewed+text[end:]), 0o666); err != nil {
			t.Fatal(err)
		}
		t.Log(afterUpdate)
	}
}

// pageScreen is a screen whose measurements are the page's.
type pageScreen struct {
	*screen
	beside   map[string]*explore.Measured // the default schedule, by trace
	compared *explore.Measured            // the last of key c
}

// openedAsOnPage is the interface that the page's command opens.
func openedAsOnPage(t *testing.T, page string) *pageScreen {
	t.Helper()
	flags := commandOnPage.FindStringSubmatch(page)
	if flags == nil {
		t.Fatalf("no command like %v in %s", commandOnPage, page_)
	}
	p, err := ir.Named(flags[1])
	if err != nil {
		t.Fatal(err)
	}
	e, err := explore.Open(t.Context(), explore.Options{Problem: p, Target: targets.ByName("amd64/" + flags[2]), Columns: 1, Modes: strings.Split(flags[3], ","),
		Log: session.NoLog, Lock: filepath.Join(t.TempDir(), tune.LockName), Defaults: &defaults.Chooser{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s := &pageScreen{screen: &screen{Model: New(t.Context(), e), t: t, ended: make(chan tea.Msg, 100)}, beside: map[string]*explore.Measured{}}
	s.start(s.Init())
	s.send(tea.WindowSizeMsg{Width: wideOnPage, Height: highOnPage})
	s.settle()
	return s
}

// follow presses a key of the page, or writes a command that begins with a colon. The measurement of a key is in the block of the screen it leads to.
func (s *pageScreen) follow(key, block string) {
	s.t.Helper()
	command, writes := strings.CutPrefix(key, ":")
	switch {
	case writes:
		s.keys(":", "'"+command)
	case len(key) > 1:
		s.keys(strings.ToLower(key))
	case key == "m" && !*update:
		m := s.figure(block, "the default schedule")
		s.beside[s.Now().String()] = m
		s.send(doneMsg{line: "measure", reply: m})
	case key == "c" && !*update:
		s.compared = s.figure(block, "the marked schedule")
		s.show(pairPage)
		s.send(doneMsg{line: "compare", reply: s.compared})
	default:
		s.keys(key)
	}
	s.settle()
	if !*update {
		s.insert()
	}
}

// figure is the first measurement of a block.
func (s *pageScreen) figure(block, base string) *explore.Measured {
	s.t.Helper()
	x := figureOnPage.FindStringSubmatch(block)
	if x == nil {
		s.t.Fatalf("the page has no measurement in\n%s\n%s makes one", block, renewsPage)
	}
	median, _ := strconv.ParseFloat(x[1], 64)
	noise, _ := strconv.ParseFloat(x[2], 64)
	if len(x[2]) > len("0.01") { // it was written with three digits, which is for less
		noise = min(noise, 0.0099)
	}
	return &explore.Measured{Base: base, Ratio: tune.Ratio{Median: median, Low: median, High: median + noise + 1e-9}}
}

// insert shows the page's measurements where this machine's would stand.
func (s *pageScreen) insert() {
	s.state.Measured = s.beside[s.Now().String()]
	for i, n := range s.list {
		s.list[i].Measured = s.beside[n.Trace.String()]
	}
	if len(s.pair.Rows) > 0 {
		s.pair.Measured = s.compared
	}
}

// trimmed is the screen without spaces at the ends of rows.
func (s *pageScreen) trimmed() string {
	var out strings.Builder
	for line := range strings.SplitSeq(s.text(), "\n") {
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}
