// Package explorer is the terminal interface of tmacc explore: panes, keys and a mouse for a search/explore.Explorer. It knows nothing of
// schedules. Whatever takes long runs beside it: pages are made, steps predicted and schedules measured while keys still work.
package explorer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/explore"
	"github.com/tmacc/tmacc/search/session"
)

// The panes.
const (
	tracePane = iota
	nextPane
	stagePane
	panes
)

// Model is the interface. Messages change it.
type Model struct {
	*explore.Explorer
	ctx           context.Context
	stop          context.CancelFunc
	width, height int
	styles        styles
	views         [panes]view
	focus         int
	page          int  // of the stage pane
	both          bool // the stage pane also shows lines that the last change has removed
	zoom          bool // only the focused pane is shown
	single        bool // the list has single steps instead of decisions
	state         explore.State
	trace         schedule.Trace // of this frame or message: commands beside the interface may change the schedule meanwhile
	list          []explore.Next
	asked         bool // list is the answer of a command
	predicting    bool // list is being made
	unlisted      bool // there is none: a step before the cursor does not apply, which is a problem of the schedule
	lines         []explore.Line
	pair          explore.Beside // of the page of that name
	sides         sides          // what it is of
	spans         build.Spans
	related       build.Related // lines and steps that belong to the one under the cursor
	answer        string        // of the last command that said more than a line
	help          bool
	helpTop       int  // the first key that is shown
	asking        bool // the user writes a command
	input         textinput.Model
	message       string
	failed        bool // message is an error
	job           *job
	loading       work
	listing       work
}

// sides are two schedules by their names, and the stage at which they are shown.
type sides struct{ stage, left, right string }

// usualSides are the assembly of the marked schedule and of the one at hand.
var usualSides = sides{build.AssemblyStage, explore.MarkedPoint, explore.NowPoint}

// besides are the sides that the command compare measures.
func besides(args []string) sides {
	x := usualSides
	for i, side := range []*string{&x.left, &x.right} {
		if i < len(args) {
			*side = args[i]
		}
	}
	return x
}

// work is something that is made anew whenever the schedule changes. Only the last result counts.
type work struct {
	number int
	stop   context.CancelFunc
}

// next ends the work before, and is the context and the number of the new one.
func (w *work) next(ctx context.Context) (context.Context, int) {
	if w.stop != nil {
		w.stop()
	}
	ctx, w.stop = context.WithCancel(ctx)
	w.number++
	return ctx, w.number
}

// job is a command that takes long.
type job struct {
	line   string
	stop   context.CancelFunc
	events chan session.Event
	said   string
	began  time.Time
}

// String says what runs, for how long, and what it does.
func (j *job) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s, %d s: %s", j.line, int(time.Since(j.began).Seconds()), j.said), ": ")
}

// Messages of work that has ended.
type (
	loadedMsg struct {
		number int
		state  explore.State
		err    error
	}
	pagedMsg struct {
		number int
		lines  []explore.Line
		pair   explore.Beside
		spans  build.Spans
		follow bool
	}
	listedMsg struct {
		number int
		list   []explore.Next
		err    error
	}
	doneMsg struct {
		line  string
		reply explore.Reply
		err   error
	}
	heardMsg struct {
		of    *job
		event session.Event
	}
	secondMsg struct{ of *job } // has passed
)

