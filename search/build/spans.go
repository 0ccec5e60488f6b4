package build

import (
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
)

// Spans say which lines of the stages of a kernel belong together.
//
//	step of the trace  <->  loops of its names  <->  statements in them  <->  vector operations made for them  <->  instructions
//
// Constants that several statements share, addresses and the counting of loops belong to no statement.
type Spans struct {
	vir, asm   []int           // of each line the number of the operation of vector IR that it is of, 0: of none
	statements []int           // the line of each statement of the nest
	lines      []nestLine      // of the nest
	sources    []int32         // of operations: their statements
	unrolled   map[string]bool // loops whose iterations are each code of their own
	names      [][]string      // of each step
	trace      schedule.Trace  // whose steps are lines too
}

// nestLine is a line of a nest: a loop or a statement, with the loops around it.
type nestLine struct {
	loops []string // its own last
	text  string
	loop  bool
}

// SpansOf are the spans of stages.
func SpansOf(stages []Stage) Spans {
	var s Spans
	for _, x := range stages {
		switch v := x.Value.(type) {
		case schedule.Trace:
			s.trace = v
			for i := range v {
				s.names = append(s.names, namesIn(v[i:i+1]))
			}
		case *nest.Nest:
			s.nest(v, x.Text)
		case *vir.Func:
			s.sources, s.vir = v.Sources, sourcesOf(x.Text, v, instructions(v))
		case *lower.Kernel:
			s.asm = assemblySources(stages, v)
		case *spirv.Shader:
			s.asm = v.Purposes()
		}
	}
	return s
}

// namesIn are the texts in a step, such as names of loops.
func namesIn(step schedule.Trace) []string { return strings.Fields(step.String())[1:] }

// nest notes the lines of a nest.
func (s *Spans) nest(n *nest.Nest, text string) {
	var body []nestLine
	s.unrolled = map[string]bool{}
	var add func(list []nest.Stmt, loops []string)
	add = func(list []nest.Stmt, loops []string) {
		for _, x := range list {
			f, ok := x.(*nest.For)
			if !ok {
				s.statements = append(s.statements, len(body))
				body = append(body, nestLine{loops: loops})
				continue
			}
			s.unrolled[f.Loop.Name] = f.Loop.Kind == nest.Unrolled && f.Loop.N > 1
			in := append(slices.Clip(loops), f.Loop.Name)
			body = append(body, nestLine{loops: in, loop: true})
			add(f.Body, in)
		}
	}
	add(n.Body, nil)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	head := len(lines) - len(body)
	for i := range body {
		body[i].text = lines[head+i]
	}
	for i := range s.statements {
		s.statements[i] += head
	}
	s.lines = append(make([]nestLine, head), body...)
}

// instructions are the ones of f, in the order of its text.
func instructions(f *vir.Func) (out []*vir.Instr) {
	vir.Walk(f.Body, func(in *vir.Instr, _ []*vir.Loop) { out = append(out, in) })
	return out
}

// sourcesOf are the sources of the lines of a text, which has instructions of f in their order, each in a line or in a comment.
func sourcesOf(text string, f *vir.Func, in []*vir.Instr) (out []int) {
	for line := range strings.Lines(text) {
		own := 0
		is := func(x *vir.Instr) bool { return strings.HasSuffix(strings.TrimRight(line, "\n"), f.Format(x)) }
		if i := slices.IndexFunc(in, is); i >= 0 { // the ones before have no line
			own, in = in[i].From, in[i+1:]
		}
		out = append(out, own)
	}
	return out
}

// assemblySources are the sources of the lines of assembly. A comment of its own stands above the instructions of an operation.
func assemblySources(stages []Stage, k *lower.Kernel) []int {
	i := slices.IndexFunc(stages, func(x Stage) bool { return x.Name == AssemblyStage && x.Err == nil })
	if i < 0 {
		return nil
	}
	var in []*vir.Instr
	for _, op := range k.Ops {
		if op.Kind == lower.MInstr {
			in = append(in, op.In)
		}
	}
	out := sourcesOf(stages[i].Text, k.Func, in)
	above := 0
	for j, line := range strings.Split(strings.TrimRight(stages[i].Text, "\n"), "\n") {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "//"):
			above = out[j]
		case !strings.Contains(line, "//"):
			out[j] = above
		default:
			above = 0
		}
	}
	return out
}

