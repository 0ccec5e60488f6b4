package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/bench/duel"
	"github.com/tmacc/tmacc/search/bench/inference"
)

// modelsHead is the page of records above its tables.
const modelsHead = `# Models beside llama.cpp

Written by %[1]sgo run ./tests/lab models %[2]s/models%[1]s from the files of that folder. %[1]sbash %[2]s/models.sh LIBS%[1]s makes them by commands such as

%[1]s%[1]s%[1]s
tmacc bench -model synthetic:bitnet-2b -peer llama=LIBS -p 512 -n 32 -threads 1,2 -r 3 -o json
%[1]s%[1]s%[1]s

The libraries come from %[1]snpm i --ignore-scripts @node-llama-cpp/linux-x64@3.22.1%[1]s.

## How both are measured

* Tests have llama-bench's names: pp512 evaluates a prompt of 512 tokens, tg32 generates 32 tokens one by one, @ d4080 does so after 4080 tokens (bitnet-2b was made for 4096). Tokens are random, and tokenizing and
  sampling are left out. Both sides evaluate the same tokens.
* The models have the shapes and types of published ones and random weights. Both sides read the same file. Before anything is timed, the logits of a prompt are compared.
* llama.cpp runs in a process of its own: flash attention, repacked weights, keys and values in f16, batches of 512, a pool of threads with its usual settings. The variant of
  the CPU backend is the one that its own score picks. Rows of another *variant* are measured beside the only one in a folder, as on a CPU without the features of the first.
* Rounds alternate. Each side begins every second round, and sleeps in the other's turns. The CPU time that it uses in them is below.
* A row's figures are medians of its rounds. *times* is the ratio of the medians, and *from – to* the least and the largest ratio of one round.
* *of read* is the rate at which a generated token reads the file's weights, over the rate of reading memory between the turns.
* tmacc evaluates all tokens of a depth. llama.cpp evaluates 64 tokens and restores a saved sequence that repeats their keys and values up to the depth.
* A test that takes over 5 s per token is one round of 16 tokens.
`

// models prints the page of a folder with files that tmacc bench -model -peer -o json has printed.
func (x *lab) models(_ context.Context, args []string) error {
	f := x.flags("models")
	if err := x.parse(f, args, 1); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(f.Arg(0), "*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: has no records *.json", f.Arg(0))
	}
	var records []duel.Record
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		some, err := duel.ParseRecords(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		records = append(records, some...)
	}
	_, err = io.WriteString(x.out, modelsPage(records))
	return err
}

// modelsPage is docs/models-performance.md.
func modelsPage(records []duel.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, modelsHead, "`", home)
	b.WriteString("\n## Where\n\n")
	var where []string
	for _, r := range records {
		day, _, _ := strings.Cut(r.Time, "T")
		if line := fmt.Sprintf("* tmacc %s; %s: %s\n", r.Commit, day, r.CPU); !slices.Contains(where, line) {
			where = append(where, line)
			b.WriteString(line)
		}
	}
	b.WriteString("\n")
	for _, line := range duel.Notes(records) {
		fmt.Fprintf(&b, "* %s\n", line)
	}
	b.WriteString("\n## Prompts\n\n")
	duel.Table(&b, filter(records, func(r duel.Record) bool { return r.Prompt > 0 }))
	b.WriteString("\n## Generated tokens\n\n")
	duel.Table(&b, filter(records, func(r duel.Record) bool { return r.Prompt == 0 }))
	b.WriteString("\n## Where our time goes\n\nMilliseconds per token, on average. Products include the quantization of their activations.\n\n")
	inference.Table(&b, parts(records))
	return b.String()
}

func filter(records []duel.Record, keep func(duel.Record) bool) (out []duel.Record) {
	for _, r := range records {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// parts are the rows of the table of our parts.
func parts(records []duel.Record) [][]string {
	rows := [][]string{{"model", "test", "threads", "products", "attention", "rest", "head"}}
	for _, r := range records {
		row := []string{r.Kind, r.Test().Name(), fmt.Sprint(r.Threads)}
		for _, ns := range []float64{r.PartProducts, r.PartAttention, r.PartRest, r.PartHead} {
			row = append(row, fmt.Sprintf("%.2f", ns/1e6))
		}
		rows = append(rows, row)
	}
	return rows
}
