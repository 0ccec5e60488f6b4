// Package pairs reads measured pairs of schedules: of two schedules of a product on a core, how much longer one took.
// A model of cost is right about a pair if it finds the same one faster. docs/lab/pairs.jsonl has the pairs, and
// docs/lab/unpaired.jsonl the measurements that are none.
package pairs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/schedule"
)

// Pair is two schedules of one product or float operator, measured on one machine.
type Pair struct {
	Line     int            `json:"-"`                   // of the file, the first is 1
	Core     string         `json:"core"`                // of the machine, by its name in this program
	Machine  string         `json:"machine"`             // where both were measured; machines with one core may differ in memory
	Target   string         `json:"target"`              // that both schedules are for: "amd64/avx2"
	Product  string         `json:"product,omitempty"`   // ir.Problem.Name
	Operator string         `json:"operator,omitempty"`  // a float operator, instead of a product
	ActGroup int            `json:"act_group,omitempty"` // elements of K that share a scale of activations, 0: all of a row
	Mode     string         `json:"mode"`                // where the weights were: one of Modes
	M        int            `json:"m"`                   // rows of weights
	N        int            `json:"n"`                   // activations of a product
	K        int            `json:"k"`                   // weights of a row
	Ratio    float64        `json:"ratio"`               // time of A over time of B
	Least    float64        `json:"least,omitempty"`     // least ratio of several measurements, 0: Ratio is of one
	Most     float64        `json:"most,omitempty"`      // largest ratio of several measurements
	Source   Source         `json:"source"`
	A        schedule.Trace `json:"a"`
	B        schedule.Trace `json:"b"`
}

// Source is where the measurement of a pair stands: a page of docs/lab, its section, and there the figures of tables, or words.
type Source struct {
	Page    string   `json:"page"` // "choices.md"
	Section string   `json:"section,omitempty"`
	Figures []Figure `json:"figures,omitempty"`
	Text    string   `json:"text,omitempty"` // words of the section, as it has them
}

// Figure is a cell of a table. Tables of a section, their rows and columns are counted from 1.
type Figure struct {
	Table  int    `json:"table"`
	Row    int    `json:"row"`
	Column int    `json:"column"`
	Cell   string `json:"cell"` // what the cell says
}

// Modes are the places of weights: out of memory, and in the third-level and the second-level cache.
var Modes = []string{"dram", "l3", "l2"}

// Noise is the ratio of times, or its reciprocal, up to which a pair says nothing.
const Noise = 1.04

// maxLine bounds a line of a file, in bytes.
const maxLine = 1 << 20

// Read reads pairs, one JSON object per line. It checks everything but the traces' steps, which Kernels and Operators replay.
// An error names the line.
func Read(r io.Reader) (all []Pair, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		p := Pair{Line: n}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			return nil, fmt.Errorf("line %d is empty: want a pair", n)
		}
		if err := format.UnmarshalWhole(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return all, nil
}

// check refuses values that no pair has.
func (p *Pair) check() error {
	for _, x := range []struct{ name, value string }{
		{"core", p.Core}, {"machine", p.Machine}, {"target", p.Target}, {"source.page", p.Source.Page},
	} {
		if x.value == "" {
			return fmt.Errorf("%s is empty", x.name)
		}
	}
	if (p.Product == "") == (p.Operator == "") {
		return errors.New("want one of product and operator")
	}
	if p.Mode != Modes[0] && p.Mode != Modes[1] && p.Mode != Modes[2] {
		return fmt.Errorf("mode is %.40q: want one of %q", p.Mode, Modes)
	}
	for _, x := range []struct {
		name  string
		value int
	}{{"m", p.M}, {"n", p.N}, {"k", p.K}} {
		if x.value < 1 || x.value > format.MostK {
			return fmt.Errorf("%s is %d: want 1 to %d", x.name, x.value, format.MostK)
		}
	}
	if p.Least == 0 && p.Most == 0 {
		return ratio("ratio", p.Ratio, 0, math.MaxFloat64)
	}
	if err := ratio("least", p.Least, 0, p.Most); err != nil {
		return err
	}
	return ratio("ratio", p.Ratio, p.Least, p.Most)
}

func ratio(name string, x, least, most float64) error {
	if x > 0 && x >= least && x <= most {
		return nil
	}
	return fmt.Errorf("%s is %v: want more than 0, and least, ratio and most in ascending order", name, x)
}

// Decided says that one schedule was faster: by more than Noise, and in all of several measurements.
func (p *Pair) Decided() bool {
	least, most := p.Ratio, p.Ratio
	if p.Most > 0 {
		least, most = p.Least, p.Most
	}
	return p.Ratio < 1/Noise && most < 1 || p.Ratio > Noise && least > 1
}

// Problem is the product. Its name is of a built-in format.
func (p *Pair) Problem() (ir.Problem, error) {
	if p.Product == "" {
		return ir.Problem{}, fmt.Errorf("line %d: is of the operator %.40s, not of a product", p.Line, p.Operator)
	}
	q, err := ir.Named(p.Product)
	if err == nil && !q.Act.Floats() {
		q.Act.Group = p.ActGroup
	}
	if err == nil {
		err = q.Validate()
	}
	if err != nil {
		return q, fmt.Errorf("line %d: product: %w", p.Line, err)
	}
	return q, nil
}

// Operators replays both schedules of an operator.
func (p *Pair) Operators() (a, b *schedule.OperatorKernel, err error) {
	o := operator.Find(p.Operator)
	if o == nil {
		return nil, nil, fmt.Errorf("line %d: no operator %.40q", p.Line, p.Operator)
	}
	if a, err = schedule.CompileOperator(*o, p.A); err != nil {
		return nil, nil, fmt.Errorf("line %d: a: %w", p.Line, err)
	}
	if b, err = schedule.CompileOperator(*o, p.B); err != nil {
		return nil, nil, fmt.Errorf("line %d: b: %w", p.Line, err)
	}
	return a, b, nil
}

// Kernels replays both schedules of a product.
func (p *Pair) Kernels() (a, b *schedule.Kernel, err error) {
	q, err := p.Problem()
	if err != nil {
		return nil, nil, err
	}
	if a, err = schedule.Compile(q, p.A); err != nil {
		return nil, nil, fmt.Errorf("line %d: a: %w", p.Line, err)
	}
	if b, err = schedule.Compile(q, p.B); err != nil {
		return nil, nil, fmt.Errorf("line %d: b: %w", p.Line, err)
	}
	return a, b, nil
}