// Related are the lines of the stages, and the steps of the trace, that belong to a line of one of them. All count from 0.
type Related map[string][]int

// Of are the lines that belong to a line of a stage: TraceStage (a step), NestStage, VirStage or AssemblyStage.
func (s Spans) Of(stage string, line int) Related {
	nests := map[int]bool{} // lines
	operations := map[int]bool{}
	switch {
	case line < 0:
	case stage == TraceStage && line < len(s.names):
		s.made(s.names[line], nests)
	case stage == NestStage && line < len(s.lines):
		nests[line] = true
	case stage == VirStage && line < len(s.vir):
		operations[s.vir[line]] = true
	case stage == AssemblyStage && line < len(s.asm):
		operations[s.asm[line]] = true
	}
	delete(operations, 0)
	if len(operations) == 0 {
		for i, statement := range s.sources {
			if at := s.statements[statement]; nests[at] || s.within(at, nests) {
				operations[i+1] = true
			}
		}
	} else {
		for i := range operations {
			nests[s.statements[s.sources[i-1]]] = true
		}
	}
	out := Related{NestStage: sorted(nests), VirStage: having(s.vir, operations), AssemblyStage: having(s.asm, operations), TraceStage: s.steps(nests)}
	if stage == TraceStage {
		out[TraceStage] = []int{line}
	}
	return out
}

// OfOperation are the lines and steps that belong to an operation of vector IR, by its vir.Instr.From; none of 0.
func (s Spans) OfOperation(from int) Related {
	if from <= 0 || from > len(s.sources) {
		return nil
	}
	nests := map[int]bool{s.statements[s.sources[from-1]]: true}
	return Related{NestStage: sorted(nests), TraceStage: s.steps(nests)}
}

// Unrolled are the loops around a line of the nest whose iterations are each code of their own. Loops of one iteration do not count.
func (s Spans) Unrolled(line int) (out []string) {
	if line < 0 || line >= len(s.lines) {
		return nil
	}
	for _, name := range s.lines[line].loops {
		if s.unrolled[name] {
			out = append(out, name)
		}
	}
	return out
}

// made adds the lines of loops and statements that name what a step names.
func (s Spans) made(names []string, to map[int]bool) {
	for i, l := range s.lines {
		if l.loop && slices.Contains(names, l.loops[len(l.loops)-1]) {
			to[i] = true
		}
		for _, name := range names {
			if !l.loop && l.text != "" && strings.Contains(l.text, " "+name+"[") || strings.Contains(l.text, "("+name+"[") {
				to[i] = true
			}
		}
	}
}

// within says that a statement stands in a loop of one of some lines.
func (s Spans) within(at int, nests map[int]bool) bool {
	for i := range nests {
		l := s.lines[i]
		if l.loop && i < at && len(s.lines[at].loops) >= len(l.loops) && s.encloses(i, at) {
			return true
		}
	}
	return false
}

// encloses says that no line between a loop and a later line closes the loop.
func (s Spans) encloses(loop, at int) bool {
	depth := len(s.lines[loop].loops)
	for i := loop + 1; i <= at; i++ {
		own := len(s.lines[i].loops)
		if s.lines[i].loop {
			own--
		}
		if own < depth {
			return false
		}
	}
	return true
}

// steps are the steps that name a loop of some lines: the loop itself, or the loops around a statement.
func (s Spans) steps(nests map[int]bool) []int {
	found := map[int]bool{}
	for at := range nests {
		l := s.lines[at]
		loops := l.loops
		if l.loop {
			loops = loops[len(loops)-1:]
		}
		for i, names := range s.names {
			if schedule.NameOf(s.trace[i]) != "reorder" && slices.ContainsFunc(names, func(n string) bool { return slices.Contains(loops, n) }) {
				found[i] = true
			}
		}
	}
	return sorted(found)
}

func sorted(set map[int]bool) (out []int) {
	for i := range set {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}

// having are the lines whose sources are in a set.
func having(sources []int, set map[int]bool) (out []int) {
	for i, from := range sources {
		if set[from] {
			out = append(out, i)
		}
	}
	return out
}
