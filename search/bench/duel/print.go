package duel

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/bench/inference"
	"github.com/tmacc/tmacc/search/measure/llama"
)

// Print writes records as a table in Markdown, as a JSON array, or as CSV with the fields of the JSON objects: inference.Outputs.
func Print(w io.Writer, output string, records []Record) error {
	switch output {
	case "md":
		if err := Table(w, records); err != nil {
			return err
		}
		_, err := io.WriteString(w, "\n"+strings.Join(Notes(records), "\n")+"\n")
		return err
	case "json":
		return inference.JSON(w, records)
	case "csv":
		return inference.CSV(w, records)
	}
	return fmt.Errorf("unknown output %q: have %s", output, strings.Join(inference.Outputs, ", "))
}

// columns are the columns of the table.
var columns = []struct {
	head string
	cell func(r Record) string
}{
	{"model", func(r Record) string { return r.Kind }},
	{"test", func(r Record) string { return r.Test().Name() }},
	{"threads", func(r Record) string { return fmt.Sprint(r.Threads) }},
	{"rounds", func(r Record) string { return fmt.Sprint(r.Rounds) }},
	{"variant", func(r Record) string { return r.Peer.variant() }},
	{"tmacc t/s", func(r Record) string { return fmt.Sprintf("%.2f", r.Ours.MedianTS) }},
	{"llama.cpp t/s", func(r Record) string { return figure("%.2f", r.Theirs.MedianTS) }},
	{"times", func(r Record) string { return figure("%.2f", r.Ratio) }},
	{"from – to", func(r Record) string {
		if r.Error != "" {
			return "failed"
		}
		return fmt.Sprintf("%.2f – %.2f", r.Low, r.High)
	}},
	{"of read", func(r Record) string { return figure("%.0f %%", 100*r.Ours.ReadShare) }},
	{"llama.cpp's", func(r Record) string { return figure("%.0f %%", 100*r.Theirs.ReadShare) }},
	{"J/token", func(r Record) string { return joules(r, r.Ours) }},
	{"llama.cpp's J", func(r Record) string { return joules(r, r.Theirs) }},
}

// variant is the part of the library's name that says for which CPUs it is, between libggml-cpu- and .so.
func (p Peer) variant() string {
	return strings.TrimSuffix(strings.TrimPrefix(p.Library, "libggml-cpu-"), ".so")
}

// joules is the energy of a side.
func joules(r Record, f Figures) string {
	if r.Energy != EnergyKnown {
		return EnergyUnknown
	}
	return figure("%.2f", f.Joules)
}

// figure prints a number, and nothing for 0.
func figure(format string, x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// Table writes a table in Markdown. It leaves out energy that no record has.
func Table(w io.Writer, records []Record) error {
	shown := columns
	if !slices.ContainsFunc(records, func(r Record) bool { return r.Energy == EnergyKnown }) {
		shown = columns[:len(columns)-2]
	}
	rows := [][]string{nil}
	for _, c := range shown {
		rows[0] = append(rows[0], c.head)
	}
	for _, r := range records {
		var row []string
		for _, c := range shown {
			row = append(row, c.cell(r))
		}
		rows = append(rows, row)
	}
	return inference.Table(w, rows)
}

// Notes say how the records were measured, and what went wrong, a line for each.
func Notes(records []Record) (lines []string) {
	add := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, r := range records {
		if r.Peer.Version != "" {
			add(r.peerLine())
		}
	}
	add(asleep(records))
	for _, n := range threadsOf(records) {
		var read []float64
		for _, r := range records {
			if r.Threads == n && r.ReadGBS > 0 {
				read = append(read, r.ReadGBS)
			}
		}
		add(fmt.Sprintf("This machine beside it, threads %d: reads %.1f GB/s (median)", n, inference.Median(read)))
	}
	if !slices.ContainsFunc(records, func(r Record) bool { return r.Energy == EnergyKnown }) {
		add("J/token: " + EnergyUnknown)
	}
	for _, r := range records {
		if r.Short {
			add(fmt.Sprintf("%s, threads %d, %s: one round of %d tokens, as the slower side takes %.1f s per token", r.Kind, r.Threads, r.Test().Name(), r.Prompt+r.Generate, r.SlowS))
		}
		if r.Error != "" {
			add(fmt.Sprintf("%s, threads %d, %s: %s", r.Kind, r.Threads, r.Test().Name(), r.Error))
		}
	}
	return lines
}

// peerLine says how llama.cpp ran.
func (r Record) peerLine() string {
	var buffers []string
	for _, b := range r.Peer.Buffers {
		buffers = append(buffers, fmt.Sprintf("%s %d MiB%s", b.Name, b.Bytes>>20, layout(b)))
	}
	return fmt.Sprintf("%s: llama.cpp %s, %s, flash attention, keys and values %s, weights in %s; logits differ by %.2g",
		r.Kind, r.Peer.Version, r.Peer.Library, r.Cache, strings.Join(buffers, ", "), r.Peer.Logits)
}

// mappedBuffer is how the name of a buffer ends that has the file's pages.
const mappedBuffer = "_Mapped"

// layout says how a buffer has weights.
func layout(b llama.Buffer) string {
	if strings.HasSuffix(b.Name, mappedBuffer) {
		return " (pages of the file)"
	}
	return " (a copy)"
}

// asleep says how much CPU time the sides used in each other's turns.
func asleep(records []Record) string {
	ours, theirs := 0.0, 0.0
	for _, r := range records {
		ours, theirs = max(ours, r.Ours.IdleCPU), max(theirs, r.Theirs.IdleCPU)
	}
	return fmt.Sprintf("In each other's turns the sides sleep: tmacc used at most %.2f %% of a CPU, llama.cpp %.2f %%", 100*ours, 100*theirs)
}

// threadsOf lists the numbers of threads.
func threadsOf(records []Record) (all []int) {
	for _, r := range records {
		if !slices.Contains(all, r.Threads) {
			all = append(all, r.Threads)
		}
	}
	return all
}
