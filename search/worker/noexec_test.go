package worker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A machine where no program may run in the folder that programs are sent to, as on a disk that is mounted noexec, is refused at once, and the error says what
// to set there. (Here chmod does nothing over there.)
func TestRemoteNotExecutable(t *testing.T) {
	for _, tool := range []string{"go", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ssh":   "#!/bin/sh\nfor last; do :; done\nPATH=\"${0%/*}/there:$PATH\"\nexec sh -c \"$last\"\n",
		"there": "",
	} {
		path := filepath.Join(dir, name)
		if text == "" {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			path, text = filepath.Join(path, "chmod"), "#!/bin/sh\nexit 0\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	there := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", there)
	waited := false
	_, err = Dial(t.Context(), Runner{URL: "ssh://board", Patience: time.Minute, Say: func(string) { waited = true }})
	want := "no program may run in " + filepath.Join(there, "tmacc") + ": set XDG_CACHE_HOME there to a folder where programs may"
	if !IsEnvironment(err) || !strings.Contains(err.Error(), want) || waited {
		t.Errorf("%v, waited: %v", err, waited)
	}
	if left, _ := filepath.Glob(filepath.Join(there, "tmacc", "*")); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}
