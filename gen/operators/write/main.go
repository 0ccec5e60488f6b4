// Command write chooses the schedules of a package of float operators and writes its generated files into a folder.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/space"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: write FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the schedules, and the files that are compiled of them.
func write(dir string) error {
	traces, err := choose()
	if err != nil {
		return err
	}
	files, err := operators.Package(traces)
	if err != nil {
		return err
	}
	for name, f := range traces {
		path := filepath.Join(dir, "traces", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := gen.WriteFile(path, f.Data); err != nil {
			return err
		}
	}
	modules, err := operators.Shaders(traces)
	if err != nil {
		return err
	}
	return errors.Join(gen.Write(dir, files), gen.Write(filepath.Join(dir, "shaders"), modules))
}

// choose is the schedules of all operators as files.
func choose() (fstest.MapFS, error) {
	out := fstest.MapFS{}
	add := func(name string, trace schedule.Trace, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		data, err := lines(trace)
		out[name] = &fstest.MapFile{Data: data}
		return err
	}
	for _, o := range operator.All() {
		for _, t := range operators.Targets() {
			trace, err := beam.Operator(context.Background(), o, t)
			if err := add(operators.TraceName(o, t), trace, err); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range operators.Shaded() { // no model of devices chooses among the points of workgroups
		x, err := space.ForOperator(s.Operator, operators.ShaderTarget()).First()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := add(s.TraceName(), s.Listing(x.Trace()), nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lines is a schedule as JSON, a step a line.
func lines(t schedule.Trace) ([]byte, error) {
	out := []byte("[")
	for i := range t {
		step, err := json.Marshal(t[i : i+1])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, "\n\t"...), step[1:len(step)-1]...)
	}
	return append(out, "\n]\n"...), nil
}
