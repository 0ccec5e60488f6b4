//go:build unix

package llama

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// envFake names, in the environment of a child of the tests, how it fails instead of running models.
const envFake = "TMACC_TEST_FAKE"

// fakeMain is a process that greets, and then fails at its first request. It returns at once in other processes.
func fakeMain() {
	how := os.Getenv(envFake)
	if how == "" {
		return
	}
	switch how {
	case "dead":
		os.Exit(7)
	case "mute":
		time.Sleep(time.Hour)
	}
	to := gob.NewEncoder(os.NewFile(answers, "answers"))
	to.Encode(answer{Engine: Engine{"fake", how}})
	var q request
	gob.NewDecoder(os.Stdin).Decode(&q)
	switch how {
	case "assert":
		fmt.Fprintln(os.Stderr, "noise\n/src/ggml.c:12: GGML_ASSERT(x) failed")
		os.Exit(2)
	case "fault":
		var p *int
		*p = 1
	case "hang":
		time.Sleep(time.Hour)
	case "error":
		to.Encode(answer{Fault: "no such tensor"})
		gob.NewDecoder(os.Stdin).Decode(&q)
	case "silent":
		os.Exit(3)
	}
	os.Exit(0)
}

// fake starts a process that fails in a way.
func fake(t *testing.T, how string) *Process {
	t.Helper()
	t.Setenv(envFake, how)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := start(t.Context(), self, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if p.Engine.Library != how {
		t.Fatalf("engine %+v", p.Engine)
	}
	return p
}

// TestCrash: a process that ends is an error that says why, at once, and so is each request after it.
func TestCrash(t *testing.T) {
	for how, want := range map[string]string{
		"assert": "llama.cpp ended the process while making 2 threads: /src/ggml.c:12: GGML_ASSERT(x) failed",
		"fault":  "llama.cpp ended the process while making 2 threads: SIGSEGV",
		"silent": "llama.cpp ended the process while making 2 threads: exit status 3",
	} {
		p := fake(t, how)
		for _, want := range []string{want, "llama.cpp ended the process while making 2 threads: it had ended before"} {
			err := p.SetThreads(t.Context(), 2)
			if crash := (*Crash)(nil); !errors.As(err, &crash) || err.Error() != want {
				t.Errorf("%s: error %v; want %s", how, err, want)
			}
		}
	}
}

// TestTimeout: a process that does not answer is ended, by the limit or by the context.
func TestTimeout(t *testing.T) {
	defer func(d time.Duration) { Limit = d }(Limit)
	p := fake(t, "hang")
	Limit = 50 * time.Millisecond
	err := p.Fill(t.Context(), nil, 9)
	if timeout := (*Timeout)(nil); !errors.As(err, &timeout) || err.Error() != "llama.cpp did not end filling the context with 9 tokens within 50ms" {
		t.Errorf("error %v", err)
	}
	Limit = time.Minute
	p = fake(t, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Prompt(ctx, 0, make([]int32, 3)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// TestFault: an error of the library is not the end of the process.
func TestFault(t *testing.T) {
	p := fake(t, "error")
	if _, err := p.Load(t.Context(), Options{Path: "x"}); err == nil || err.Error() != "no such tensor" {
		t.Errorf("error %v", err)
	}
	if p.ended {
		t.Error("the process has ended")
	}
}

// TestStartFails: a program that is not there, that ends before it greets, or that greets too late is an error.
func TestStartFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(envFake, "dead")
	if _, err := start(t.Context(), self, ""); err == nil || err.Error() != "llama.cpp ended the process while loading its libraries: exit status 7" {
		t.Errorf("error %v", err)
	}
	t.Setenv(envFake, "mute")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := start(ctx, self, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if _, err := start(t.Context(), "/no/such/program", ""); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("error %v", err)
	}
}
