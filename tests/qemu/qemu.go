// Package qemu emulates CPUs that kernels of other architectures run on, in workers as on this machine.
package qemu

import (
	"fmt"
	"os/exec"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/worker"
)

// cpus are CPUs as qemu calls them, each with little more than a target's kernels may use.
var cpus = map[string]string{"arm64/neon": "cortex-a57", "arm64/dotprod": "neoverse-n1", "arm64/i8mm": "max"}

// machines emulate the CPUs of targets, by their names.
var machines struct {
	sync.Mutex
	of map[string]*worker.Machine
}

// Find is the path of the emulator for Arm, or says that it is missing.
func Find() (string, error) {
	path, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		return "", fmt.Errorf("qemu-aarch64 is missing")
	}
	return path, nil
}

// Command runs a program on the emulated CPU of an Arm target: the program's path and its arguments follow.
func Command(target lower.Target) ([]string, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	return []string{path, "-cpu", cpus[target.Machine().Name]}, nil
}

// Start emulates, until the test ends, the CPU of an Arm target, unless that was started before. It skips the test without an emulator.
func Start(t testing.TB, target lower.Target) *worker.Machine {
	t.Helper()
	command, err := Command(target)
	if err != nil {
		t.Skip(err)
	}
	if m := On(target); m != nil {
		return m
	}
	name := target.Machine().Name
	m, err := worker.Emulated("arm64", command...)
	if err != nil {
		t.Fatal(err)
	}
	set(name, m)
	t.Cleanup(func() {
		set(name, nil)
		m.Close()
	})
	return m
}

// On is the machine that was started for target, nil if none was.
func On(target lower.Target) *worker.Machine {
	machines.Lock()
	defer machines.Unlock()
	return machines.of[target.Machine().Name]
}

func set(name string, m *worker.Machine) {
	machines.Lock()
	defer machines.Unlock()
	if machines.of == nil {
		machines.of = map[string]*worker.Machine{}
	}
	machines.of[name] = m
}
