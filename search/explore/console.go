package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/session"
)

// Reply is what a command answers: a text for people, and a value that JSON shows.
type Reply fmt.Stringer

// Command is a word that Do takes.
type Command struct {
	Name  string
	Args  string // what follows
	About string
	do    func(e *Explorer, ctx context.Context, args []string, hear func(session.Event)) (Reply, error)
}

// Commands are the commands in the order of the help.
func Commands() []Command {
	return []Command{
		{"trace", "", "the schedule, predicted and measured times, and problems", doTrace},
		{"steps", "[STEP] [all]", "other decisions at a step, with predicted times; all: each single step that applies there", doSteps},
		{"choose", "NUMBER", "do what steps or values has listed by that number", doChoose},
		{"values", "STEP FIELD", "the legal values of a field of a step, with predicted times", doValues},
		{"go", "STEP", "move the cursor", doGo},
		{"add", "STEP...", "a step in front of the cursor: split m 32 mt mi, or JSON", doAdd},
		{"edit", "STEP FIELD=VALUE...", "other values in a step, or another step", doEdit},
		{"delete", "STEP [LAST]", "remove a step, or several", doDelete},
		{"move", "STEP TO", "make a step the one of another number", doMove},
		{"mend", "", "make the steps after the first problem fit those before it", doMend},
		{"undo", "", "take the last change back", doUndo},
		{"redo", "", "do it again", doRedo},
		{"reset", "", "go back to the schedule that all began with", doReset},
		{"problems", "", "why there is no kernel, or none that may be used", doProblems},
		{"show", "STAGE", "the schedule at a stage: " + strings.Join(StageNames(), ", "), doShow},
		{"diff", "[STAGE] [SCHEDULE]", "lines that the last change has added and removed, or all that differ from another schedule", doDiff},
		{"related", "STAGE LINE", "what belongs to a line (from 1; of trace: a step) of trace, nest, vir or asm in the others", doRelated},
		{"cost", "", "where the cycles go, by the model of the core", doCost},
		{"mark", "[NAME]", "remember this schedule, as marked or by a name", doMark},
		{"take", "SCHEDULE", "go on with " + strings.Join(pointNames[1:], ", ") + ", or one that mark has named", doTake},
		{"beside", "[STAGE] [SCHEDULE [SCHEDULE]]", "two schedules in two columns: their assembly, or another stage; marked and this one, unless named", doBeside},
		{"measure", "", "compare it with the definition, and time it beside the default schedule", doMeasure},
		{"roofline", "", "measure it, and draw it below what the machine can do", doRoofline},
		{"compare", "[SCHEDULE [SCHEDULE]]", "time it beside the marked schedule or another one, or the second beside the first", doCompare},
		{"search", "SECONDS", "search for faster schedules, from this one and all that are known, and measure the best again", doSearch},
		{"best", "", "take what the last search has found", doBest},
		{"save", "[anyway]", "put it into the lock if it is faster than the default; the default itself removes the entry", doSave},
		{"export", "[FILE]", "the schedule as JSON for -trace", doExport},
		{"command", "", "a command line that measures this schedule", doCommand},
		{"help", "", "this list", doHelp},
		{"quit", "", "leave; commands behind it are not done", doQuit},
	}
}

// ErrQuit is the error of the command quit.
var ErrQuit = errors.New("quit")

// Do runs a line: the name of a command and its arguments. Events of what takes seconds go to hear, nil: nowhere.
func (e *Explorer) Do(ctx context.Context, line string, hear func(session.Event)) (Reply, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, errors.New("no command: help lists them")
	}
	all := Commands()
	i := slices.IndexFunc(all, func(c Command) bool { return c.Name == words[0] })
	if i < 0 {
		return nil, fmt.Errorf("unknown command %.40q: %shelp lists them", words[0], likely(words[0]))
	}
	c, args := all[i], words[1:]
	if c.Name == "add" || c.Name == "edit" { // JSON may have spaces
		args = rest(line, c.Name)
	}
	if n := len(strings.Fields(c.Args)); len(args) > n {
		return nil, fmt.Errorf("%s: takes %s, and was also given %.40q", c.Name, cmp.Or(c.Args, "nothing"), args[n])
	}
	r, err := c.do(e, ctx, args, hear)
	if err == ErrQuit {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", words[0], err)
	}
	return r, nil
}

