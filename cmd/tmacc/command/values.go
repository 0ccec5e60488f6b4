package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/search/timing"
)

// inputs reads the files that flags name; "-" is standard input.
func (c *cli) inputs() order.Inputs { return order.Inputs{Open: c.open} }

// open opens a file to read. Until it is closed, an interrupt ends the process at once.
func (c *cli) open(path string) (io.ReadCloser, error) {
	end := c.blocking()
	if path == "-" {
		return &input{io.NopCloser(c.in), end}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		end()
		return nil, err
	}
	return &input{f, end}, nil
}

// input is a file, or standard input, while it is read.
type input struct {
	io.ReadCloser
	end func() bool // of blocking
}

func (i *input) Close() error {
	i.end()
	return i.ReadCloser.Close()
}

// plain is message.Plain.
func plain(err error) error { return message.Plain(err) }

// actVar adds the flags -act and -act-group.
func actVar(f *pflag.FlagSet, a *order.Act) {
	f.StringVar(&a.Elem, "act", order.Int8, "activations: int8, quantized, or f32, as they are; for one format, name it FORMAT"+ir.FloatSuffix)
	f.IntVar(&a.Group, "act-group", order.UsualGroup, "activations that share a scale along K, 0: a whole row (default: as in ggml for GGUF's formats, else 0)")
	f.Lookup("act-group").DefValue = "0" // said above
}

// kernelList is the flag -kernel.
type kernelList []order.Kernel

func (l *kernelList) Type() string { return "kernel" }

func (l *kernelList) String() string {
	var all []string
	for _, k := range *l {
		all = append(all, k.Name+"="+k.Format)
	}
	return strings.Join(all, " ")
}

func (l *kernelList) Set(text string) error {
	k, err := order.ParseKernel(text)
	if err != nil {
		return err
	}
	*l = append(*l, k)
	return nil
}

// sizeFlags are what -m and -k say of a matrix to measure.
type sizeFlags struct{ m, k int }

// add adds the flags with their defaults. A default of 0 stands for the sizes of the mode.
func (s *sizeFlags) add(f *pflag.FlagSet, m, k int) {
	of := ""
	if m == 0 {
		of = ", instead of the mode's own"
	}
	f.IntVarP(&s.m, "m", "m", m, "rows of the matrix"+of)
	f.IntVarP(&s.k, "k", "k", k, "columns of the matrix"+of)
}

// checkCalls refuses a number of activations that is too large for the sizes that were given.
func (s *sizeFlags) checkCalls(ns []int) error {
	for _, n := range ns {
		if most := max(s.m, s.k); most > 0 && n > timing.MaxMatrix/most {
			return fmt.Errorf("-n %d -m %d -k %d: at most %d activations and %[4]d results are measured", n, s.m, s.k, timing.MaxMatrix)
		}
	}
	return nil
}

// check refuses sizes in f that cannot be measured.
func (s *sizeFlags) check(f *pflag.FlagSet) error {
	const most = 1 << 24
	switch {
	case f.Changed("m") && (s.m < 1 || s.m > most):
		return fmt.Errorf("-m %d: want 1 to %d", s.m, most)
	case f.Changed("k") && (s.k < 1 || s.k > most):
		return fmt.Errorf("-k %d: want 1 to %d", s.k, most)
	case s.k > 0 && s.m > timing.MaxMatrix/s.k:
		return fmt.Errorf("-m %d -k %d: at most %d weights are measured", s.m, s.k, timing.MaxMatrix)
	}
	return nil
}

// checkK refuses a -k that is not a multiple of the unit of p. The error calls p name. 0 stands for no -k.
func checkK(k int, p ir.Problem, name string) error {
	if unit := p.Unit(); k%unit != 0 {
		return fmt.Errorf("-k %d: %s wants a multiple of %d", k, name, unit)
	}
	return nil
}

// noFolder is an error if path cannot be a file, because it is a folder or because there is no folder for it.
func noFolder(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s: is a folder: want a file", path)
	}
	if err := isFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// isFolder is an error unless there is a folder at path.
func isFolder(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s: is no folder", path)
	}
	return plain(err)
}
