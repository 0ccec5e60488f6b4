package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cpu"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// calibratedName is the name of a core that was measured here: its file's owner may give it a better one.
const calibratedName = "my-core"

// calibrate measures how this machine's core reads memory. All other values are from the built-in core that its kernels are for.
func (c *cli) calibrate(ctx context.Context, asJSON bool) error {
	if err := mapping("host"); err != nil {
		return err
	}
	best := measure.BestOn(timing.ThisHost(), "")
	if best == nil {
		return errors.New("host -calibrate: this machine runs the kernels of no target")
	}
	like := best.Machine().Core
	measured, err := c.calibrated(ctx, like)
	if err != nil {
		return err
	}
	own := like
	own.Name, own.Own, own.CPUs, own.Hierarchy = calibratedName, true, thisCPU(timing.ThisHost()), measured
	if err := own.Validate(); err != nil {
		return fmt.Errorf("host -calibrate: the measurements make no core, perhaps because of other processes: measure again: %w", err)
	}
	if asJSON {
		return printCore(c.out, own)
	}
	printHierarchy(c.out, like.Name, like.Hierarchy, measured)
	fmt.Fprintf(c.out, "\nAll other values are from %s. For a file that -core accepts: tmacc host -calibrate -json > %s.json\n", like.Name, calibratedName)
	return nil
}

// calibrated measures, and shows what it is at.
func (c *cli) calibrated(ctx context.Context, like core.Core) (core.Hierarchy, error) {
	bar := newProgress(c.err, false)
	defer bar.done()
	lab, err := measure.NewLab()
	if err != nil {
		return core.Hierarchy{}, err
	}
	defer lab.Close()
	var alone attention
	h, err := lab.Calibrate(ctx, like.Hierarchy, func(what string, now, all int) {
		bar.step("%d of %d: measuring %s", now, all, what)
		if alone.pause(); now < all { // the last step runs on all CPUs
			alone.watch()
		}
	})
	bar.done()
	if text := alone.doubt(); err == nil && text != "" {
		fmt.Fprintf(c.err, "tmacc: %s\n", text)
	}
	return h, err
}

// attention is how much of its core one thread has had while it was watched.
type attention struct {
	began         time.Time
	usedThen      time.Duration
	watched       bool
	elapsed, used time.Duration
}

func (a *attention) watch() { a.began, a.usedThen, a.watched = time.Now(), timing.ProcessTime(), true }

func (a *attention) pause() {
	if a.watched {
		a.elapsed, a.used, a.watched = a.elapsed+time.Since(a.began), a.used+timing.ProcessTime()-a.usedThen, false
	}
}

// mostAway is the share of time without the core from which on a calibration is not to be trusted.
const mostAway = 0.2

// doubt says that the core did something else for much of the time; "" if it did not, or the system does not tell.
func (a *attention) doubt() string {
	away := 1 - a.used.Seconds()/a.elapsed.Seconds()
	if a.used == 0 || !(away > mostAway) {
		return ""
	}
	return fmt.Sprintf("this machine is busy: for %.0f %% of the time the core did something else: calibrate again when nothing else runs", 100*away)
}

// thisCPU are the CPUs of this one's vendor, family and model; none if it does not say them.
func thisCPU(h timing.Host) []cpu.Set {
	if h.Vendor == "" || h.Family == 0 {
		return nil
	}
	return []cpu.Set{{Vendor: h.Vendor, FirstFamily: h.Family, LastFamily: h.Family, FirstModel: h.Model, LastModel: h.Model}}
}

// printHierarchy prints what was measured beside the numbers of a built-in core.
func printHierarchy(w io.Writer, name string, built, measured core.Hierarchy) {
	t := table{head: []string{"", "here", name}, wide: 0}
	row := func(what string, here, there float64) { t.add(what, fmt.Sprint(here), fmt.Sprint(there)) }
	row("first-level cache, bytes", float64(measured.First), float64(built.First))
	row("lines that it waits for", float64(measured.Fills), float64(built.Fills))
	for i, level := range core.Levels {
		row("cycles of a line from "+level, measured.Latency[i], built.Latency[i])
	}
	for i, level := range slices.All(core.Levels[:]) {
		row("cycles from line to line, "+level, measured.Line[i], built.Line[i])
	}
	row("the same of several streams", measured.Several, built.Several)
	row("the same while all cores read", measured.Share(), built.Share())
	t.print(w, widthOf(w))
}
