package search

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// Refusal classifies the reason why a trace has no kernel: "illegal split", "pressure
// vector". typed says that it is one of those that a trace can have.
func Refusal(err error) (class string, typed bool) {
	var illegal *schedule.Illegal
	var unfinished *schedule.Unfinished
	var overflow *schedule.Overflow
	var refused *nest.Refused
	var unsupported *lower.Unsupported
	var pressure *lower.Pressure
	switch {
	case errors.As(err, &illegal):
		return "illegal " + illegal.Step, true
	case errors.As(err, &unfinished):
		return "unfinished " + firstWords(unfinished.Thing, 1), true
	case errors.As(err, &overflow):
		return fmt.Sprint("overflow ", overflow.Type), true
	case errors.As(err, &refused):
		return "refused: " + beginning(refused.Reason, 5), true
	case errors.As(err, &unsupported):
		_, op, _ := strings.Cut(unsupported.Instr, "= ")
		return "unsupported " + firstWords(op, 1), true
	case errors.As(err, &pressure):
		return "pressure " + pressure.Kind, true
	}
	return "", false
}

// firstWords are the first n words of s.
func firstWords(s string, n int) string {
	f := strings.Fields(s)
	return strings.Join(f[:min(n, len(f))], " ")
}

// beginning is the first n words of s, and an ellipsis if there are more.
func beginning(s string, n int) string {
	if len(strings.Fields(s)) <= n {
		return s
	}
	return firstWords(s, n) + " …"
}
