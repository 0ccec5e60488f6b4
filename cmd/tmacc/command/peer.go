package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/bench/peer"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/ggml"
	"github.com/tmacc/tmacc/search/measure/library"
	"github.com/tmacc/tmacc/search/tune"
)

// peerTypes are the types of blocks that are measured if -format names none.
var peerTypes = []string{"Q4_0", "Q4_K", "IQ4_NL", "MXFP4", "Q8_0", "Q2_K", "Q3_K", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"}

// validatePeer checks the flags of -peer and sets its defaults.
func (b *benchFlags) validatePeer(cmd *cobra.Command) error {
	if b.peer == "" {
		if cmd.Flags().Changed("threads") {
			return fmt.Errorf("-threads is for -peer and -model: everything else is measured on one thread")
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
	if err := b.validateThreads(); err != nil {
		return err
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

// loading builds a tmacc that loads libraries, which this static one cannot, and runs this command again with it.
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
	args := []string{"build", "-tags", library.Tag, "-o", exe, "-ldflags=-s -w"}
	if bench.Commit() != "" { // records name the commit then, whatever GOFLAGS says
		args = append(args, "-buildvcs=true")
	}
	if err := (gomod.Toolchain{Dir: gomod.Checkout()}).Run(ctx, "CGO_ENABLED=0", append(args, gomod.Path+"/cmd/tmacc")...); err != nil {
		return fmt.Errorf("%w; go install -tags %s %s/cmd/tmacc@latest: %w", library.ErrStatic, library.Tag, gomod.Path, err)
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

// comparePeer measures all types of blocks at all places, round after round, beside ggml.
func (c *cli) comparePeer(ctx context.Context, b benchFlags, lock *tune.Lock) error {
	limits, err := c.peerLimits(b.check)
	if err != nil {
		return err
	}
	_, dir, _ := strings.Cut(b.peer, "=")
	lib, err := ggml.Open(dir)
	if errors.Is(err, library.ErrStatic) {
		return c.loading(ctx, b.quiet)
	}
	if err != nil {
		return err
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	x, err := peer.New(lib, b.threads)
	if err != nil {
		return err
	}
	defer x.Close()
	d := c.keptDefaults(b.noRecords, bar)
	defer d.Close()
	s := &bench.Suite{Places: bench.Places(b.modes, b.ns, b.m, b.k), Lock: lock, Defaults: d}
	defer s.Close()
	types, err := c.addTypes(ctx, s, b, bar)
	if err != nil {
		return err
	}
	bar.done()
	c.noteUnlocked(b, s)
	records, err := x.Run(ctx, s, types, b.rounds, bar.begins, func(r measure.PeerRecord) {
		if b.json {
			json.NewEncoder(c.out).Encode(r)
		}
	})
	if wrong := (*peer.Disagreement)(nil); errors.As(err, &wrong) {
		return &status{exitFailed, err}
	}
	if err != nil {
		return err
	}
	bar.done()
	verdicts := measure.CheckPeer(limits, records)
	if !b.json {
		fmt.Fprintf(c.out, "ggml %s, %s\n", lib.Version, filepath.Base(lib.Path))
		peerTable(peer.Medians(records)).print(c.out, widthOf(c.out))
		c.printVerdicts(verdicts)
	}
	return missed(verdicts)
}

func (c *cli) peerLimits(path string) ([]measure.PeerLimit, error) {
	if path == "" {
		return nil, nil
	}
	data, err := c.inputs().JSON(path, "ratios, such as docs/lab/ratios.json")
	if err != nil {
		return nil, err
	}
	limits, err := measure.ParsePeerLimits(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return limits, nil
}

// addTypes compiles the formats of the types of blocks, all of them for each target. It returns the type of each subject.
func (c *cli) addTypes(ctx context.Context, s *bench.Suite, b benchFlags, bar *progress) (types []string, err error) {
	ts, err := c.targetsHere(b.targets, b.cores)
	if err != nil {
		return nil, err
	}
	for _, t := range ts {
		for _, typ := range b.formats {
			block, err := blocks.Lookup(typ)
			if err != nil {
				return nil, err
			}
			bar.step("compiling %s for %s", block.Weight, t.Machine().Name)
			if err := c.addTo(ctx, s, b, block.Weight, t, false); err != nil {
				return nil, err
			}
			types = append(types, typ)
		}
	}
	return types, nil
}

// peerTable is a table of records.
func peerTable(records []measure.PeerRecord) *table {
	t := &table{head: []string{"type", "target", "mode", "n", "threads", "us", "Gw/s", "ggml Gw/s", "repacked", "times ggml", "read GB/s", "error", "ggml's"}, wide: -1}
	for _, r := range records {
		plain, repacked := r.TheirSpeeds()
		best := r.Fastest()
		t.add(r.Name(), r.Target, r.Mode, r.N, r.Threads, fmt.Sprintf("%.1f", r.Ours.Ns/1e3), fmt.Sprintf("%.1f", r.Ours.GWeightsS), blank(plain), blank(repacked),
			fmt.Sprintf("%.2f", r.Ratio), blank(r.ReadGBS), fmt.Sprintf("%.2g", r.Ours.Error), fmt.Sprintf("%.2g", best.Error))
	}
	return t
}

// blank prints a figure with one decimal, and nothing for 0.
func blank(f float64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", f)
}
