package ops

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/cpu"
)

// Info says what runs, and of every other target why it does not.
func TestInfo(t *testing.T) {
	was := chosen
	defer func() { chosen = was }()
	for chosen = -1; chosen < len(targets); chosen++ {
		running := cpu.PureGo
		if chosen >= 0 {
			running = targets[chosen].Target
		}
		text := Info()
		if !strings.HasPrefix(text, "float operators run on "+running+" (") || strings.Count(text, "\n") != 1+len(targets) {
			t.Error(text)
		}
		for i, x := range targets {
			if have := strings.Contains(text, "\n"+x.Target+": runs\n"); have != (i == chosen) {
				t.Errorf("%s runs: %v\n%s", x.Target, have, text)
			}
		}
	}
}

// The environment variable narrows the choice as it does for products.
func TestChosen(t *testing.T) {
	t.Setenv(cpu.Env, "purego")
	if i, why := cpu.Choose(targets, cpu.This(), mask()); i != -1 || !strings.Contains(why, "TMACC_CPU=purego") && len(targets) > 0 {
		t.Errorf("target %d runs: %s", i, why)
	}
	for i, x := range targets {
		if cpu.Lacks(x.Need, cpu.Has) != "" {
			continue
		}
		for _, name := range append([]string{x.Target}, x.Serves...) {
			t.Setenv(cpu.Env, name)
			if have, why := cpu.Choose(targets, cpu.This(), mask()); have != i {
				t.Errorf("%s: target %d runs (%s), want %d", name, have, why, i)
			}
		}
	}
}
