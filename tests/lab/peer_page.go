package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/bench/peer"
	"github.com/tmacc/tmacc/search/measure"
)

// peerHead is the page of records above its tables.
const peerHead = `# Speed beside ggml

Written by %[1]sgo run ./tests/lab peer -check %[2]s/ratios.json performance.jsonl%[1]s from the file of that name beside this page. One round of its records is the output of

%[1]s%[1]s%[1]s
tmacc bench -peer ggml=node_modules/@node-llama-cpp/linux-x64/bins/linux-x64 -threads 1,2 -json >> performance.jsonl
%[1]s%[1]s%[1]s

The tables show the median round of each measurement, by its ratio. The libraries come from %[1]snpm i --ignore-scripts @node-llama-cpp/linux-x64@3.22.1%[1]s. purego loads
them into the process of tmacc. Of the variants for different CPUs, ggml's own score chooses one.

## How both are measured

* Both read the bytes of the same blocks: random codes, sub-scales and scales. tmacc packs them with %[1]sPackBlocks%[1]s and multiplies with the runtime's %[1]sGemm%[1]s, by its default schedules;
  rows that say *tuned* are by schedules of a lock.
* ggml has the blocks in its plain buffer type and, for the types that it can repack, in the buffer type that repacks them (%[1]sCPU_REPACK%[1]s). The faster one counts.
* A call begins with float activations and ends with float products on both sides. tmacc's call is %[1]sPrepareAct%[1]s and %[1]sGemm%[1]s. ggml's call is a graph of one %[1]sggml_mul_mat%[1]s on the CPU
  backend, with a thread pool of its own; the graph's overhead is about 1 us. Both calls quantize their activations.
* Before it is timed, each product is compared with that of exact activations in float64. Its error may be 1.25 times the mean error of rounding activations to int8, and 8
  standard deviations in a single element. A larger error ends the comparison. Column *error* is relative, root mean square.
* ggml's activations share a scale by 32 (Q8_0) or, for K and ternary types, by 256 (Q8_K). tmacc's share a scale by the weights' group, at most 32 (16 for
  Q3_K), and by 256 for ternary types and Q2_K. For the other K types tmacc does more work and errs less.
* *dram* cycles through copies that total over 512 MiB, and twice the last-level cache. *l3* reads one matrix. Matrices are 4096 x 4096, in huge pages on both sides. Samples are
  interleaved, each thread has a CPU of its own, and the fastest of 11 samples counts.
`

// peerRounds is said of records that compare threads by rounds.
const peerRounds = `* The gain by several threads is compared with the gain in reading memory in the same rounds; the median round counts. A host may give threads more bandwidth in some
  rounds than in others, and the fastest samples of both may be of different rounds.
`

