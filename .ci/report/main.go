// Command report reads the events of go test -json on standard input and prints
// a line for each package, the output of each failed test, and each skipped test
// with its message; at the end, where it is seen, what failed once more in short. It
// exits 1 if a test failed, or was skipped and is neither named by -allow nor in want of
// CPU features that /proc/cpuinfo does not have either, nor of test data where TMACC_DATA names none, or if one
// that -run names, ^(TestA|TestB)$, is not there.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
	FailedBuild                               string
	Elapsed                                   float64
}

func main() {
	var allowed []string
	flag.Func("allow", "name of a `test` that may be skipped", func(name string) error {
		allowed = append(allowed, name)
		return nil
	})
	var named []string
	flag.Func("run", "`pattern` that tests were chosen by", func(pattern string) error {
		if named = namesIn(pattern); named == nil {
			return errors.New("want ^(TestA|TestB)$")
		}
		return nil
	})
	flag.Parse()
	if !report(os.Stdin, os.Stdout, rules{allowed, named, cpuFlags(), os.Getenv("TMACC_DATA") != ""}) {
		os.Exit(1)
	}
}

// rules say which tests may be skipped and which must run.
type rules struct {
	allowed []string        // tests that may be skipped for any reason
	named   []string        // tests that must be there
	have    map[string]bool // features of this CPU, nil if they are not known
	data    bool            // there are test data from outside the repository
}

// report prints what became of the tests whose events it reads, and reports whether all is well.
func report(from io.Reader, to io.Writer, r rules) bool {
	bad, tests, elsewhere, without := 0, 0, 0, 0
	named := slices.Clone(r.named)  // those not seen yet
	var failed []string             // the ends of what failed tests printed
	output := map[string][]string{} // by package or build, and test
	in := bufio.NewScanner(from)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			bad++
			fmt.Fprintln(to, in.Text()) // not an event: a complaint of the go command
			continue
		}
		id := e.Package + e.ImportPath + " " + e.Test
		named = slices.DeleteFunc(named, func(name string) bool { return name == e.Test })
		switch e.Action {
		case "output", "build-output":
			output[id] = append(output[id], e.Output)
		case "build-fail":
			bad++
			fmt.Fprint(to, strings.Join(output[id], ""))
		case "fail":
			bad++
			fmt.Fprint(to, strings.Join(output[id], ""))
			if e.Test == "" {
				fmt.Fprintf(to, "FAIL  %s  %.1f s\n", e.Package, e.Elapsed)
			} else {
				failed = append(failed, fmt.Sprintf("FAIL  %s %s\n%s", e.Package, e.Test, end(output[id])))
			}
		case "pass":
			if e.Test == "" {
				fmt.Fprintf(to, "ok    %s  %.1f s\n", e.Package, e.Elapsed)
			} else {
				tests++
			}
			delete(output, id)
		case "skip":
			if e.Test == "" {
				continue // a package without tests
			}
			verdict := "not allowed"
			switch {
			case slices.Contains(r.allowed, e.Test):
				verdict = "allowed"
			case needsOther(output[id], r.have):
				verdict = "another CPU's"
				elsewhere++
			case !r.data && strings.Contains(reason(output[id]), ": TMACC_DATA names no folder"):
				verdict = "no data"
				without++
			default:
				bad++
			}
			fmt.Fprintf(to, "SKIP  %s %s (%s)\n%s", e.Package, e.Test, verdict, strings.Join(output[id], ""))
		}
	}
	if err := in.Err(); err != nil {
		bad++
		fmt.Fprintln(to, err)
	}
	fmt.Fprint(to, strings.Join(failed, ""))
	fmt.Fprintf(to, "%d tests passed\n", tests)
	if elsewhere > 0 {
		fmt.Fprintf(to, "%d tests need a CPU with features that this one lacks\n", elsewhere)
	}
	if without > 0 {
		fmt.Fprintf(to, "%d tests need the folder of models that TMACC_DATA names\n", without)
	}
	if tests == 0 {
		bad++
		fmt.Fprintln(to, "no test ran")
	}
	if len(named) > 0 && bad == 0 {
		bad++
		fmt.Fprintln(to, "no such test:", strings.Join(named, ", "))
	}
	return bad == 0
}

// namesIn are the names that a pattern like ^(TestA|TestB)$ is of, of others none.
func namesIn(pattern string) []string {
	list, begins := strings.CutPrefix(pattern, "^(")
	list, ends := strings.CutSuffix(list, ")$")
	if !begins || !ends {
		return nil
	}
	return strings.Split(list, "|")
}

// cpuFlags are the features that Linux says this CPU has, without underscores. They are nil if it does not say.
func cpuFlags() (flags map[string]bool) {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "flags" {
			continue
		}
		flags = map[string]bool{}
		for _, f := range strings.Fields(value) {
			flags[strings.ReplaceAll(f, "_", "")] = true
		}
		return flags
	}
	return nil
}

// reason is the last line that a skipped test printed.
func reason(output []string) string {
	lines := slices.DeleteFunc(strings.Split(strings.Join(output, ""), "\n"), func(line string) bool {
		line = strings.TrimSpace(line)
		return line == "" || strings.HasPrefix(line, "--- SKIP: ")
	})
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// needsOther says that a skipped test, by its reason, wants features that the CPU lacks, and that it lacks them all.
func needsOther(output []string, have map[string]bool) bool {
	_, list, says := strings.Cut(reason(output), ": this CPU lacks ")
	names := strings.Fields(strings.ToLower(list))
	return says && have != nil && len(names) > 0 && !slices.ContainsFunc(names, func(f string) bool { return have[f] })
}

// end is the last few lines of what a test printed, none of them long.
func end(output []string) string {
	const lines, width = 6, 400
	all := strings.SplitAfter(strings.Join(output, ""), "\n")
	var b strings.Builder
	for _, line := range all[max(0, len(all)-lines-1):] {
		if len(line) > width {
			line = line[:width] + " ...\n"
		}
		b.WriteString(line)
	}
	return b.String()
}
