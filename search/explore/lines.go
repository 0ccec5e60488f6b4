package explore

import (
	"strings"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
)

// Line is a line of a stage, as it is beside another schedule's.
type Line struct {
	Text string
	Op   Op
}

// Op says which of two schedules has a line.
type Op byte

// Both, only the schedule, or only the one it is compared with.
const (
	Same    Op = ' '
	Added   Op = '+'
	Removed Op = '-'
)

// Text is a stage of a trace, and the error of the stage at which the compiler stopped before or at it. The text of build.CostStage is where
// the cycles of a call go.
func (e *Explorer) Text(t schedule.Trace, stage string) (string, error) {
	all := e.Stages(t)
	for _, s := range all {
		if s.Name == stage && s.Err == nil {
			return strings.TrimRight(s.Text, "\n"), nil
		}
	}
	return "", all[len(all)-1].Err
}

// Lines is a stage of the schedule, each line with whether another schedule has it too. A stage that the other one lacks is all new.
func (e *Explorer) Lines(stage string, t, before schedule.Trace) ([]Line, error) {
	now, err := e.Text(t, stage)
	if err != nil {
		return nil, err
	}
	old, _ := e.Text(before, stage) // "" of one that has none
	return compared(linesOf(old, stage), linesOf(now, stage)), nil
}

// linesOf are the lines of a stage; a trace has its JSON, a step on each.
func linesOf(text, stage string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if stage == build.TraceStage {
		return lines[1:]
	}
	return lines
}

// mostCompared bounds the product of the numbers of lines that are compared with each other: beyond it all are different.
const mostCompared = 1 << 24

// compared is b with the lines of a that it lacks, by a longest common list of lines.
func compared(a, b []string) (out []Line) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		out = append(out, Line{b[0], Same})
		a, b = a[1:], b[1:]
	}
	end := 0
	for end < min(len(a), len(b)) && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	tail := b[len(b)-end:]
	out = append(out, changed(a[:len(a)-end], b[:len(b)-end])...)
	for _, line := range tail {
		out = append(out, Line{line, Same})
	}
	return out
}

// changed is compared for lists that differ at both ends.
func changed(a, b []string) (out []Line) {
	width := len(b) + 1
	var length []int32 // of the common lists of a[i:] and b[j:]
	if len(a)*len(b) <= mostCompared {
		length = make([]int32, (len(a)+1)*width)
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				at := &length[i*width+j]
				if *at = max(length[(i+1)*width+j], length[i*width+j+1]); a[i] == b[j] {
					*at = length[(i+1)*width+j+1] + 1
				}
			}
		}
	}
	i, j := 0, 0
	for length != nil && i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			out = append(out, Line{b[j], Same})
			i, j = i+1, j+1
		case length[(i+1)*width+j] >= length[i*width+j+1]:
			out = append(out, Line{a[i], Removed})
			i++
		default:
			out = append(out, Line{b[j], Added})
			j++
		}
	}
	for ; i < len(a); i++ {
		out = append(out, Line{a[i], Removed})
	}
	for ; j < len(b); j++ {
		out = append(out, Line{b[j], Added})
	}
	return out
}

// StageNames are the stages that Text and Lines have.
func StageNames() []string { return build.StageNames() }

// Tile draws a packed tile of the schedule.
func (e *Explorer) Tile() (string, error) { return build.Tile(e.Stages(e.Now())) }