// peer prints the page of a file that tmacc bench -peer -json has written, with the ratios that are asked.
func (x *lab) peer(_ context.Context, args []string) error {
	f := x.flags("peer")
	ratios := f.String("check", "", "JSON `file` with the ratios that are asked")
	if err := x.parse(f, args, 1); err != nil {
		return err
	}
	path := f.Arg(0)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	records, err := peer.ParseRecords(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	limits, err := readRatios(*ratios)
	if err != nil {
		return err
	}
	var beside [2]string
	for i, name := range []string{"threads.md", "by-hand.md"} {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		beside[i] = string(data)
	}
	_, err = io.WriteString(x.out, peerPage(records, limits, beside[0], beside[1]))
	return err
}

// readRatios reads the ratios of a file, none of "".
func readRatios(path string) ([]measure.PeerLimit, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	limits, err := measure.ParsePeerLimits(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return limits, nil
}

// besideBusy is the section with the table of the page about threads, and with its line that says where it was measured.
func besideBusy(page string) string {
	head, rest, ok := strings.Cut(page, "\n| busy processes |")
	if !ok {
		return ""
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	head = strings.TrimSpace(head)
	return fmt.Sprintf("\n## Beside a busy process\n\nw2 out of memory, while another process keeps one of the CPUs busy. The table is from [threads.md](threads.md), which says how it was measured. %s\n\n| busy processes |%s\n",
		head[strings.LastIndex(head, "\n")+1:], table)
}

// peerPage is docs/lab/performance.md. threads is docs/lab/threads.md, and byHand is docs/lab/by-hand.md, which the page has without its title.
func peerPage(records []measure.PeerRecord, limits []measure.PeerLimit, threads, byHand string) string {
	verdicts := measure.CheckPeer(limits, records)
	var b strings.Builder
	fmt.Fprintf(&b, peerHead, "`", home)
	if slices.ContainsFunc(records, func(r measure.PeerRecord) bool { return r.PerByte > 0 }) {
		b.WriteString(peerRounds)
	}
	b.WriteString("\n## Where\n\n")
	for _, line := range distinct(records, func(r measure.PeerRecord) string {
		return fmt.Sprintf("%s, %s; tmacc %s, target %s; %s: %s", r.Peer, r.Library, r.Commit, r.Target, r.Date, r.Host)
	}) {
		fmt.Fprintf(&b, "* %s\n", line)
	}
	middle := peer.Medians(records)
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
	fmt.Fprintf(&b, "\n## Required ratios\n\n%s\n\n```\n", holding(verdicts))
	for _, v := range verdicts {
		fmt.Fprintln(&b, v)
	}
	b.WriteString("```\n")
	return b.String()
}

// holding counts the ratios that hold.
func holding(verdicts []measure.Verdict) string {
	return fmt.Sprintf("%s (%s/ratios.json).", hold(len(verdicts)-measure.Missed(verdicts), len(verdicts), "ratios"), home)
}

// distinct returns the different values of a function of records.
func distinct(records []measure.PeerRecord, of func(measure.PeerRecord) string) []string {
	var out []string
	for _, r := range records {
		if s := of(r); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// activations lists the numbers of activations that were measured in a mode, ascending.
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

// peerSection writes the table of one mode and number of activations, with a line for each type and number of threads.
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
		plain, repacked := r.TheirSpeeds()
		fmt.Fprintf(b, "| %s | `%s` | %.4g | %d | %.1f | %s | %s | %.2f | %s | %.2f %% | %.2f %% |\n", r.Name(), r.Format, r.Bits, r.Threads, r.Ours.GWeightsS, blank(plain), blank(repacked),
			r.Ratio, asked(r, limits), 100*r.Ours.Error, 100*r.Fastest().Error)
	}
}

// asked is the ratio that limits ask of a record, or "".
func asked(r measure.PeerRecord, limits []measure.PeerLimit) string {
	for _, l := range limits {
		if ratio := l.Asked(r); ratio > 0 {
			return fmt.Sprint(ratio)
		}
	}
	return ""
}

// peerScaling writes the table of the gain by more threads where weights come from memory.
func peerScaling(b *strings.Builder, records []measure.PeerRecord, verdicts []measure.Verdict) {
	one := map[string]measure.PeerRecord{}
	var rows []string
	for _, r := range records {
		if r.ReadGBS == 0 {
			continue
		}
		id := fmt.Sprint(r.Name(), r.Target, r.N)
		if r.Threads == 1 {
			one[id] = r
			continue
		}
		if x, ok := one[id]; ok {
			over := ""
			if v := measure.Scaling(verdicts, r); v != nil {
				over = fmt.Sprintf("%.2f", v.Have)
			}
			rows = append(rows, fmt.Sprintf("| %s | %d | %.1f | %.1f | %.2f | %.2f | %s | %.2f |\n", r.Name(), r.Threads, r.Ours.GWeightsS*r.Bits/8, r.ReadGBS,
				r.Ours.GWeightsS/x.Ours.GWeightsS, r.ReadGBS/x.ReadGBS, over, r.Fastest().GWeightsS/x.Fastest().GWeightsS))
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n## Threads, dram\n\n| type | threads | GB/s read by tmacc | by the probe | gain of tmacc | of the probe | gain over that of the probe | of ggml |\n|---|---:|---:|---:|---:|---:|---:|---:|\n" + strings.Join(rows, ""))
	}
}

// peerSummary is the table of docs/benchmarks.md: a line for each type on one thread, and below it how many ratios hold.
func peerSummary(records []measure.PeerRecord, limits []measure.PeerLimit) string {
	var b strings.Builder
	b.WriteString("| type | bits/weight | GEMV dram Gweights/s | times ggml | GEMV cache Gweights/s | times ggml | GEMM GMAC/s | times ggml |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	middle := peer.Medians(records)
	for _, typ := range distinct(middle, measure.PeerRecord.Name) {
		cells := [3]string{" | ", " | ", " | "}
		bits := 0.0
		for _, r := range middle {
			if r.Name() != typ || r.Threads != 1 {
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

// blank prints a figure with one decimal, and nothing for 0.
func blank(f float64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", f)
}
