package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/measure"
)

// pageAbout is what the page of records says before its tables.
const pageAbout = `
Written by ` + "`tmacc bench -md performance.jsonl -check docs/lab/ratios.json`" + ` from the file of that name beside this page, records of

` + "```" + `
tmacc bench -peer ggml=node_modules/@node-llama-cpp/linux-x64/bins/linux-x64 -threads 1,2 -json >> performance.jsonl
` + "```" + `

once per round; medians of rounds by their ratio. Libraries: ` + "`npm i --ignore-scripts @node-llama-cpp/linux-x64@3.22.1`" + `, loaded into the process of tmacc with
purego; of the variants for different CPUs, ggml's own score chooses.

## What is compared

* Both read the bytes of the same blocks: random codes, sub-scales and scales. tmacc packs them with ` + "`PackBlocks`" + ` and runs its default schedules, in rows that say *tuned* those of a lock,
  through the runtime's ` + "`Gemm`" + `; ggml has them in its plain buffer type and, for the types that it can, in the one that repacks them (` + "`CPU_REPACK`" + `). The faster of the two counts.
* A call begins with float activations and ends with float products on both sides: ` + "`PrepareAct`" + ` and ` + "`Gemm`" + `; a graph of one ` + "`ggml_mul_mat`" + ` on the CPU backend with a thread
  pool of its own. The graph's overhead is about 1 us per call; its quantization of activations is part of it as ours is.
* Before it is timed, each product is compared with that of exact activations, in float64: errors may be 1.25 times what rounding to int8 does to it on average, and 8
  standard deviations in a single element. More is an error, not a figure. Column *error* is relative, root mean square.
* ggml's activations share a scale by 32 (Q8_0) or, for K and ternary types, by 256 (Q8_K). tmacc's share one by as many as the weights' group has, at most 32 (16 for
  Q3_K), and by 256 for ternary types and Q2_K: for the other K types it does more work and errs less.
* *dram*: copies that total over 512 MiB, and twice the last-level cache, are cycled. *l3*: one matrix. 4096 x 4096, in huge pages on both sides, samples interleaved, each thread on
  a CPU of its own, the fastest of 11 samples.
`

// pageRounds is what is said of records that have it.
const pageRounds = `* What several threads gain is compared with what reading gains in the same rounds, by the median of them: a host may give threads more bandwidth in some
  rounds than in others, and the fastest samples of both may be of different ones.
`

