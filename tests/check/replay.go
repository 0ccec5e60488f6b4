package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/schedule"
)

// Replay is a problem and a trace as the files of sequences and fixedbugs have
// them, and as failing tests print them.
type Replay struct {
	Comment string         `json:"comment,omitempty"`
	Kernel  []string       `json:"kernel,omitempty"` // targets that must have one
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

// ReadReplay reads the file at path.
func ReadReplay(t testing.TB, path string) Replay {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseReplay(data)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
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
