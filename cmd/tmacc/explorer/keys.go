package explorer

import (
	"fmt"
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// binding is keys, and what they do.
type binding struct {
	key.Binding
	do func(m *Model) tea.Cmd
}

func bind(keys, about string, do func(m *Model) tea.Cmd, more ...string) binding {
	return binding{key.NewBinding(key.WithKeys(append(more, keys)...), key.WithHelp(keys, about)), do}
}

// bindings are all keys, in the order of the help.
func bindings() []binding {
	return []binding{
		bind("?", "this help, on and off", func(m *Model) tea.Cmd { m.help, m.helpTop = !m.help, 0; return nil }),
		bind("tab", "next pane (shift+tab: back)", func(m *Model) tea.Cmd { m.focus = (m.focus + 1) % panes; m.relate(); return nil }),
		bind("shift+tab", "", func(m *Model) tea.Cmd { m.focus = (m.focus + panes - 1) % panes; m.relate(); return nil }),
		bind("up", "move (also k; down: j)", moving(-1), "k"),
		bind("down", "", moving(1), "j"),
		bind("pgup", "a page up (pgdown: down)", func(m *Model) tea.Cmd { return m.move(-m.pageRows()) }),
		bind("pgdown", "", func(m *Model) tea.Cmd { return m.move(m.pageRows()) }),
		bind("home", "first row, g (end: last, G)", moving(-1<<20), "g"),
		bind("end", "", moving(1<<20), "G"),
		bind("enter", "take the offer, edit a step", (*Model).enter),
		bind("[", "page before (also left)", turning(-1), "left"),
		bind("]", "next page (also right)", turning(1), "right"),
		bind("o", "to a * line, next difference", func(m *Model) tea.Cmd { m.follow(); return nil }),
		bind("-", "also show removed lines", func(m *Model) tea.Cmd { m.both = !m.both; return nil }),
		bind("z", "one pane, or all", func(m *Model) tea.Cmd { m.zoom = !m.zoom; return nil }),
		bind(">", "shift the page (<: back)", func(m *Model) tea.Cmd { m.views[stagePane].left += 8; return nil }),
		bind("<", "", func(m *Model) tea.Cmd { m.views[stagePane].left = max(m.views[stagePane].left-8, 0); return nil }),
		bind("a", "add a step at the cursor", func(m *Model) tea.Cmd { return m.ask("add ") }),
		bind("e", "edit the step", (*Model).edit),
		bind("v", "legal values of a field", func(m *Model) tea.Cmd { return m.ask(fmt.Sprintf("values %d ", m.Cursor())) }),
		bind("d", "delete the step", func(m *Model) tea.Cmd { at := m.Cursor(); return m.changed(m.Delete(at, at)) }, "delete"),
		bind("K", "move the step up (J: down)", func(m *Model) tea.Cmd { at := m.Cursor(); return m.changed(m.Move(at, at-1)) }, "shift+up"),
		bind("J", "", func(m *Model) tea.Cmd { at := m.Cursor(); return m.changed(m.Move(at, at+1)) }, "shift+down"),
		bind("A", "list single steps, or not", func(m *Model) tea.Cmd { m.single = !m.single; return m.relist() }),
		bind("f", "make later steps fit", func(m *Model) tea.Cmd { return m.changed(m.Mend()) }),
		bind("u", "undo (U: all)", func(m *Model) tea.Cmd { return m.changed(m.Undo()) }, "ctrl+z"),
		bind("U", "", func(m *Model) tea.Cmd { m.Reset(); return m.changed(nil) }),
		bind("r", "redo", func(m *Model) tea.Cmd { return m.changed(m.Redo()) }, "ctrl+y"),
		bind("p", "problems in full", doing("problems")),
		bind("m", "measure beside the default", doing("measure")),
		bind("R", "roofline: reached, possible", doing("roofline")),
		bind("M", "mark, to compare others", doing("mark")),
		bind("c", "compare with the marked one", doing("compare")),
		bind("s", "search for faster ones", func(m *Model) tea.Cmd { return m.ask("search 5") }),
		bind("b", "take the best one found", func(m *Model) tea.Cmd { return m.changed(m.TakeBest()) }),
		bind("w", "save if faster (W: anyway)", doing("save")),
		bind("W", "", doing("save anyway")),
		bind("x", "export as JSON", func(m *Model) tea.Cmd { return m.ask("export ") }),
		bind("y", "copy a command to measure it", (*Model).copy),
		bind(":", "a command (:help lists all)", func(m *Model) tea.Cmd { return m.ask("") }),
		bind("esc", "stop measuring, leave help", (*Model).escape),
		bind("q", "quit (also Ctrl-C)", (*Model).quit, "ctrl+c"),
	}
}

func moving(by int) func(*Model) tea.Cmd     { return func(m *Model) tea.Cmd { return m.move(by) } }
func doing(line string) func(*Model) tea.Cmd { return func(m *Model) tea.Cmd { return m.do(line) } }

// turning shows another page.
func turning(by int) func(*Model) tea.Cmd {
	return func(m *Model) tea.Cmd {
		n := len(pages())
		m.relate()
		m.page, m.views[stagePane] = (m.page+by+n)%n, view{}
		return m.turn(true)
	}
}

// scrolls are half screens that keys scroll the help by.
var scrolls = map[string]int{"up": -1, "down": 1, "pgup": -2, "pgdown": 2, "home": -100, "end": 100}

// key does what a key is bound to, or writes it.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	if m.asking && k.String() != "ctrl+c" {
		return m.write(k)
	}
	all := bindings()
	i := slices.IndexFunc(all, func(b binding) bool { return key.Matches(k, b.Binding) })
	if i < 0 {
		return nil
	}
	if by, ok := scrolls[all[i].Help().Key]; m.help && ok {
		m.helpTop = max(m.helpTop+by*max(m.height-2, 1)/2, 0)
		return nil
	}
	if m.help && all[i].Help().Key != "?" {
		m.help = false
		if all[i].Help().Key == "esc" {
			return nil
		}
	}
	return all[i].do(m)
}