// New is the interface to e. It ends what it has begun when ctx ends.
func New(ctx context.Context, e *explore.Explorer) *Model {
	ctx, stop := context.WithCancel(ctx)
	m := &Model{Explorer: e, ctx: ctx, stop: stop, width: 80, height: 24, styles: newStyles(true), page: firstPage, sides: usualSides, input: textinput.New()}
	m.input.Prompt = ":"
	return m
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return tea.Batch(tea.RequestBackgroundColor, m.refresh()) }

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.trace = m.Now()
	switch x := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = x.Width, x.Height
		return m, m.turn(false) // texts are wrapped anew
	case tea.BackgroundColorMsg:
		m.styles = newStyles(x.IsDark())
	case tea.KeyPressMsg:
		return m, m.key(x)
	case tea.PasteMsg:
		return m, m.type_(msg)
	case tea.MouseClickMsg:
		return m, m.click(x.Mouse())
	case tea.MouseWheelMsg:
		return m, m.wheel(x.Mouse())
	case loadedMsg:
		m.loaded(x)
	case pagedMsg:
		m.paged(x)
	case listedMsg:
		m.listed(x)
	case heardMsg:
		return m, m.heard(x)
	case doneMsg:
		return m, m.done(x)
	case secondMsg:
		if x.of == m.job {
			return m, x.of.second()
		}
	default:
		return m, m.type_(msg)
	}
	return m, nil
}

// type_ passes a message to the line that the user writes.
func (m *Model) type_(msg tea.Msg) tea.Cmd {
	if !m.asking {
		return nil
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	return cmd
}

// refresh makes all anew that follows from the schedule.
func (m *Model) refresh() tea.Cmd {
	m.views[tracePane].at = m.Cursor()
	ctx, number := m.loading.next(m.ctx)
	load := func() tea.Msg {
		s, err := m.State(ctx)
		return loadedMsg{number, s, err}
	}
	return tea.Batch(load, m.turn(false), m.relist())
}

// turn makes the page of the stage pane. Its cursor may follow the one of the page before.
func (m *Model) turn(follow bool) tea.Cmd {
	number, p, ctx := m.loading.number, pages()[m.page], m.ctx
	if p.name == answerPage {
		m.lines = plainLines(m.answer)
		return nil
	}
	if p.name == pairPage {
		width, x := m.stageWidth(), m.sides
		return func() tea.Msg {
			pair, err := m.Beside(ctx, x.stage, x.left, x.right)
			x := pagedMsg{number: number, pair: pair}
			if err != nil {
				x.lines = wrappedLines(err.Error(), width)
			}
			return x
		}
	}
	width := m.stageWidth()
	return func() tea.Msg {
		lines, err := p.lines(ctx, m.Explorer)
		if err != nil {
			lines = append(wrappedLines("stopped before: "+err.Error(), width), m.reasons()...)
		}
		return pagedMsg{number, lines, explore.Beside{}, m.Spans(m.Now()), follow}
	}
}

// reasons say more of a schedule without the stage that is shown, besides the error: which values need registers, say.
func (m *Model) reasons() (out []explore.Line) {
	for _, p := range m.Problems() {
		for _, line := range p.Lines()[1:] {
			out = append(out, explore.Line{Text: line, Op: explore.Same})
		}
	}
	return out
}

// relist makes the list of next steps.
func (m *Model) relist() tea.Cmd {
	ctx, number := m.listing.next(m.ctx)
	at, single := m.Cursor(), m.single
	m.list, m.asked, m.predicting, m.views[nextPane] = nil, false, true, view{}
	return func() tea.Msg {
		list, err := m.Next(ctx, at, single)
		return listedMsg{number, list, err}
	}
}

func (m *Model) loaded(x loadedMsg) {
	if x.number == m.loading.number && x.err == nil {
		m.state = x.state
	}
}

func (m *Model) paged(x pagedMsg) {
	if x.number != m.loading.number {
		return
	}
	first := len(m.pair.Rows) == 0 // it was not shown before
	if m.lines, m.pair, m.spans = x.lines, x.pair, x.spans; first {
		m.differs(0)
	}
	if x.follow {
		m.follow()
	}
	if !m.views[stagePane].moved { // show the first line that the last change has made
		for i, l := range m.shownLines() {
			if l.Op != explore.Same {
				m.views[stagePane].at = i
				break
			}
		}
	}
	m.relate()
}

func (m *Model) listed(x listedMsg) {
	if x.number != m.listing.number {
		return
	}
	m.list, m.predicting, m.unlisted = x.list, false, x.err != nil
}

// say shows a line until the next one.
func (m *Model) say(text string, failed bool) {
	m.message, m.failed = strings.ReplaceAll(text, "\n", "; "), failed
}

// changed refreshes after an action, or says why there was none.
func (m *Model) changed(err error) tea.Cmd {
	if err != nil {
		m.say(err.Error(), true)
		return nil
	}
	m.message, m.views[stagePane].moved = "", false
	return m.refresh()
}

// slow are the commands that measure: one at a time, and Esc ends them.
var slow = map[string]bool{"measure": true, "roofline": true, "compare": true, "search": true, "save": true}

// do runs a command beside the interface.
func (m *Model) do(line string) tea.Cmd {
	name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	if !slow[name] {
		return func() tea.Msg {
			r, err := m.Do(m.ctx, line, nil)
			return doneMsg{line, r, err}
		}
	}
	if m.job != nil {
		m.say(fmt.Sprintf("%s is still running: Esc stops it", m.job.line), true)
		return nil
	}
	ctx, stop := context.WithCancel(m.ctx)
	j := &job{line: line, stop: stop, events: make(chan session.Event, 1), began: time.Now()}
	m.job, m.message = j, ""
	run := func() tea.Msg {
		defer close(j.events)
		r, err := m.Do(ctx, line, func(e session.Event) {
			select {
			case j.events <- e:
			case <-ctx.Done():
			}
		})
		return doneMsg{line, r, err}
	}
	if name == "compare" {
		m.showSides(besides(strings.Fields(line)[1:]))
		return tea.Batch(m.turn(false), run, j.listen, j.second())
	}
	return tea.Batch(run, j.listen, j.second())
}

// second waits for the time to be shown anew.
func (j *job) second() tea.Cmd {
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return secondMsg{j} })
}

