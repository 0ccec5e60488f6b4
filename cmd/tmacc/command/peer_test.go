package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/library"
)

// TestPeerRefusals: what -peer refuses before it measures.
func TestPeerRefusals(t *testing.T) {
	for _, r := range []refusal{
		{2, `-peer foo: want ggml=FOLDER`, "bench -peer foo"},
		{2, `-peer ggml=: want ggml=FOLDER`, "bench -peer ggml="},
		{2, `-peer mkl=/tmp: want ggml=FOLDER`, "bench -peer mkl=/tmp"},
		{2, `-threads is for -peer`, "bench -threads 2"},
		{2, `-threads 0: this process may use 1 to`, "bench -peer ggml=x -threads 0"},
		{2, `-act-group is not for -peer`, "bench -peer ggml=x -act-group 32"},
		{2, `-act is not for -peer`, "bench -peer ggml=x -act f32"},
		{2, `ratios: limit 0: wants types`, "bench -peer ggml=x -check " + file(t, "ratios.json", `[{"n": 1}]`)},
	} {
		refused(t, r)
	}
	if _, _, stderr := tmacc("bench", "-peer", "ggml="+t.TempDir()); strings.Contains(stderr, "libraries are loaded on linux/amd64 only") {
		return // not here
	}
	refused(t, refusal{2, "none: no such folder; npm i", "bench -peer ggml=" + filepath.Join(t.TempDir(), "none")})
	refused(t, refusal{2, "has no libggml-cpu-*.so and no libggml-cpu.so; npm i", "bench -peer ggml=" + t.TempDir()})
}

// peers returns the folder of ggml's and llama.cpp's real libraries, or skips the test. A tmacc that loads libraries is linked once for
// all tests: the go command in PATH copies it when it is to be built again.
func peers(t *testing.T) string {
	t.Helper()
	libraries := os.Getenv("TMACC_GGML")
	if libraries == "" {
		t.Skip("TMACC_GGML names no folder of the libraries; .ci/run downloads them")
	}
	real, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	dir, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
case "$*" in "build -tags ` + library.Tag + ` -o "*)
	[ -e '` + dir + `/tmacc' ] || { '` + real + `' "$@" && cp "$5" '` + dir + `/tmacc'; } || exit
	exec cp '` + dir + `/tmacc' "$5" ;;
esac
exec '` + real + `' "$@"
`
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return libraries
}

// linked is a folder for the tmacc that loads libraries.
var linked = sync.OnceValues(func() (string, error) {
	return os.MkdirTemp(os.Getenv(cache.EnvFolder), "linked-") // which goes with the tests
})

// TestPeer measures small products beside ggml's real libraries.
func TestPeer(t *testing.T) {
	dir := peers(t)
	fast := file(t, "ratios.json", `[{"types": ["Q4_0"], "n": 1, "threads": 1, "ratio": 1e9}]`)
	code, out, stderr := tmacc("bench", "-q", "-json", "-peer", "ggml="+dir, "-format", "Q4_0,Q2_K", "-mode", "l3", "-m", "64", "-k", "512", "-n", "1,32", "-rounds", "1", "-check", fast)
	if code != 1 || !strings.Contains(stderr, "1 of 1 limits are missed") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want one for each type and number of activations:\n%s", len(lines), out)
	}
	for i, line := range lines {
		var r measure.PeerRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if want := []string{"Q4_0", "Q4_0", "Q2_K", "Q2_K"}[i]; r.Type != want || r.N != []int{1, 32}[i%2] || r.M != 64 || r.K != 512 || r.Threads != 1 {
			t.Errorf("record %d: %+v", i, r)
		}
		if r.Ratio <= 0 || len(r.Theirs) == 0 || r.Theirs[0].Buffer != "CPU" || !strings.HasPrefix(r.Peer, "ggml 0.") || !strings.HasPrefix(r.Library, "libggml-cpu") {
			t.Errorf("record %d: %+v", i, r)
		}
		for _, x := range append(r.Theirs, r.Ours) {
			if x.Ns <= 0 || x.Error <= 0 || x.Error > 0.05 {
				t.Errorf("record %d: %+v", i, x)
			}
		}
		if want := map[string]int{"Q4_0": 32, "Q2_K": 256}[r.Type]; r.Theirs[0].ActGroup != want {
			t.Errorf("%s: ggml shares scales among %d activations, want %d", r.Type, r.Theirs[0].ActGroup, want)
		}
	}
	text := ok(t, "bench", "-q", "-peer", "ggml="+dir, "-format", "TQ2_0", "-mode", "l2", "-m", "64", "-k", "512", "-n", "1", "-rounds", "1")
	if !strings.HasPrefix(text, "ggml 0.") || !strings.Contains(text, "times ggml") || strings.Count(text, "\n") != 3 {
		t.Errorf("text:\n%s", text)
	}
	refused(t, refusal{2, `type F16: is not one that can be read`, "bench -peer ggml=" + dir + " -q -format F16"})
}
