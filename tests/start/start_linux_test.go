package start

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/weights"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/synthetic"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/chosen"
)

// envChild, in the environment, makes this test binary a child: it opens the model of the request, computes a token, and prints a reply.
const envChild = "TMACC_TEST_START"

type request struct {
	Path, Kernels, Weights string // Weights "": nothing is kept
}

type reply struct {
	Memory model.Memory
	Peak   int64 // of resident memory, in bytes
	Saved  int64
	Logit  float32
}

func TestMain(m *testing.M) {
	worker.Main()
	chosen.Share()
	text := os.Getenv(envChild)
	if text == "" {
		os.Exit(m.Run())
	}
	var q request
	err := json.Unmarshal([]byte(text), &q)
	var r reply
	if err == nil {
		r, err = start(q)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are for a session of 512 tokens.
var options = model.Options{Context: 512}

// start opens a model and computes a token.
func start(q request) (r reply, err error) {
	p, err := kernels.New(context.Background(), kernels.Options{Folder: q.Kernels})
	if err != nil {
		return r, err
	}
	defer p.Close()
	opt := options
	if q.Weights != "" {
		store, err := weights.Open(q.Weights)
		if err != nil {
			return r, err
		}
		defer func() {
			r.Saved = store.Saved()
			err = errors.Join(err, store.Err(), store.Close())
		}()
		opt.Packed = store
	}
	m, err := model.Open(q.Path, p, opt)
	if err != nil {
		return r, err
	}
	defer m.Close()
	s, err := m.NewSession()
	if err != nil {
		return r, err
	}
	defer s.Close()
	items := []model.Item{{Session: s, Tokens: []int32{1}}}
	if err := m.Forward(context.Background(), items); err != nil {
		return r, err
	}
	r.Memory, r.Logit = m.Memory(), items[0].Logits[0]
	r.Peak, err = peak()
	return r, err
}

// peak is the most memory that this process has had.
func peak() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return n << 10, err
}

// child starts a model in a process of its own, and says how long that took.
func child(t *testing.T, q request) (reply, time.Duration) {
	t.Helper()
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+string(text), "GOGC=100") // as users have it
	cmd.Stderr = os.Stderr
	begin := time.Now()
	out, err := cmd.Output()
	took := time.Since(begin)
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r, took
}

// write writes the file of a synthetic model.
func write(t *testing.T, name string) string {
	t.Helper()
	m, err := synthetic.New(name, 1)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, io.NewSectionReader(m, 0, m.Size()), make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestStart: a process takes the memory of the weights, the cache, the buffers and 100 MiB at most, whether it packs weights or maps those that the
// start before has kept, and computes the same. With TMACC_LONG=1 the model is larger, and its second start takes at most 2 s.
func TestStart(t *testing.T) {
	if err := live.Mappable(); err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(jit.ErrNoGo)
	}
	long := os.Getenv("TMACC_LONG") != ""
	name := map[bool]string{false: "bonsai-1.7b-q1_0", true: "bitnet-2b"}[long]
	q := request{Path: write(t, name), Kernels: filepath.Join(t.TempDir(), "kernels")}
	folder := filepath.Join(t.TempDir(), "weights")
	var first reply
	for i, x := range []struct {
		what    string
		weights string
		saved   bool
	}{{"packed", "", false}, {"packed and kept", folder, true}, {"mapped", folder, false}} {
		q.Weights = x.weights
		r, took := child(t, q)
		if i == 0 {
			first = r
		}
		most := r.Memory.Total() + 100<<20
		t.Logf("%s, %s: %v, peak %d MiB of %d: weights %d, cache %d, buffers %d", name, x.what, took.Round(time.Millisecond),
			r.Peak>>20, most>>20, r.Memory.Weights>>20, r.Memory.Cache>>20, r.Memory.Buffers>>20)
		if r.Peak > most || r.Peak < r.Memory.Weights {
			t.Errorf("%s: at most %d MiB were resident, want %d at most and at least the weights", x.what, r.Peak>>20, most>>20)
		}
		if r.Logit != first.Logit || (r.Saved > 0) != x.saved {
			t.Errorf("%s: logit %v, want %v; saved %d bytes", x.what, r.Logit, first.Logit, r.Saved)
		}
		if long && x.what == "mapped" && took > 2*time.Second {
			t.Errorf("the second start took %v", took)
		}
	}
}