// listen waits for the next event.
func (j *job) listen() tea.Msg {
	if e, ok := <-j.events; ok {
		return heardMsg{j, e}
	}
	return nil
}

func (m *Model) heard(x heardMsg) tea.Cmd {
	switch e := x.event.(type) {
	case session.Note, session.Fault:
		m.say(e.String(), true)
	case session.Dropped:
	default:
		x.of.said = e.String()
	}
	return x.of.listen
}

// done shows what a command has answered.
func (m *Model) done(x doneMsg) tea.Cmd {
	if m.job != nil && m.job.line == x.line {
		m.job.stop()
		m.job = nil
	}
	if x.err == explore.ErrQuit {
		return m.quit()
	}
	if x.err != nil {
		m.say(x.err.Error(), true)
		return m.refresh() // a fault is a problem now
	}
	if o, ok := x.reply.(explore.Offers); ok {
		_, _ = m.listing.next(m.ctx)
		m.predicting = false
		m.list, m.asked, m.focus, m.views[nextPane] = o, true, nextPane, view{}
		m.views[nextPane].at = max(slices.IndexFunc(o, func(n explore.Next) bool { return n.Predicts.Refused == "" }), 0)
		m.say(fmt.Sprintf("%d offers: Enter takes one", len(o)), false)
		return nil
	}
	m.answers(x)
	m.views[stagePane].moved = m.views[stagePane].moved && pages()[m.page].name == answerPage
	return m.refresh()
}

// answers shows a text in the row of messages, and as a page if it has more rows. Changes show themselves.
func (m *Model) answers(x doneMsg) {
	if _, change := x.reply.(explore.Change); change {
		m.message = ""
		return
	}
	if b, ok := x.reply.(explore.Beside); ok {
		m.message = ""
		m.showSides(sides{b.Stage, b.Left, b.Right})
		return
	}
	text := fmt.Sprint(x.reply)
	first, _, more := strings.Cut(text, "\n")
	if m.say(first, false); !more {
		return
	}
	m.answer = text
	switch name := strings.Fields(x.line)[0]; {
	case name == "roofline":
		m.show(roofPage)
	case !slow[name]:
		m.show(answerPage)
	default:
		return
	}
	m.message = "" // the page has it
}
