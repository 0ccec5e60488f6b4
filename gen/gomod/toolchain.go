package gomod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tmacc/tmacc/gen/message"
)

// Available reports whether the go command is in PATH.
func Available() bool {
	_, err := exec.LookPath("go")
	return err == nil
}

// Toolchain runs the go command in a directory, for this machine whatever GOOS and GOARCH in the environment say.
type Toolchain struct {
	Dir string
	Env []string // what the environment has besides, as "NAME=value"
}

// Run runs the go command with more variables in its environment, separated by spaces. A command that fails is a
// CommandError, which has its output.
func (t Toolchain) Run(ctx context.Context, env string, args ...string) error {
	cmd, done, err := t.command(ctx, env, args)
	if err != nil {
		return err
	}
	defer done()
	out, err := cmd.CombinedOutput()
	return failure(args, out, err)
}

// Output is what the go command prints on standard output. A command that fails is a CommandError.
func (t Toolchain) Output(ctx context.Context, args ...string) ([]byte, error) {
	cmd, done, err := t.command(ctx, "", args)
	if err != nil {
		return nil, err
	}
	defer done()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return out, failure(args, stderr.Bytes(), err)
}

// failure is the error of a command that printed out, nil if err is nil.
func failure(args []string, out []byte, err error) error {
	if err == nil {
		return nil
	}
	return &CommandError{"go " + strings.Join(args, " "), err, bytes.TrimSpace(out)}
}

// command is a call of the go command, whose temporary files done removes.
func (t Toolchain) command(ctx context.Context, env string, args []string) (_ *exec.Cmd, done func(), _ error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.Dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	temp, err := os.MkdirTemp("", "tmacc-go-") // interrupted, the go command may leave its own behind
	if err != nil {
		return nil, nil, message.Plain(err)
	}
	cmd.Env = append(append(os.Environ(), "GOTMPDIR="+temp, "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH), append(t.Env, strings.Fields(env)...)...)
	return cmd, func() { os.RemoveAll(temp) }, nil
}

// CommandError is a call of the go command that failed.
type CommandError struct {
	Command string // "go vet ."
	Err     error
	Output  []byte
}

func (e *CommandError) Error() string { return fmt.Sprintf("%s: %v", e.Command, e.Err) }
func (e *CommandError) Unwrap() error { return e.Err }

// Complete completes the go.mod and go.sum of a module that New described. Where m
// replaces tmacc, the go.sum of that checkout saves looking sums up; write writes it.
func (t Toolchain) Complete(ctx context.Context, m *Module, write func(path string, data []byte) error) error {
	sum := filepath.Join(t.Dir, "go.sum")
	if _, err := os.Stat(sum); m.Replace != "" && errors.Is(err, fs.ErrNotExist) {
		root := m.Replace
		if !filepath.IsAbs(root) {
			root = filepath.Join(t.Dir, root)
		}
		data, err := os.ReadFile(filepath.Join(root, "go.sum"))
		if err != nil {
			return message.Plain(err)
		}
		if err := write(sum, data); err != nil {
			return message.Plain(err)
		}
	}
	return t.Run(ctx, "GOFLAGS=-mod=mod", "mod", "tidy")
}