// printPage prints the records of a file as Markdown, with what is asked of them.
func (c *cli) printPage(path, limitsPath string) error {
	data, err := c.readJSON(path, "what tmacc bench -json printed")
	if err != nil {
		return err
	}
	if x, ok, err := parseLimitCheck(data); ok {
		if err == nil && limitsPath != "" {
			err = errors.New("has what it was checked by: -md without -check")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		_, err = io.WriteString(c.out, x.page())
		return err
	}
	limits, err := c.peerLimits(limitsPath)
	if err != nil {
		return err
	}
	records, err := peerRecords(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var beside [2]string
	for i, name := range []string{"threads.md", "by-hand.md"} {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		beside[i] = string(data)
	}
	_, err = io.WriteString(c.out, peerPage(records, limits, beside[0], beside[1]))
	return err
}

// besideBusy is the table of tmacc threads in the page about threads, with the line that says where it was measured.
func besideBusy(page string) string {
	head, rest, ok := strings.Cut(page, "\n| busy processes |")
	if !ok {
		return ""
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	head = strings.TrimSpace(head)
	return fmt.Sprintf("\n## Beside a busy process\n\nw2 out of memory, while another process keeps one of the CPUs busy: how it was measured is said in [threads.md](threads.md), whose table this is. %s\n\n| busy processes |%s\n",
		head[strings.LastIndex(head, "\n")+1:], table)
}

// peerRecords reads records, one per line. Their figures are computed again.
func peerRecords(data []byte) ([]measure.PeerRecord, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var all []measure.PeerRecord
	for d.More() {
		var r measure.PeerRecord
		if err := d.Decode(&r); err != nil {
			return nil, fmt.Errorf("record %d: %w", len(all)+1, err)
		}
		if len(r.Theirs) == 0 || r.Ours.Ns <= 0 || r.Threads < 1 {
			return nil, fmt.Errorf("record %d: not one of bench -peer -json", len(all)+1)
		}
		all = append(all, r.Complete())
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no records")
	}
	return all, nil
}

// peerPage is docs/lab/performance.md; threads is docs/lab/threads.md, byHand docs/lab/by-hand.md, of which it has all but the title.
func peerPage(records []measure.PeerRecord, limits []measure.PeerLimit, threads, byHand string) string {
	verdicts := measure.CheckPeer(limits, records)
	var b strings.Builder
	b.WriteString("# Speed beside ggml\n" + pageAbout)
	if slices.ContainsFunc(records, func(r measure.PeerRecord) bool { return r.PerByte > 0 }) {
		b.WriteString(pageRounds)
	}
	b.WriteString("\n## Where\n\n")
	for _, line := range distinct(records, func(r measure.PeerRecord) string {
		return fmt.Sprintf("%s, %s; tmacc %s, target %s; %s: %s", r.Peer, r.Library, r.Commit, r.Target, r.Date, r.Host)
	}) {
		fmt.Fprintf(&b, "* %s\n", line)
	}
	middle := peerMedians(records)
	for _, mode := range []string{measure.ModeDRAM, measure.ModeL3, measure.ModeL2} {
		for _, n := range activations(middle, mode) {
			peerSection(&b, middle, limits, mode, n)
		}
	}
	peerScaling(&b, middle, verdicts)
	b.WriteString(besideBusy(threads))
	if _, text, ok := strings.Cut(byHand, "\n"); ok {
		b.WriteString("\n## Beside kernels written by hand\n" + text)
	}
	fmt.Fprintf(&b, "\n## What is asked\n\n%s\n\n```\n", holding(verdicts))
	for _, v := range verdicts {
		fmt.Fprintln(&b, v)
	}
	b.WriteString("```\n")
	return b.String()
}

// holding counts what is asked and holds.
func holding(verdicts []measure.Verdict) string {
	missed := 0
	for _, v := range verdicts {
		if v.Failed() {
			missed++
		}
	}
	return fmt.Sprintf("%d of %d ratios that are asked hold (docs/lab/ratios.json).", len(verdicts)-missed, len(verdicts))
}

func distinct(records []measure.PeerRecord, of func(measure.PeerRecord) string) []string {
	var out []string
	for _, r := range records {
		if s := of(r); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// activations are the numbers of them that were measured in a mode, ascending.
func activations(records []measure.PeerRecord, mode string) []int {
	var out []int
	for _, r := range records {
		if r.Mode == mode {
			out = append(out, r.N)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// peerSection is a table of one mode and number of activations, a line for each type
// and number of threads.
func peerSection(b *strings.Builder, records []measure.PeerRecord, limits []measure.PeerLimit, mode string, n int) {
	unit := "Gweights/s"
	title := fmt.Sprintf("GEMV, %s", mode)
	if n > 1 {
		title, unit = fmt.Sprintf("GEMM, %d activations", n), "GMAC/s"
	}
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", title, unit)
	b.WriteString("| type | packed as | bits/weight | threads | tmacc | ggml | ggml repacked | times the faster | asked | error | ggml's error |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range records {
		if r.Mode != mode || r.N != n {
			continue
		}
		plain, repacked := theirSpeeds(r)
		fmt.Fprintf(b, "| %s | `%s` | %.4g | %d | %.1f | %s | %s | %.2f | %s | %.2f %% | %.2f %% |\n", named(r), r.Format, r.Bits, r.Threads, r.Ours.GWeightsS, plain, repacked,
			r.Ratio, asked(r, limits), 100*r.Ours.Error, 100*r.Fastest().Error)
	}
}

// asked is the ratio asked of a record, "" for none.
func asked(r measure.PeerRecord, limits []measure.PeerLimit) string {
	for _, l := range limits {
		if ratio := l.Asked(r); ratio > 0 {
			return fmt.Sprint(ratio)
		}
	}
	return ""
}

// named is the type of a record, and that its schedules are not the default ones.
func named(r measure.PeerRecord) string {
	if r.Tuned {
		return r.Type + " tuned"
	}
	return r.Type
}

// peerScaling is a table of what more threads gain where weights come from memory.
func peerScaling(b *strings.Builder, records []measure.PeerRecord, verdicts []measure.Verdict) {
	one := map[string]measure.PeerRecord{}
	var rows []string
	for _, r := range records {
		if r.ReadGBS == 0 {
			continue
		}
		id := fmt.Sprint(named(r), r.Target, r.N)
		if r.Threads == 1 {
			one[id] = r
			continue
		}
		if x, ok := one[id]; ok {
			over := ""
			if v := measure.Scaling(verdicts, r); v != nil {
				over = fmt.Sprintf("%.2f", v.Have)
			}
			rows = append(rows, fmt.Sprintf("| %s | %d | %.1f | %.1f | %.2f | %.2f | %s | %.2f |\n", named(r), r.Threads, r.Ours.GWeightsS*r.Bits/8, r.ReadGBS,
				r.Ours.GWeightsS/x.Ours.GWeightsS, r.ReadGBS/x.ReadGBS, over, r.Fastest().GWeightsS/x.Fastest().GWeightsS))
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n## Threads, dram\n\n| type | threads | GB/s read by tmacc | by the probe | gain of tmacc | of the probe | gain over that of the probe | of ggml |\n|---|---:|---:|---:|---:|---:|---:|---:|\n" + strings.Join(rows, ""))
	}
}

// peerSummary is the table of docs/benchmarks.md: of one thread, a line for each type; and
// how much of what is asked holds.
func peerSummary(records []measure.PeerRecord, limits []measure.PeerLimit) string {
	var b strings.Builder
	b.WriteString("| type | bits/weight | GEMV dram Gweights/s | times ggml | GEMV cache Gweights/s | times ggml | GEMM GMAC/s | times ggml |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	middle := peerMedians(records)
	for _, typ := range distinct(middle, named) {
		cells := [3]string{" | ", " | ", " | "}
		bits := 0.0
		for _, r := range middle {
			if named(r) != typ || r.Threads != 1 {
				continue
			}
			bits = r.Bits
			cell := fmt.Sprintf("%.0f | %.1f", r.Ours.GWeightsS, r.Ratio)
			switch {
			case r.N == 1 && r.Mode == measure.ModeDRAM:
				cells[0] = cell
			case r.N == 1 && r.Mode == measure.ModeL3:
				cells[1] = cell
			case r.N == measure.ManyColumns:
				cells[2] = cell
			}
		}
		fmt.Fprintf(&b, "| %s | %.4g | %s |\n", typ, bits, strings.Join(cells[:], " | "))
	}
	fmt.Fprintf(&b, "\n%s\n", holding(measure.CheckPeer(limits, records)))
	return b.String()
}
