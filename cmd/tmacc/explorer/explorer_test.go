package explorer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/explore"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain makes this test its own worker.
func TestMain(m *testing.M) {
	session.Main()
	chosen.Share()
	sparing.Run(m)
}

// usual chooses default schedules without records.
var usual = &defaults.Chooser{NoRecords: true}

// screen is a model that is driven as a terminal would, without one.
type screen struct {
	*Model
	t       *testing.T
	ended   chan tea.Msg
	running int
	quit    bool
}

// started is the interface to a small product on a screen of a size.
func started(t *testing.T, width, height int) *screen {
	t.Helper()
	var trace schedule.Trace
	data, err := os.ReadFile("../../../search/explore/testdata/w2.json")
	if err == nil {
		err = json.Unmarshal(data, &trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	e, err := explore.Open(t.Context(), explore.Options{Problem: p, Target: targets.ByName("amd64/avx2"), Columns: 1, Modes: []string{"l2"}, M: 64, K: 256,
		Trace: trace, Origin: "a file", Only: true, Log: session.NoLog, Lock: filepath.Join(t.TempDir(), tune.LockName), Defaults: usual})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s := &screen{Model: New(t.Context(), e), t: t, ended: make(chan tea.Msg, 100)}
	s.start(s.Init())
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	s.settle()
	return s
}

// start runs a command beside the test.
func (s *screen) start(cmd tea.Cmd) {
	if cmd != nil {
		s.running++
		go func() { s.ended <- cmd() }()
	}
}

// send gives a message to the model.
func (s *screen) send(msg tea.Msg) {
	switch x := msg.(type) {
	case tea.BatchMsg:
		for _, cmd := range x {
			s.start(cmd)
		}
	case tea.QuitMsg:
		s.quit = true
	case nil:
	default:
		_, cmd := s.Update(msg)
		s.start(cmd)
	}
}

// step waits for one command that ends.
func (s *screen) step() {
	select {
	case msg := <-s.ended:
		s.running--
		s.send(msg)
	case <-time.After(3 * time.Minute):
		s.t.Fatalf("nothing happens:\n%s", s.text())
	}
}

// settle waits until nothing runs any more. The cursor of the line to write blinks, which it does not wait for.
func (s *screen) settle() {
	for s.running > 0 && !s.asking {
		s.step()
	}
	s.check()
}

// keys presses keys, each a name or a character; text in quotes is written.
func (s *screen) keys(all ...string) {
	s.t.Helper()
	for _, k := range all {
		if text, ok := strings.CutPrefix(k, "'"); ok {
			for _, r := range text {
				s.send(tea.KeyPressMsg{Code: r, Text: string(r)})
			}
			continue
		}
		s.send(pressed(k))
		s.settle()
	}
}

func pressed(k string) tea.KeyPressMsg {
	for name, code := range map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown,
		"end": tea.KeyEnd, "home": tea.KeyHome, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "left": tea.KeyLeft, "right": tea.KeyRight} {
		if k == name {
			return tea.KeyPressMsg{Code: code}
		}
	}
	if k == "ctrl+c" {
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	if k == "ctrl+u" {
		return tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl}
	}
	r, _ := utf8.DecodeRuneInString(k)
	return tea.KeyPressMsg{Code: r, Text: k}
}

var colours = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// text is the screen without colours.
func (s *screen) text() string { return colours.ReplaceAllString(s.screen(), "") }

// check holds the screen to its size.
func (s *screen) check() {
	s.t.Helper()
	lines := strings.Split(s.text(), "\n")
	if len(lines) > s.height {
		s.t.Fatalf("%d rows of %d:\n%s", len(lines), s.height, s.text())
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > s.width && !(s.asking && i == len(lines)-1) {
			s.t.Fatalf("row %d has %d columns of %d:\n%s", i, n, s.width, s.text())
		}
	}
}

// shows fails unless the screen has all texts.
func (s *screen) shows(texts ...string) {
	s.t.Helper()
	for _, x := range texts {
		if !strings.Contains(s.text(), x) {
			s.t.Errorf("no %q in\n%s", x, s.text())
		}
	}
}

// An illegal tile shows its reason, is mended, measured, and a search runs while keys still work; all is undone and saved, and the lock follows.
func TestExplorer(t *testing.T) {
	s := started(t, 80, 24)
	s.shows("w2 on amd64/avx2, n = 1 | predicted ", "nest matmul", "? help")
	s.keys("down", "down", "down", "down", "down", "down", "down", "e", "ctrl+u", "'edit 7 by=3", "enter")
	s.settle()
	s.shows("! 7 split mi 3 ro mb", "! step 7 is illegal: split mi: 3 does not divide its extent 8", "no kernel")
	s.keys("u")
	s.shows("  7 split mi 8 ro mb", "| predicted ")
	if len(s.list) == 0 {
		t.Fatalf("no offer:\n%s", s.text())
	}
	before := s.Now().String()
	s.keys("tab", "enter")
	if s.state.Changes != 1 || s.Now().String() == before {
		t.Errorf("no offer is taken:\n%s", s.text())
	}
	if !runs(s.Target) {
		t.Skip("this machine does not run " + s.Target.Machine().Name)
	}
	s.keys("v", "ctrl+u", "'values 11 by", "enter")
	s.settle()
	for i, n := range s.list { // a slower schedule that is legal
		if n.Predicts.Refused == "" && n.Predicts.Ratio > 1.1 {
			s.views[nextPane].at = i
		}
	}
	s.keys("enter", "m")
	s.shows("measured")
	s.keys("c")
	s.shows("of the time of the ma", "right/left: ", ", measured ", "the marked schedule", "the schedule ", " | ", "VPXOR")
	s.keys("[", "W")
	s.shows("locked in ")
	if l, err := tune.ReadLock(s.Lock); err != nil || len(l.Entries) != 1 || l.Entries[0].Kernels[0].Trace.String() != s.Now().String() {
		t.Errorf("%+v, %v", l, err)
	}
	s.keys("s", "ctrl+u", "'search 60", "enter") // on a busy machine the first candidate takes seconds
	for s.job != nil && s.Best() == nil {
		s.step()
	}
	s.send(pressed("["))
	if s.job != nil {
		s.send(pressed("esc"))
	}
	s.settle()
	s.shows("ended by")
	s.keys("b", "U")
	s.keys(":", "'take default", "enter")
	s.settle()
	s.keys("w")
	s.shows("removed from")
	s.keys("q")
	if s.settle(); !s.quit {
		t.Error("it does not end")
	}
}

func runs(x lower.Selector) bool {
	for _, t := range measure.Targets() {
		if t.Machine().Name == x.Machine().Name {
			return true
		}
	}
	return false
}

// Every key does something sensible on screens of any size, in any pane, and no row is too long.
func TestSizes(t *testing.T) {
	s := started(t, 40, 10)
	all := bindings()
	for _, size := range [][2]int{{40, 10}, {80, 24}, {200, 60}, {72, 16}, {20, 4}, {3, 2}, {1, 1}} {
		s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for range panes {
			s.keys("tab")
			for _, b := range all {
				switch k := b.Keys()[len(b.Keys())-1]; k {
				case "m", "c", "R", "w", "W", "q", "y", "s", "x": // these measure, leave or write
				default:
					s.send(pressed(k))
					s.check()
					s.send(pressed("esc"))
					s.check()
				}
			}
			s.send(tea.MouseClickMsg{X: size[0] / 2, Y: size[1] / 2})
			s.send(tea.MouseWheelMsg{X: size[0] - 1, Y: 1, Button: tea.MouseWheelDown})
			s.check()
		}
		s.help = false
		s.settle()
	}
}

// A click moves the cursor of a pane, chooses a page, and takes an offer.
func TestMouse(t *testing.T) {
	s := started(t, 100, 30)
	click := func(x, y int) {
		s.send(tea.MouseClickMsg{X: x, Y: y})
		s.settle()
	}
	click(5, 7) // row 0 is the head, row 1 the title
	if s.Cursor() != 5 || s.focus != tracePane {
		t.Errorf("step %d, pane %d", s.Cursor(), s.focus)
	}
	b := s.boxes()[stagePane]
	column := 0
	for i, p := range pages()[:len(pages())-1] {
		click(b.x+column+1, b.y)
		if column += len(p.name) + 1; s.page != i {
			t.Errorf("page %d, want %s", s.page, p.name)
		}
		if p.name == "cost" {
			s.shows("execution units")
		}
	}
	b = s.boxes()[nextPane]
	before := s.Now().String()
	click(b.x+1, b.y+2)
	click(b.x+1, b.y+2)
	if s.Now().String() == before {
		t.Errorf("no offer is taken:\n%s", s.text())
	}
}

// The pages show the stages, with the lines that the last change has made.
func TestPages(t *testing.T) {
	s := started(t, 120, 50)
	s.keys(":", "'edit 5 by=16", "enter")
	s.settle()
	for i, want := range []string{"graph", "outer mt M/16", "a tile of 16 rows", "func matmul", "TEXT", "execution units"} {
		s.page = i
		s.start(s.turn(false))
		s.settle()
		if i > 0 {
			s.shows(want)
		}
	}
	s.keys(":", "'show layout", "enter")
	s.settle()
	s.shows(`"tile_m":16`)
	s.keys(":", "'nonsense", "enter")
	s.settle()
	s.shows(`unknown command "nonsense"`)
}

// The line under the cursor of a stage marks steps and lines of other stages, and a step marks lines.
func TestMarks(t *testing.T) {
	s := started(t, 120, 50)
	s.keys("tab", "tab", "]", "]", "]") // assembly
	for i, l := range s.shownLines() {
		if strings.Contains(l.Text, "dot2sat") {
			s.views[stagePane].at = i
			break
		}
	}
	s.keys("down", "up")
	s.shows("* 9 split mb 8 r mr")
	s.keys("[")
	if text := s.shownLines()[s.views[stagePane].at].Text; !strings.Contains(text, "dot2sat") {
		t.Errorf("the cursor is at %s", text)
	}
	s.keys("[", "[")                                                     // over the tile to the nest
	s.keys("tab", "end", "up", "up", "up", "up", "up", "up", "up", "up") // tensorize
	if s.Cursor() != 25 {
		t.Fatalf("step %d", s.Cursor())
	}
	s.keys("o")
	s.shows("* ", "dot ji 2")
}

// The help scrolls where the screen is too small for all keys. The list of live values is one key away, and two schedules stand side by side.
func TestSmall(t *testing.T) {
	s := started(t, 40, 10)
	s.keys("?")
	s.shows("this help")
	s.keys("end")
	s.shows("quit (also Ctrl-C)")
	s.keys("home")
	s.shows("this help")
	s.keys("esc", ":", "'edit 11 by=1", "enter")
	s.settle()
	s.shows("p: live values")
	s.keys("p")
	s.shows("registers are needed, and", "nest 24: acc2")
	s.keys("u")
	s.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	s.keys("M", ":", "'edit 11 by=4", "enter")
	s.settle()
	s.keys(":", "'beside", "enter")
	s.settle()
	s.shows("the marked schedule", "right/left: predicted ", "not measured", " | ", " > ")
	s.keys(":", "'mark wide", "enter")
	s.settle()
	s.keys("u", ":", "'beside nest wide", "enter")
	s.settle()
	s.shows("wide    ", "the schedule", " | ", "nest matmul")
}

// The row above names the product and its times. Where it is too narrow, it drops the name first, and says last of what the times are ratios.
func TestHead(t *testing.T) {
	s := started(t, 120, 24)
	s.state.Measured = &explore.Measured{Ratio: tune.Ratio{Median: 0.98, Low: 0.89, High: 1.07}}
	for _, c := range []struct {
		width int
		want  string
	}{
		{120, " w2 on amd64/avx2, n = 1 | predicted 1.000, measured 0.98 ± 0.09 of the default"},
		{72, " w2 on amd64/avx2 | predicted 1.000, measured 0.98 ± 0.09 of the default"},
		{60, " w2 | predicted 1.000, measured 0.98 ± 0.09 of the default"},
		{40, " measured 0.98 ± 0.09 of the default"},
		{26, " w2 | measured 0.98 ± 0.09"},
		{10, " measured…"},
	} {
		s.width = c.width
		if head := strings.TrimRight(colours.ReplaceAllString(s.head(), ""), " "); head != c.want {
			t.Errorf("%d columns: %q, want %q", c.width, head, c.want)
		}
	}
}

// What a search has found stands behind the figures of the schedule. On a narrow screen it stands alone while the search runs.
func TestHeadFound(t *testing.T) {
	running := explore.Found{Cost: 0.98, Noise: &tune.Ratio{Median: 0.98, Low: 0.92, High: 1.04}}
	ended := explore.Found{Cost: 0.98, Ended: "time", Confirmed: &explore.Measured{Ratio: tune.Ratio{Median: 1.08, Low: 0.89, High: 1.27}}}
	names, figures := []string{"w1 on amd64/avx2, n = 1", "w1"}, []string{"predicted 1.000 of the default", "predicted 1.000"}
	for _, c := range []struct {
		found explore.Found
		width int
		want  string
	}{
		{running, 120, " w1 on amd64/avx2, n = 1 | predicted 1.000 of the default | found 0.98 ± 0.06, unconfirmed"},
		{running, 80, " w1 | predicted 1.000 of the default | found 0.98 ± 0.06, unconfirmed"},
		{running, 50, " predicted 1.000 | found 0.98 ± 0.06, unconfirmed"},
		{running, 40, " w1 | found 0.98 ± 0.06, unconfirmed"},
		{running, 31, " found 0.98 ± 0.06, unconfirmed"},
		{running, 30, " w1 | predicted 1.000"},
		{ended, 40, " predicted 1.000 | found 1.08 ± 0.19"},
		{ended, 35, " predicted 1.000 of the default"},
	} {
		if head := headText(names, withFound(figures, &c.found), c.width); head != c.want {
			t.Errorf("%d columns: %q, want %q", c.width, head, c.want)
		}
	}
}

// No line of the help is cut on a screen of 40 columns, where the reason of a stage that there is none of has whole words.
func TestWords(t *testing.T) {
	s := started(t, 40, 10)
	for _, line := range help() {
		if utf8.RuneCountInString(line) >= 40 {
			t.Errorf("%q has no place in 40 columns", line)
		}
	}
	s.keys(":", "'edit 7 by=3", "enter")
	s.settle()
	s.keys("end", "tab")
	s.shows("nothing: mend the problem first")
	s.keys("tab")
	s.shows("stopped before: step 7: split mi: 3", "does not divide its extent 8")
	if got := wrapped("a word and averyveryverylongword", 8, 10); !slices.Equal(got, []string{"a word", "and aver", "yveryver", "ylongwor", "d"}) {
		t.Errorf("%q", got)
	}
}

// Colours differ for light and dark, and without any the marks stay.
func TestColours(t *testing.T) {
	s := started(t, 80, 24)
	dark := fmt.Sprint(s.styles.added.GetForeground())
	s.styles = newStyles(false)
	if light := fmt.Sprint(s.styles.added.GetForeground()); light == dark {
		t.Error("the same colour for light and dark")
	}
}

// The schedule may change, by a command that runs beside the interface, while the screen is drawn.
func TestChangesMeanwhile(t *testing.T) {
	s := started(t, 80, 24)
	long := s.Now()
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				s.Set(long[:2], 0)
				s.Set(long, len(long))
				s.Undo()
				s.Undo()
			}
		}
	}()
	for range 300 {
		s.check()
		s.edit()
		s.asking = false
	}
	close(stop)
	<-stopped
}