// ask begins a command that the user completes.
func (m *Model) ask(begin string) tea.Cmd {
	m.asking = true
	m.input.SetValue(begin)
	m.input.CursorEnd()
	return m.input.Focus()
}

// write passes a key to the line; Enter runs it, Esc forgets it.
func (m *Model) write(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "enter":
		m.asking = false
		return m.do(m.input.Value())
	case "esc":
		m.asking = false
		return nil
	}
	return m.type_(k)
}

// edit begins a command that changes the step.
func (m *Model) edit() tea.Cmd {
	t, at := m.Place()
	if at == len(t) {
		return m.ask("add ")
	}
	return m.ask(fmt.Sprintf("edit %d %v", at, t[at:at+1]))
}

func (m *Model) enter() tea.Cmd {
	switch {
	case m.focus == tracePane:
		return m.edit()
	case m.focus == nextPane && m.views[nextPane].at < len(m.list):
		return m.changed(m.Take(m.list[m.views[nextPane].at]))
	}
	return nil
}

func (m *Model) copy() tea.Cmd {
	m.answer = m.Command() // for terminals that copy nothing
	m.say("copied, if the terminal lets programs copy. The page answer has the command too", false)
	return tea.SetClipboard(m.Command())
}

func (m *Model) escape() tea.Cmd {
	if m.job != nil {
		m.job.stop()
		m.say(m.job.line+" is being stopped", false)
		return nil
	}
	m.message = ""
	return nil
}

// quit ends all that runs, and then the interface.
func (m *Model) quit() tea.Cmd {
	m.stop()
	return tea.Quit
}

// move moves the cursor of the pane.
func (m *Model) move(by int) tea.Cmd {
	v := &m.views[m.focus]
	v.at = min(max(v.at+by, 0), m.rows(m.focus)-1)
	v.at = max(v.at, 0)
	v.moved = true
	defer m.relate()
	if m.focus == tracePane && v.at != m.Cursor() {
		return m.goTo(v.at)
	}
	return nil
}

// goTo moves the cursor of the trace.
func (m *Model) goTo(step int) tea.Cmd {
	if err := m.Go(step); err != nil {
		return m.changed(err)
	}
	return m.relist()
}

// rows is how many rows a pane has, shown or not.
func (m *Model) rows(pane int) int {
	switch pane {
	case tracePane:
		return len(m.trace) + 1
	case nextPane:
		return len(m.list)
	}
	if m.paired() {
		return len(m.pair.Rows)
	}
	return len(m.shownLines())
}

// click focuses the pane under the mouse and moves its cursor; in the list, a click on the cursor takes the offer.
func (m *Model) click(x tea.Mouse) tea.Cmd {
	m.help = false
	for pane, b := range m.boxes() {
		if x.X < b.x || x.X >= b.x+b.w || x.Y < b.y || x.Y >= b.y+b.h {
			continue
		}
		m.focus = pane
		row := x.Y - b.y - 1 - len(m.fixed(pane, b.w)) + m.views[pane].top
		switch {
		case x.Y == b.y && pane == stagePane:
			return m.clickTab(x.X - b.x)
		case x.Y == b.y || row < m.views[pane].top || row >= m.rows(pane):
			return nil
		case pane == nextPane && row == m.views[pane].at:
			return m.enter()
		}
		return m.move(row - m.views[pane].at)
	}
	return nil
}

// clickTab shows the page whose name is at a column.
func (m *Model) clickTab(column int) tea.Cmd {
	for _, t := range m.tabs(m.boxes()[stagePane].w) {
		if column >= t.at-1 && column < t.at+len(t.name) {
			return turning(t.page - m.page)(m)
		}
	}
	return nil
}

func (m *Model) wheel(x tea.Mouse) tea.Cmd {
	if m.help {
		m.helpTop += map[bool]int{true: -3, false: 3}[x.Button == tea.MouseWheelUp]
		return nil
	}
	for pane, b := range m.boxes() {
		if x.X >= b.x && x.X < b.x+b.w && x.Y >= b.y && x.Y < b.y+b.h {
			m.focus = pane
		}
	}
	if x.Button == tea.MouseWheelUp {
		return m.move(-3)
	}
	return m.move(3)
}
