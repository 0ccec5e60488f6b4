package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/ggml"
)

// peerTypes are the types of blocks that are compared if -format names none.
var peerTypes = []string{"Q4_0", "Q4_K", "IQ4_NL", "MXFP4", "Q8_0", "Q2_K", "Q3_K", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"}

// validatePeer checks the flags of -peer and sets its defaults.
func (b *benchFlags) validatePeer(cmd *cobra.Command) error {
	if b.page != "" && b.peer != "" {
		return fmt.Errorf("-md prints records of earlier runs: give it without -peer")
	}
	if b.peer == "" {
		if cmd.Flags().Changed("threads") {
			return fmt.Errorf("-threads is for -peer: everything else is measured on one thread")
		}
		return nil
	}
	if name, dir, ok := strings.Cut(b.peer, "="); !ok || name != "ggml" || dir == "" {
		return fmt.Errorf("-peer %s: want ggml=FOLDER, with the folder of its libraries", b.peer)
	}
	for _, name := range []string{"trace", "act", "act-group"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("-%s is not for -peer, which measures what PackBlocks, and the default schedules or a -lock, make of GGUF's types", name)
		}
	}
	for _, n := range b.threads {
		if n < 1 || n > goruntime.NumCPU() {
			return fmt.Errorf("-threads %d: this process may use 1 to %d", n, goruntime.NumCPU())
		}
	}
	if len(b.formats) == 0 {
		b.formats = peerTypes
	}
	if !cmd.Flags().Changed("mode") {
		b.modes = []string{measure.ModeDRAM, measure.ModeL3}
	}
	if !cmd.Flags().Changed("n") {
		b.ns = []int{1, measure.ManyColumns}
	}
	return nil
}

// loading runs this command again by a program that loads libraries, which it builds: this
// one is static.
func (c *cli) loading(ctx context.Context, quiet bool) error {
	dir, err := os.MkdirTemp("", "tmacc-peer-")
	if err != nil {
		return plain(err)
	}
	defer os.RemoveAll(dir)
	exe := filepath.Join(dir, "tmacc")
	bar := newProgress(c.err, quiet)
	defer bar.done()
	bar.step("building a tmacc that loads libraries: this one is static")
	args := []string{"build", "-tags", ggml.Tag, "-o", exe}
	if commit() != "" { // records name the commit then, whatever GOFLAGS says
		args = append(args, "-buildvcs=true")
	}
	if err := (gomod.Toolchain{Dir: gomod.Checkout()}).Run(ctx, "CGO_ENABLED=0", append(args, gomod.Path+"/cmd/tmacc")...); err != nil {
		return fmt.Errorf("%w; go install -tags %s %s/cmd/tmacc@latest: %w", ggml.ErrStatic, ggml.Tag, gomod.Path, err)
	}
	bar.done()
	cmd := exec.CommandContext(ctx, exe, c.args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &status{code: exit.ExitCode()}
	}
	return err
}

// comparePeer measures all types at all places, round after round.
func (c *cli) comparePeer(ctx context.Context, b benchFlags) error {
	limits, err := c.peerLimits(b.check)
	if err != nil {
		return err
	}
	_, dir, _ := strings.Cut(b.peer, "=")
	lib, err := ggml.Open(dir)
	if errors.Is(err, ggml.ErrStatic) {
		return c.loading(ctx, b.quiet)
	}
	if err != nil {
		return err
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	x, err := newRace(lib, b)
	if err != nil {
		return err
	}
	defer x.close()
	s := &suite{places: b.places()}
	defer s.close()
	if err := s.addTypes(ctx, c, b, bar); err != nil {
		return err
	}
	bar.done()
	c.noteUnlocked(b, s)
	records, err := x.rounds(ctx, s, bar, func(r measure.PeerRecord) {
		if b.json {
			json.NewEncoder(c.out).Encode(r)
		}
	})
	if err != nil {
		return err
	}
	bar.done()
	verdicts := measure.CheckPeer(limits, records)
	if !b.json {
		c.printPeer(lib, records, verdicts)
	}
	return missed(verdicts)
}

// printPeer prints what was measured beside lib, and what was asked of it.
func (c *cli) printPeer(lib *ggml.Library, records []measure.PeerRecord, verdicts []measure.Verdict) {
	fmt.Fprintf(c.out, "ggml %s, %s\n", lib.Version, filepath.Base(lib.Path))
	peerTable(peerMedians(records)).print(c.out, widthOf(c.out))
	for _, v := range verdicts {
		fmt.Fprintln(c.out, v)
	}
}

func maxOf(ns []int) int {
	most := 0
	for _, n := range ns {
		most = max(most, n)
	}
	return most
}

func (c *cli) peerLimits(path string) ([]measure.PeerLimit, error) {
	if path == "" {
		return nil, nil
	}
	data, err := c.readJSON(path, "ratios, such as docs/ratios.json")
	if err != nil {
		return nil, err
	}
	limits, err := measure.ParsePeerLimits(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return limits, nil
}

// addTypes compiles the formats that types of blocks hold, all of them for each
// target.
func (s *suite) addTypes(ctx context.Context, c *cli, b benchFlags, bar *progress) error {
	ts, err := targetsHere(b.targets)
	if err != nil {
		return err
	}
	for _, t := range ts {
		for _, typ := range b.formats {
			block, err := blocks.Lookup(typ)
			if err != nil {
				return err
			}
			bar.step("compiling %s for %s", block.Weight, t.Machine().Name)
			if err := s.add(ctx, c, b, block.Weight, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// peerMedians joins the rounds of each measurement: the one whose ratio is the
// median stands for all.
func peerMedians(records []measure.PeerRecord) []measure.PeerRecord {
	type key struct {
		typ, target, mode string
		n, threads        int
	}
	return medianOf(records, func(r measure.PeerRecord) key { return key{named(r), r.Target, r.Mode, r.N, r.Threads} },
		func(r measure.PeerRecord) float64 { return r.Ratio })
}

// peerTable is records as text.
func peerTable(records []measure.PeerRecord) *table {
	t := &table{head: []string{"type", "target", "mode", "n", "threads", "us", "Gw/s", "ggml Gw/s", "repacked", "times ggml", "read GB/s", "error", "ggml's"}, wide: -1}
	for _, r := range records {
		plain, repacked := theirSpeeds(r)
		best := r.Fastest()
		t.add(named(r), r.Target, r.Mode, r.N, r.Threads, fmt.Sprintf("%.1f", r.Ours.Ns/1e3), fmt.Sprintf("%.1f", r.Ours.GWeightsS), plain, repacked,
			fmt.Sprintf("%.2f", r.Ratio), blank(r.ReadGBS), fmt.Sprintf("%.2g", r.Ours.Error), fmt.Sprintf("%.2g", best.Error))
	}
	return t
}

// theirSpeeds are ggml's with weights as they are in the file and, at best, repacked.
func theirSpeeds(r measure.PeerRecord) (plain, repacked string) {
	best := 0.0
	for i, t := range r.Theirs {
		if i == 0 {
			plain = blank(t.GWeightsS)
		} else {
			best = max(best, t.GWeightsS)
		}
	}
	return plain, blank(best)
}

// blank is a figure with a decimal, nothing if it is 0.
func blank(f float64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", f)
}
