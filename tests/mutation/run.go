package mutation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fate is what became of a mutant.
type Fate int

const (
	Unnoticed Fate = iota // the tests pass
	Noticed               // a test fails
	TimedOut              // so does this, as the tests take too long
	Refused               // it does not compile
)

const (
	variable = "TMACC_MUTANT"
	most     = 4 << 20 // KiB of address space: mutants loop for ever
	patience = 10      // how many times as long as without a change tests may take
)

// Run is what becomes of each mutant of a file, in the order of File.Mutants, under the tests of
// its package. It writes what it builds to the folder temp.
func Run(name, temp string) (*File, []Fate, error) {
	f, err := Parse(name)
	if err != nil {
		return nil, nil, err
	}
	if name, err = filepath.Abs(name); err != nil {
		return nil, nil, err
	}
	r := &runner{f: f, name: name, temp: temp, fates: make([]Fate, len(f.Mutants))}
	if err := r.functions(); err != nil {
		return nil, nil, err
	}
	for _, m := range f.Mutants {
		if m.fn == nil {
			if err := r.alone(m); err != nil {
				return nil, nil, err
			}
		}
	}
	return f, r.fates, nil
}

type runner struct {
	f          *File
	name, temp string
	fates      []Fate
	limit      limit  // of the tests of a mutant
	slow       string // a pattern of the tests that take most of the time, which run last
}

// functions runs the mutants of functions.
func (r *runner) functions() error {
	bin := filepath.Join(r.temp, "mutants.test")
	if err := r.buildFunctions(bin); err != nil {
		return err
	}
	began := time.Now()
	r.limit = limit{time.Hour, time.Hour}
	fate, cpu, out := r.run(bin, 0, "-test.v")
	if fate != Unnoticed {
		return fmt.Errorf("the tests fail without a change:\n%s", out)
	}
	r.limit = limit{patience*time.Since(began) + time.Minute, patience*cpu + time.Second}
	r.slow = slowest(out)
	if r.test(bin, 0) != Unnoticed {
		return fmt.Errorf("tests fail without the others")
	}
	var wait sync.WaitGroup
	next := make(chan *Mutant)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for m := range next {
				r.fates[m.N-1] = r.test(bin, m.N)
			}
		})
	}
	for _, m := range r.f.Mutants {
		if m.fn != nil && r.fates[m.N-1] != Refused {
			next <- m
		}
	}
	close(next)
	wait.Wait()
	return nil
}

var refused = regexp.MustCompile(`(?m)^[^ ]*mutant([1-9][0-9]*):[0-9]+:`)

// buildFunctions builds the binary of all mutants of functions but those that it marks as Refused.
func (r *runner) buildFunctions(bin string) error {
	for {
		var mutants []*Mutant
		for _, m := range r.f.Mutants {
			if m.fn != nil && r.fates[m.N-1] != Refused {
				mutants = append(mutants, m)
			}
		}
		out, err := r.build(bin, r.f.Together(mutants))
		if err == nil {
			return nil
		}
		found := refused.FindAllSubmatch(out, -1)
		for _, match := range found {
			n, _ := strconv.Atoi(string(match[1]))
			r.fates[n-1] = Refused
		}
		if len(found) == 0 {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
}

// alone runs a mutant outside of functions.
func (r *runner) alone(m *Mutant) error {
	bin := filepath.Join(r.temp, "mutant.test")
	if _, err := r.build(bin, r.f.Alone(m)); err != nil {
		r.fates[m.N-1] = Refused
		return nil
	}
	r.fates[m.N-1] = r.test(bin, 0)
	return nil
}

// build builds the tests of the package, whose file has another text.
func (r *runner) build(bin, text string) (out []byte, err error) {
	changed, choice, list := filepath.Join(r.temp, "changed"), filepath.Join(r.temp, "choice"), filepath.Join(r.temp, "overlay")
	more := fmt.Sprintf("package %s\n\nimport (\n\"os\"\n\"strconv\"\n)\n\nvar %s, _ = strconv.Atoi(os.Getenv(%q))\n", r.f.Package, chosen, variable)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		r.name: changed,
		filepath.Join(filepath.Dir(r.name), "mutant_chosen.go"): choice,
	}})
	if err != nil {
		return nil, err
	}
	for file, text := range map[string]string{changed: text, choice: more, list: string(overlay)} {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", list, "-o", bin, ".")
	cmd.Dir = filepath.Dir(r.name)
	return cmd.CombinedOutput()
}

// limit is how long tests may take by the clock, and on CPUs, which does not depend on what else runs.
type limit struct{ wall, cpu time.Duration }

var passed = regexp.MustCompile(`(?m)^--- PASS: (\w+) \(([0-9.]+)s\)$`)

// slowest is a pattern of the tests that took a tenth of all the time each, by what go test -v printed.
func slowest(out []byte) string {
	all := passed.FindAllSubmatch(out, -1)
	seconds, sum := make([]float64, len(all)), 0.0
	for i, m := range all {
		seconds[i], _ = strconv.ParseFloat(string(m[2]), 64)
		sum += seconds[i]
	}
	var names []string
	for i, m := range all {
		if seconds[i] > sum/10 {
			names = append(names, string(m[1]))
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// test is what becomes of the mutant of a number, of 0 for none, in a test binary: first under the quick tests,
// then under the slow ones.
func (r *runner) test(bin string, n int) Fate {
	fate, _, _ := r.run(bin, n, "-test.skip", r.slow)
	if fate == Unnoticed {
		fate, _, _ = r.run(bin, n, "-test.run", r.slow)
	}
	return fate
}

// run runs tests of a binary.
func (r *runner) run(bin string, n int, args ...string) (fate Fate, cpu time.Duration, out []byte) {
	// Where a shell cannot limit memory, mutants run all the same.
	limits := fmt.Sprintf(`ulimit -v %d 2>/dev/null; ulimit -t %d; exec "$@"`, most, int(r.limit.cpu.Seconds()))
	cmd := exec.Command("sh", "-c", limits, "sh", bin, "-test.failfast", "-test.timeout", r.limit.wall.String())
	cmd.Args = append(cmd.Args, args...)
	cmd.Dir = filepath.Dir(r.name)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, n))
	out, err := cmd.CombinedOutput()
	switch {
	case cmd.ProcessState == nil: // tests that do not run notice nothing
		return Unnoticed, 0, []byte(err.Error())
	case err == nil:
		return Unnoticed, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), out
	case cmd.ProcessState.ExitCode() < 0 || bytes.Contains(out, []byte("panic: test timed out")): // killed, at the limit of CPU time
		return TimedOut, 0, out
	}
	return Noticed, 0, out
}

func (f Fate) String() string {
	return [...]string{"NOT NOTICED", "noticed", "noticed by the time it takes", "does not compile"}[f]
}