// likely names the command that is most like a word, "" if none is.
func likely(word string) string {
	best, least := "", len(word)/2+1
	for _, c := range Commands() {
		if n := distance(word, c.Name); n < least {
			best, least = c.Name, n
		}
		if strings.HasPrefix(c.Name, word) { // as if it were complete
			best, least = c.Name, 0
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %s? ", best)
}

// distance is how many bytes have to be added, removed or exchanged to make b of a.
func distance(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
	row := make([]int, len(b)+1) // for a[:i]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of a[:i] and b[:j]
		row[0] = i + 1
		for j := range len(b) {
			other := before
			if a[i] != b[j] {
				other = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], other
		}
	}
	return row[len(b)]
}

// rest are the arguments of add, one, and of edit, a number and the rest.
func rest(line, name string) []string {
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), name))
	if name == "add" {
		return []string{text}
	}
	number, more, _ := strings.Cut(text, " ")
	return []string{number, strings.TrimSpace(more)}
}

// Text is a reply that is a text alone.
type Text string

func (t Text) String() string { return string(t) }

// arg is a whole number among the arguments.
func arg(args []string, i int, what string) (int, error) {
	if i >= len(args) {
		return 0, fmt.Errorf("want %s", what)
	}
	n, err := strconv.Atoi(args[i])
	if err != nil {
		return 0, fmt.Errorf("%.40q: want %s, a number", args[i], what)
	}
	return n, nil
}

type listening = func(session.Event)

func doTrace(e *Explorer, ctx context.Context, _ []string, _ listening) (Reply, error) {
	s, err := e.State(ctx)
	return s, err
}

// Offers are what steps and values list.
type Offers []Next

