// Package tests holds the tests that run the whole compiler: from a problem and a
// trace to a product that equals its definition.
package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/schedule"
)

// Replay is a problem and a trace as the files of sequences and fixedbugs have
// them, and as failing tests print them.
type Replay struct {
	Comment string         `json:"comment,omitempty"`
	Problem ir.Problem     `json:"problem"`
	Trace   schedule.Trace `json:"trace"`
}

// ParseReplay reads a file. Unknown fields are errors.
func ParseReplay(data []byte) (Replay, error) {
	var r Replay
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return r, d.Decode(&r)
}

// String is r as a file, a step per line.
func (r Replay) String() string {
	problem, err := json.Marshal(r.Problem)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var steps []string
	for _, s := range r.Trace {
		step, err := json.Marshal(schedule.Trace{s})
		if err != nil {
			panic("BUG: " + err.Error())
		}
		steps = append(steps, string(step[1:len(step)-1]))
	}
	return fmt.Sprintf("{\"problem\": %s,\n\"trace\": [\n%s]}\n", problem, strings.Join(steps, ",\n"))
}
