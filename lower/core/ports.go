package core

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Pipeline is how a core runs instructions side by side.
type Pipeline struct {
	Width       int    `json:"width"`                  // instructions that enter per cycle; an operand from memory is no other one
	Window      int    `json:"window"`                 // instructions in flight: how far the youngest is behind the oldest that has no result yet; 1: they start in order
	Waiting     int    `json:"waiting"`                // instructions on vectors and numbers in flight that have not begun
	Results     int    `json:"results,omitempty"`      // instructions in flight whose results are in vector registers, 0: only the window limits them
	WideResults int    `json:"wide_results,omitempty"` // those among them of more than 256 bits, 0: only Results limits them
	Scalar      string `json:"scalar"`                 // ports of additions and branches, as in Cost.Ports
	Closed      string `json:"closed"`                 // ports that do nothing on vectors in kernels with instructions of more than 256 bits
}

// Micro is a micro-operation: for how many cycles it keeps one of some ports busy.
type Micro struct {
	Ports  uint64 // bit i: port i
	Cycles int
}

// portNames are the letters of ports.
const portNames = "0123456789abcdefghijklmnopqrstuvwxyz"

// PortName is the letter of a port.
func PortName(port int) string { return portNames[port : port+1] }

// Micros reads micro-operations, joined by +. Each has the letters of the ports that can do it, and behind * the cycles
// that it keeps one of them busy, else one: "05", "05+5", "01*2". An empty text is none.
func Micros(text string) (all []Micro, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, "+") {
		ports, cycles, several := strings.Cut(one, "*")
		m := Micro{Cycles: 1}
		if several {
			if m.Cycles, err = strconv.Atoi(cycles); err != nil || m.Cycles < 1 || m.Cycles > maxBusyCycles {
				return nil, fmt.Errorf("%.40q has %.40q cycles: want 1 to %d", text, cycles, maxBusyCycles)
			}
		}
		for _, letter := range ports {
			i := strings.IndexRune(portNames, letter)
			if i < 0 || m.Ports>>i&1 != 0 {
				return nil, fmt.Errorf("%.40q has a port %q that is no small letter or digit, or is there twice", text, letter)
			}
			m.Ports |= 1 << i
		}
		if ports == "" {
			return nil, fmt.Errorf("%.40q has a micro-operation without ports: want letters, such as 05+5", text)
		}
		if all = append(all, m); len(all) > maxMicros {
			return nil, fmt.Errorf("%.40q has more than %d micro-operations", text, maxMicros)
		}
	}
	return all, nil
}

// Bounds of micro-operations.
const (
	maxBusyCycles = 100
	maxMicros     = 8
	maxLatency    = 200
	maxWindow     = 4096
	maxWidth      = 32
)

// checkPorts refuses ports that Micros does not read.
func checkPorts(at, text string) error {
	if _, err := Micros(text); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// ClosedPorts are the ports of Closed, bit i for port i.
func (p Pipeline) ClosedPorts() uint64 {
	closed, err := Micros(p.Closed)
	if err != nil || len(closed) == 0 {
		return 0
	}
	return closed[0].Ports
}

// checkScalar refuses a core that adds no addresses.
func checkScalar(text string) error {
	if text == "" {
		return errors.New("pipeline.scalar is empty: want the ports of additions and branches, such as 0156")
	}
	return checkPorts("pipeline.scalar", text)
}

// checkClosed refuses anything but letters of ports.
func checkClosed(text string) error {
	if strings.ContainsAny(text, "+*") {
		return fmt.Errorf("pipeline.closed: %.40q: want the letters of ports only, such as 15", text)
	}
	return checkPorts("pipeline.closed", text)
}

// checkWide refuses more wide results than results.
func (p Pipeline) checkWide() error {
	if p.Results > 0 && p.WideResults > p.Results {
		return fmt.Errorf("pipeline.wide_results is %d: want at most the %d of pipeline.results", p.WideResults, p.Results)
	}
	return within("pipeline.wide_results", p.WideResults, 0, maxWindow)
}

// check refuses values that no core has.
func (p Pipeline) check() error {
	return cmp.Or(
		within("pipeline.width", p.Width, 1, maxWidth), within("pipeline.window", p.Window, 1, maxWindow),
		within("pipeline.waiting", p.Waiting, 1, maxWindow),
		within("pipeline.results", p.Results, 0, maxWindow), p.checkWide(),
		checkScalar(p.Scalar), checkClosed(p.Closed))
}