func (o Offers) String() string {
	if len(o) == 0 {
		return "nothing else is offered here: steps all lists single steps"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%4s  %9s  %-13s  %-18s  %s\n", "", "predicted", "measured", "decision", "steps")
	for _, n := range o {
		predicted, measured, why := fmt.Sprintf("%.3f", n.Predicts.Ratio), "", ""
		if n.Predicts.Refused != "" {
			predicted, why = "refused", ": "+n.Predicts.Refused
		}
		if n.Measured != nil {
			measured = n.Measured.Ratio.String()
		}
		what := n.Rule
		if what == "" {
			what = "add"
			if n.Deletes > 0 {
				what = "replace"
			}
		}
		fmt.Fprintf(&b, "%4d  %9s  %-13s  %-18s  %s%s\n", n.Number, predicted, measured, what, n.Text(), why)
	}
	b.WriteString("times over the times of " + defaultWords)
	return trimmed(b.String())
}

func doSteps(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	at, all := e.Cursor(), false
	for i, a := range args {
		if all = all || a == "all"; a == "all" {
			continue
		}
		var err error
		if at, err = arg(args, i, "a step, or all"); err != nil {
			return nil, err
		}
	}
	n, err := e.Next(ctx, at, all)
	return Offers(n), err
}

func doValues(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	step, err := arg(args, 0, "a step")
	if err != nil {
		return nil, err
	}
	if len(args) != 2 {
		return nil, errors.New("want a step and a field")
	}
	n, err := e.Values(ctx, step, args[1])
	return Offers(n), err
}

// changed is the reply to what has changed the schedule.
func (e *Explorer) changed(ctx context.Context, err error) (Reply, error) {
	if err != nil {
		return nil, err
	}
	s, err := e.State(ctx)
	return Change{s}, err
}

// Change is the state after a change; its text is short.
type Change struct{ State }

func (c Change) String() string {
	lines := []string{fmt.Sprintf("%d steps, cursor at %d", len(c.Steps), c.Cursor)}
	if c.Cursor < len(c.Steps) {
		lines[0] += ": " + c.Steps[c.Cursor].Text
	}
	lines = append(lines, c.Figures())
	for _, p := range c.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func doChoose(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	n, err := arg(args, 0, "the number of an offer")
	if err == nil {
		_, err = e.Choose(n)
	}
	return e.changed(ctx, err)
}

func doGo(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	n, err := arg(args, 0, "a step")
	if err == nil {
		err = e.Go(n)
	}
	return e.changed(ctx, err)
}

func doAdd(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	x, err := ParseStep(args[0])
	if err == nil {
		e.Add(x)
	}
	return e.changed(ctx, err)
}

func doEdit(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	n, err := arg(args, 0, "a step")
	if err != nil {
		return nil, err
	}
	t, err := e.with(n)
	if err != nil {
		return nil, err
	}
	var x schedule.Step
	words := strings.Fields(args[1])
	switch {
	case len(words) == 0:
		return nil, errors.New("want field=value, or a whole step")
	case strings.Contains(words[0], "=") && args[1][0] != '{':
		x, err = edited(t[n], words)
	default:
		x, err = ParseStep(args[1])
	}
	if err == nil {
		err = e.Replace(n, x)
	}
	return e.changed(ctx, err)
}

func doDelete(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	from, err := arg(args, 0, "a step")
	to := from
	if err == nil && len(args) > 1 {
		to, err = arg(args, 1, "the last step")
	}
	if err == nil {
		err = e.Delete(from, to)
	}
	return e.changed(ctx, err)
}

func doMove(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	from, err := arg(args, 0, "a step")
	if err != nil {
		return nil, err
	}
	to, err := arg(args, 1, "where to")
	if err == nil {
		err = e.Move(from, to)
	}
	return e.changed(ctx, err)
}

func doMend(e *Explorer, ctx context.Context, _ []string, _ listening) (Reply, error) {
	return e.changed(ctx, e.Mend())
}

func doUndo(e *Explorer, ctx context.Context, _ []string, _ listening) (Reply, error) {
	return e.changed(ctx, e.Undo())
}

func doRedo(e *Explorer, ctx context.Context, _ []string, _ listening) (Reply, error) {
	return e.changed(ctx, e.Redo())
}

func doReset(e *Explorer, ctx context.Context, _ []string, _ listening) (Reply, error) {
	e.Reset()
	return e.changed(ctx, nil)
}

// Problems is the reply of that name.
type Problems []Problem

func (p Problems) String() string {
	if len(p) == 0 {
		return "no problem"
	}
	var lines []string
	for _, x := range p {
		lines = append(lines, x.Lines()...)
	}
	return strings.Join(lines, "\n")
}

func doProblems(e *Explorer, _ context.Context, _ []string, _ listening) (Reply, error) {
	return append(Problems{}, e.Problems()...), nil
}

// Shown is a stage of the schedule.
type Shown struct {
	Stage   string `json:"stage"`
	Body    string `json:"text"`
	Changed []int  `json:"changed"` // lines, from 1, that the last change has added
}

func (s Shown) String() string { return s.Body }

func doShow(e *Explorer, _ context.Context, args []string, _ listening) (Reply, error) {
	if len(args) != 1 || !slices.Contains(StageNames(), args[0]) {
		return nil, fmt.Errorf("want one stage: %s", strings.Join(StageNames(), ", "))
	}
	lines, err := e.Lines(args[0], e.Now(), e.Before())
	if err != nil {
		return nil, err
	}
	s := Shown{Stage: args[0], Changed: []int{}}
	var text []string
	for _, l := range lines {
		if l.Op == Removed {
			continue
		}
		if text = append(text, l.Text); l.Op == Added {
			s.Changed = append(s.Changed, len(text))
		}
	}
	s.Body = strings.Join(text, "\n")
	return s, nil
}

// Diff is lines of a stage that two schedules do not have in common.
type Diff struct {
	Stage   string   `json:"stage"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	text    string
}

func (d Diff) String() string { return d.text }

func doDiff(e *Explorer, _ context.Context, args []string, _ listening) (Reply, error) {
	stage, before := build.AssemblyStage, e.Before()
	for _, a := range args {
		if slices.Contains(StageNames(), a) {
			stage = a
			continue
		}
		var err error
		if before, err = e.Point(a); err != nil {
			return nil, fmt.Errorf("%.40q is no stage (%s), and %w", a, strings.Join(StageNames(), ", "), err)
		}
	}
	lines, err := e.Lines(stage, e.Now(), before)
	if err != nil {
		return nil, err
	}
	d := Diff{Stage: stage, Added: []string{}, Removed: []string{}, text: "no line differs"}
	var text []string
	for i, l := range lines {
		switch {
		case l.Op == Added:
			d.Added = append(d.Added, l.Text)
		case l.Op == Removed:
			d.Removed = append(d.Removed, l.Text)
		case i > 0 && lines[i-1].Op != Same:
			text = append(text, "  ...")
		}
		if l.Op != Same {
			text = append(text, string(l.Op)+" "+l.Text)
		}
	}
	if len(text) > 0 {
		d.text = strings.Join(text, "\n")
	}
	return d, nil
}

// Related is what belongs to a line of a stage.
type Related struct {
	Steps []RelatedLine `json:"steps"`
	Nest  []RelatedLine `json:"nest"`
	Vir   []RelatedLine `json:"vir"`
	Asm   []RelatedLine `json:"asm"`
}

// RelatedLine is a line of a stage, counted from 1, or a step, counted from 0.
type RelatedLine struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

func (r Related) String() string {
	var b strings.Builder
	for _, part := range []struct {
		name  string
		lines []RelatedLine
	}{{build.TraceStage, r.Steps}, {build.NestStage, r.Nest}, {build.VirStage, r.Vir}, {build.AssemblyStage, r.Asm}} {
		for _, l := range part.lines {
			fmt.Fprintf(&b, "%-5s %4d  %s\n", part.name, l.Line, strings.TrimSpace(l.Text))
		}
	}
	if b.Len() == 0 {
		return "nothing: constants that statements share, addresses and counters belong to none"
	}
	return trimmed(b.String())
}

func doRelated(e *Explorer, _ context.Context, args []string, _ listening) (Reply, error) {
	t, stages := e.Now(), []string{build.TraceStage, build.NestStage, build.VirStage, build.AssemblyStage}
	if len(args) != 2 || !slices.Contains(stages, args[0]) {
		return nil, fmt.Errorf("want a stage, %s, and a line", strings.Join(stages, ", "))
	}
	line, err := e.lineOf(t, args)
	if err != nil {
		return nil, err
	}
	found := e.Spans(t).Of(args[0], line)
	var r Related
	for i, to := range []*[]RelatedLine{&r.Steps, &r.Nest, &r.Vir, &r.Asm} {
		lines, err := e.Lines(stages[i], t, t)
		if err != nil {
			return nil, err
		}
		for _, at := range found[stages[i]] {
			if at < len(lines) {
				*to = append(*to, RelatedLine{at + firstLine(stages[i]), lines[at].Text})
			}
		}
	}
	return r, nil
}

// firstLine is the number of the first line of a stage: steps count from 0.
func firstLine(stage string) int {
	if stage == build.TraceStage {
		return 0
	}
	return 1
}

// lineOf is the index of the line that args name, a stage and a number.
func (e *Explorer) lineOf(t schedule.Trace, args []string) (int, error) {
	line, err := arg(args, 1, "a line")
	if err != nil {
		return 0, err
	}
	all, err := e.Lines(args[0], t, t)
	if err != nil {
		return 0, err
	}
	first := firstLine(args[0])
	if line < first || line-first >= len(all) {
		return 0, fmt.Errorf("line %d of %s: want %d to %d", line, args[0], first, first+len(all)-1)
	}
	return line - first, nil
}

func doCost(e *Explorer, ctx context.Context, _ []string, _ listening) (Reply, error) {
	text, err := e.CostReport(ctx)
	return Text(text), err
}

// CostReport says where the cycles of a call of the schedule's kernel go.
func (e *Explorer) CostReport(ctx context.Context) (string, error) {
	return e.on.cost(ctx, e.Now())
}

func doMark(e *Explorer, _ context.Context, args []string, _ listening) (Reply, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	if err := e.Mark(name); err != nil {
		return nil, err
	}
	if name = cmp.Or(name, MarkedPoint); name == MarkedPoint {
		return Text("compare and beside are about this schedule from now on"), nil
	}
	return Text(fmt.Sprintf("compare %s and beside %[1]s are about this schedule from now on", name)), nil
}

func doTake(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	if len(args) == 0 {
		return nil, errors.New("want the name of a schedule")
	}
	t, err := e.Point(args[0])
	if err == nil {
		e.Set(t, e.Cursor())
	}
	return e.changed(ctx, err)
}

func doBeside(e *Explorer, ctx context.Context, args []string, _ listening) (Reply, error) {
	stage := build.AssemblyStage
	if len(args) > 0 && slices.Contains(StageNames(), args[0]) {
		stage, args = args[0], args[1:]
	}
	left, right, err := pair(args)
	if err != nil {
		return nil, err
	}
	b, err := e.Beside(ctx, stage, left, right)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func doMeasure(e *Explorer, ctx context.Context, _ []string, hear listening) (Reply, error) {
	m, err := e.Measure(ctx, hear)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func doRoofline(e *Explorer, ctx context.Context, _ []string, hear listening) (Reply, error) {
	return e.Roofline(ctx, hear)
}

func doCompare(e *Explorer, ctx context.Context, args []string, hear listening) (Reply, error) {
	base, own, err := pair(args)
	if err != nil {
		return nil, err
	}
	m, err := e.Compare(ctx, own, base, hear)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// mostSearch bounds a search, in seconds.
const mostSearch = 24 * 60 * 60

func doSearch(e *Explorer, ctx context.Context, args []string, hear listening) (Reply, error) {
	n, err := arg(args, 0, "seconds")
	if err == nil && (n < 1 || n > mostSearch) {
		err = fmt.Errorf("%d seconds: want 1 to %d", n, mostSearch)
	}
	if err != nil {
		return nil, err
	}
	f, err := e.Search(ctx, time.Duration(n)*time.Second, hear)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func doBest(e *Explorer, ctx context.Context, _ []string, _ listening) (Reply, error) {
	return e.changed(ctx, e.TakeBest())
}

func doSave(e *Explorer, ctx context.Context, args []string, hear listening) (Reply, error) {
	if len(args) == 1 && args[0] != "anyway" {
		return nil, fmt.Errorf("%.40q: want nothing, or anyway", args[0])
	}
	s, err := e.Save(ctx, len(args) == 1, hear)
	return s, err
}

func doExport(e *Explorer, _ context.Context, args []string, _ listening) (Reply, error) {
	if len(args) == 0 {
		return Text(e.JSON()), nil
	}
	if err := gen.WriteFile(args[0], []byte(e.JSON()+"\n")); err != nil {
		return nil, err
	}
	return Text("written to " + args[0]), nil
}

func doCommand(e *Explorer, _ context.Context, _ []string, _ listening) (Reply, error) {
	return Text(e.Command()), nil
}

func doQuit(*Explorer, context.Context, []string, listening) (Reply, error) { return nil, ErrQuit }

func doHelp(*Explorer, context.Context, []string, listening) (Reply, error) {
	var lines []string
	for _, c := range Commands() {
		lines = append(lines, fmt.Sprintf("%-26s %s", strings.TrimSpace(c.Name+" "+c.Args), c.About))
	}
	return Text(strings.Join(lines, "\n")), nil
}
