package explorer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/tmacc/tmacc/search/explore"
)

// styles are how things look. Without colours, marks in the text and reverse lines say the same.
type styles struct{ title, focused, cursor, quiet, added, removed, bad, good lipgloss.Style }

func newStyles(dark bool) styles {
	pick := lipgloss.LightDark(dark)
	colour := func(light, dark string) lipgloss.Style {
		return lipgloss.NewStyle().Foreground(pick(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	return styles{
		title:   lipgloss.NewStyle().Bold(true),
		focused: lipgloss.NewStyle().Bold(true).Reverse(true),
		cursor:  lipgloss.NewStyle().Reverse(true),
		quiet:   colour("#6c6c6c", "#8a8a8a"),
		added:   colour("#00703c", "#5fd787"),
		removed: colour("#a3371f", "#ff8f73"),
		bad:     colour("#b00020", "#ff6b6b").Bold(true),
		good:    colour("#005fb8", "#7ab8ff"),
	}
}

// view is where a pane is: its cursor, and the first row that is shown.
type view struct {
	at, top int
	left    int  // columns that are not shown
	moved   bool // by the user
}

// box is a place on the screen.
type box struct{ x, y, w, h int }

// Sizes: a screen that is narrower shows one pane at a time.
const (
	wide      = 72
	leastLeft = 34
	mostLeft  = 64
)

// boxes are the places of the panes that are shown: below the head, above the messages.
func (m *Model) boxes() map[int]box {
	h := max(m.height-2-m.messageRows(), 1)
	if m.width < wide || m.zoom {
		return map[int]box{m.focus: {0, 1, m.width, h}}
	}
	left := min(max(m.width*2/5, leastLeft), mostLeft)
	top := (h + 1) * 3 / 5
	return map[int]box{
		tracePane: {0, 1, left, top},
		nextPane:  {0, 1 + top, left, h - top},
		stagePane: {left + 1, 1, m.width - left - 1, h},
	}
}

// stageWidth is how wide the stage pane is, or would be if it were shown alone.
func (m *Model) stageWidth() int {
	if b, ok := m.boxes()[stagePane]; ok {
		return b.w
	}
	return m.width
}

// messageRows is how many rows problems and messages have.
func (m *Model) messageRows() int {
	if m.height < 16 {
		return 1
	}
	return 3
}

// pageRows is how far a page key moves.
func (m *Model) pageRows() int { return max(m.boxes()[m.focus].h-2, 1) }

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen, v.MouseMode, v.WindowTitle = true, tea.MouseModeCellMotion, "tmacc explore"
	return v
}

// screen is all rows.
func (m *Model) screen() string {
	if m.width < 1 || m.height < 1 {
		return ""
	}
	m.trace = m.Now()
	lines := []string{m.head()}
	if m.help {
		lines = append(lines, m.helpRows(max(m.height-2, 0))...)
	} else {
		lines = append(lines, m.middle()...)
		lines = append(lines, m.messages()...)
	}
	lines = append(lines, m.foot())
	return strings.Join(lines[max(0, len(lines)-m.height):], "\n")
}

// middle is the rows of the panes.
func (m *Model) middle() []string {
	boxes := m.boxes()
	if len(boxes) == 1 {
		return m.pane(m.focus, boxes[m.focus])
	}
	left := append(m.pane(tracePane, boxes[tracePane]), m.pane(nextPane, boxes[nextPane])...)
	right := m.pane(stagePane, boxes[stagePane])
	for i := range left {
		left[i] += m.styles.quiet.Render("│") + right[i]
	}
	return left
}

// pane draws a pane: a title, and the rows around its cursor.
func (m *Model) pane(pane int, b box) []string {
	rows, v := m.rows(pane), &m.views[pane]
	out := append([]string{m.title(pane, b.w)}, m.fixed(pane, b.w)...)
	above := len(out)
	shown := max(b.h-above, 0)
	v.at = max(min(v.at, rows-1), 0)
	v.top = max(min(v.top, v.at, rows-shown), 0)
	if v.at >= v.top+shown {
		v.top = v.at - shown + 1
	}
	for i := v.top; len(out) < above+shown; i++ {
		if i >= rows {
			out = append(out, fit(m.empty(pane, i), b.w))
			continue
		}
		text, style := m.row(pane, i)
		if text = fit(text, b.w); i == v.at && (pane == m.focus || pane == tracePane) {
			style = style.Reverse(pane == m.focus).Underline(pane != m.focus)
		}
		out = append(out, style.Render(text))
	}
	return out[:min(len(out), max(b.h, 0))]
}

// title is the first row of a pane.
func (m *Model) title(pane, width int) string {
	style := m.styles.title
	if pane == m.focus {
		style = m.styles.focused
	}
	switch {
	case pane == tracePane:
		return style.Render(fit(fmt.Sprintf(" trace, %d steps, %d %s", len(m.trace), m.state.Changes, map[bool]string{true: "change", false: "changes"}[m.state.Changes == 1]), width))
	case pane == nextPane:
		return style.Render(fit(" "+m.listTitle()+": predicted, measured", width))
	}
	var b strings.Builder
	for _, t := range m.tabs(width) {
		b.WriteString(" ")
		if t.page == m.page {
			b.WriteString(style.Render(t.name))
		} else {
			b.WriteString(m.styles.quiet.Render(t.name))
		}
	}
	return cut(b.String(), width)
}

// listTitle says what the list has: the answer of a command, single steps, or other decisions.
func (m *Model) listTitle() string {
	switch {
	case m.asked:
		return "offers"
	case m.single:
		return "single steps"
	}
	return "instead"
}

// cut is text with colours of a width in columns.
func cut(text string, width int) string {
	text = lipgloss.NewStyle().MaxWidth(max(width, 1)).Render(text)
	return text + strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
}

// row is a row of a pane, without its colours, and its style.
func (m *Model) row(pane, i int) (string, lipgloss.Style) {
	plain := lipgloss.NewStyle()
	switch pane {
	case tracePane:
		return m.step(i)
	case nextPane:
		return m.offer(m.list[i])
	}
	if m.paired() {
		return m.pairRow(i)
	}
	l := m.shownLines()[i]
	text := strings.ReplaceAll(l.Text, "\t", "    ")
	text = shifted(text, m.views[pane].left)
	mark := " "
	if m.isRelated(pane, i) {
		mark, plain = "*", m.styles.good
	}
	switch l.Op {
	case explore.Added:
		return "+" + mark + text, m.styles.added
	case explore.Removed:
		return "- " + text, m.styles.removed
	}
	return " " + mark + text, plain
}

// paired says that the stage pane shows two schedules.
func (m *Model) paired() bool { return pages()[m.page].name == pairPage && len(m.pair.Rows) > 0 }

// fixed are rows below the title of a pane that do not scroll: what two schedules are, and the ratio of their times.
func (m *Model) fixed(pane, width int) (out []string) {
	if pane != stagePane || !m.paired() {
		return nil
	}
	ratios := "right/left: " + m.pair.Ratios()
	if utf8.RuneCountInString(ratios) >= width {
		ratios = strings.Replace(ratios, "predicted ", "", 1)
	}
	for _, text := range []string{m.pair.Names().Text((width - 4) / 2), ratios} {
		out = append(out, m.styles.title.Render(fit(" "+text, width)))
	}
	return out
}

// pairRow is a row of two schedules.
func (m *Model) pairRow(i int) (string, lipgloss.Style) {
	width := (m.stageWidth() - 4) / 2
	r := m.pair.Rows[i]
	r.Left, r.Right = shifted(r.Left, m.views[stagePane].left), shifted(r.Right, m.views[stagePane].left)
	style := map[explore.RowOp]lipgloss.Style{explore.LeftRow: m.styles.removed, explore.RightRow: m.styles.added, explore.OtherRow: m.styles.good}[r.Op]
	return " " + r.Text(width), style
}

// shifted is text without its first characters.
func shifted(text string, by int) string {
	return string([]rune(text)[min(by, utf8.RuneCountInString(text)):])
}

// offer is a row of the list: predicted and measured times, and the steps.
func (m *Model) offer(n explore.Next) (string, lipgloss.Style) {
	if n.Predicts.Refused != "" {
		return fmt.Sprintf("%6s %s: %s", "?", n.Text(), n.Predicts.Refused), m.styles.quiet
	}
	measured := ""
	if n.Measured != nil {
		measured = n.Measured.Ratio.String() + " "
	}
	return fmt.Sprintf("%6.3f %s%s", n.Predicts.Ratio, measured, n.Text()), lipgloss.NewStyle()
}

// step is a row of the trace.
func (m *Model) step(i int) (string, lipgloss.Style) {
	t := m.trace
	if i == len(t) {
		return "    (the end)", m.styles.quiet
	}
	for _, p := range m.state.Problems {
		if p.Step == i {
			return fmt.Sprintf("!%2d %v", i, t[i:i+1]), m.styles.bad
		}
	}
	if m.isRelated(tracePane, i) {
		return fmt.Sprintf("*%2d %v", i, t[i:i+1]), m.styles.good
	}
	return fmt.Sprintf("%3d %v", i, t[i:i+1]), lipgloss.NewStyle()
}

// empty is a row of a pane that has no more.
func (m *Model) empty(pane, i int) string {
	switch {
	case pane == stagePane && i == 0 && len(m.lines) == 0:
		return " ..."
	case pane == nextPane && i == 0 && m.predicting:
		return " predicting ..."
	case pane == nextPane && i == 0 && m.unlisted:
		return " nothing: mend the problem first"
	case pane == nextPane && i == 0:
		return " nothing else is offered here"
	}
	return ""
}

// head is the first row: the product, and predicted and measured times. On a narrow screen the name goes first, since who explores knows it.
func (m *Model) head() string {
	s := m.state
	names := []string{fmt.Sprintf("%s on %s, n = %d", s.Product, s.Target, s.Columns), fmt.Sprintf("%s on %s", s.Product, s.Target), s.Product}
	if s.Product == "" {
		names = []string{"compiling"}
	}
	return m.styles.focused.Render(fit(headText(names, m.figures(), m.width), m.width))
}

// headText is the first of some names with the first of some figures that have a width together, or the shortest figures alone.
func headText(names, figures []string, width int) string {
	for _, figures := range figures {
		for _, name := range names {
			text := " " + name
			if figures != "" {
				text += " | " + figures
			}
			if utf8.RuneCountInString(text) <= width {
				return text
			}
		}
		if utf8.RuneCountInString(figures) < width {
			return " " + figures
		}
	}
	return " " + figures[len(figures)-1]
}

// figures are predicted and measured times over the default's, in fewer and fewer words.
func (m *Model) figures() (out []string) {
	s := m.state
	predicted := fmt.Sprintf("predicted %.3f", s.Predicts.Ratio)
	switch {
	case s.Product == "":
		out = []string{""}
	case s.Predicts.Refused != "" && len(s.Problems) > 0:
		out = []string{"no kernel"}
	case s.Measured != nil:
		out = []string{predicted + ", measured %v of the default", "measured %v of the default", "measured %v"}
		if s.Predicts.Refused != "" {
			out = out[1:]
		}
		for i := range out {
			out[i] = strings.ReplaceAll(out[i], "%v", s.Measured.Ratio.String())
		}
	case s.Predicts.Refused != "":
		out = []string{"not predicted"}
	default:
		out = []string{predicted + " of the default", predicted}
	}
	b := m.Best()
	if b == nil || b.IsDefault() || b.Trace.Key() == m.trace.Key() && s.Measured != nil {
		return out
	}
	return withFound(out, b)
}

// withFound is figures with what a search has found. While the search runs, that stands alone where both have no place.
func withFound(figures []string, b *explore.Found) (out []string) {
	found := fmt.Sprintf("found %v", b.Ratio())
	if b.Confirmed == nil {
		found += ", unconfirmed"
	}
	for _, text := range figures {
		out = append(out, text+" | "+found)
	}
	if b.Ended == "" {
		out = append(out, found)
	}
	return append(out, figures...)
}

// messages are the rows of problems, of what runs, and of the last answer.
func (m *Model) messages() []string {
	type line struct {
		text  string
		style lipgloss.Style
	}
	var all []line
	for _, p := range m.state.Problems {
		text := "! " + p.String()
		if p.Registers != nil {
			text = "! p: live values. " + p.String()
		}
		all = append(all, line{text, m.styles.bad})
	}
	if m.job != nil {
		all = append(all, line{"~ " + m.job.String(), m.styles.good})
	}
	if m.message != "" {
		style := m.styles.good
		if m.failed {
			style = m.styles.bad
		}
		all = append(all, line{m.message, style})
	}
	if i := m.views[nextPane].at; m.focus == nextPane && i < len(m.list) && m.message == "" { // whose row may be too narrow
		text, _ := m.offer(m.list[i])
		all = append(all, line{m.list[i].Rule + ": " + strings.TrimSpace(text), lipgloss.NewStyle()})
	}
	n := m.messageRows()
	if len(all) > n {
		all = all[len(all)-n:]
	}
	var out []string
	for _, l := range all {
		for _, part := range wrapped(l.text, m.width, n-len(all)+1) {
			if len(out) < n {
				out = append(out, l.style.Render(fit(part, m.width)))
			}
		}
	}
	for len(out) < n {
		out = append(out, strings.Repeat(" ", m.width))
	}
	return out
}

// foot is the last row: the line that the user writes, or keys.
func (m *Model) foot() string {
	if m.asking {
		m.input.SetWidth(max(m.width-3, 1))
		return m.input.View()
	}
	text := ""
	for _, keys := range []string{"? help", "q quit", "tab pane", "[] page", "m measure", "s search", "w save", "u undo", "c pair"} {
		if text != "" {
			keys = text + "  " + keys
		}
		if text != "" && len(keys) > m.width {
			break
		}
		text = keys
	}
	return m.styles.quiet.Render(fit(text, m.width))
}

// help is a line for each key, and one for the mouse.
func help() (out []string) {
	for _, b := range bindings() {
		if b.Help().Desc != "" {
			out = append(out, fmt.Sprintf(" %-9s %s", b.Help().Key, b.Help().Desc))
		}
	}
	return append(out, " mouse     click: go there, again: take", "           wheel: move")
}

// helpRows are the keys, in all columns that fit, from the one that is shown first.
func (m *Model) helpRows(rows int) []string {
	all := help()
	out := make([]string, rows)
	column := m.width
	if len(all) > rows && m.width >= wide {
		column = m.width / 2
	}
	m.helpTop = max(min(m.helpTop, len(all)-rows*(m.width/column)), 0)
	for i, text := range all[m.helpTop:] {
		if r := i % max(rows, 1); i < rows*(m.width/column) {
			out[r] += fit(text, column)
		}
	}
	for i := range out {
		out[i] = fit(out[i], m.width)
	}
	return out
}

// fit is text of a width in columns. All characters that schedules have are one column wide.
func fit(text string, width int) string {
	n := utf8.RuneCountInString(text)
	switch {
	case width <= 0:
		return ""
	case n > width:
		return string([]rune(text)[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-n)
}

// wrapped is text in rows of a width, a few at most, broken between words where they allow it. What does not fit is in the last one.
func wrapped(text string, width, rows int) (out []string) {
	r := []rune(text)
	for len(r) > width && len(out) < rows-1 {
		end, next := width, width
		for i := width; i > width/2; i-- {
			if r[i] == ' ' {
				end, next = i, i+1
				break
			}
		}
		out, r = append(out, string(r[:end])), r[next:]
	}
	return append(out, string(r))
}
