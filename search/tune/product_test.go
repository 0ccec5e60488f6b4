package tune

import (
	"context"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/worker"
)

func TestMain(m *testing.M) {
	worker.Main()
	os.Exit(m.Run())
}

// A search measures candidates that equal the definition, drops others by reason, and
// what it returns has kernels of other widths for the same packed matrix.
func TestTuner(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	if !jit.Supported() {
		t.Skip(jit.ErrPlatform)
	}
	w, err := format.Lookup("w4")
	if err != nil {
		t.Fatal(err)
	}
	target := amd64.ByName("avx2")
	x, err := New(Product{Problem: ir.Problem{Weight: w}, Target: target, Need: amd64.FeatureNames(target.Machine().Has), Purposes: []Purpose{{M: 64, N: 1, K: 256}}})
	if err != nil {
		t.Fatal(err)
	}
	out := Evolve(context.Background(), x.Space(context.Background()), Options{Trials: 24, Batch: 8, Propose: 2, Rng: rand.New(rand.NewSource(1))}, x.Seeds()...)
	if len(out.Best) == 0 || out.Trials < 24 || x.ReferenceNs[0] == 0 {
		t.Fatalf("%+v", out)
	}
	for reason := range out.Dropped {
		switch reason {
		case "wrong", "timed out", "crashed SIGSEGV", "crashed SIGILL", "crashed ":
			t.Errorf("%d candidates: %s", out.Dropped[reason], reason)
		}
	}
	best, reference, err := x.Confirm(out.Best)
	if err != nil || len(best) != len(out.Best) || reference[0] <= 0 || best[0].Ns[0] <= 0 || best[0].Cost > best[len(best)-1].Cost {
		t.Fatalf("confirmed %d of %d, default %v ns, %v", len(best), len(out.Best), reference, err)
	}
	usual := x.Seeds()[0]
	if _, err := x.point(usual); err != nil {
		t.Fatal(err)
	}
	for least, c := range []*Candidate{best[0].Candidate, usual} {
		if uses := x.Uses(c); uses[0].Cols != 1 || len(uses) < 1+least {
			t.Errorf("%d widths, the first %d", len(uses), uses[0].Cols)
		}
	}
}

// Schedules that round are no candidates, and neither are those for more columns than
// there are activations.
func TestTunerRefuses(t *testing.T) {
	w, err := format.Lookup("w1")
	if err != nil {
		t.Fatal(err)
	}
	target := amd64.ByName("avx2")
	p := ir.Problem{Weight: w}
	x := &Tuner{Product: Product{Problem: p, Target: target, Purposes: []Purpose{{M: 64, N: 1, K: 256}}}, prepares: map[string]*gen.Prepare{}, compiled: map[string]compiled{}}
	rng := rand.New(rand.NewSource(1))
	found := map[error]bool{}
	for range 5000 {
		c := search.Sample(rng, p, target.Machine())
		k, err := schedule.Compile(p, c.Trace(p))
		if err != nil || found[errBounds] && k.Exact() || found[errWide] && k.Cols > 1 {
			continue
		}
		want := error(nil)
		switch {
		case k.Cols > 1:
			want = errWide
		case !k.Exact():
			want = errBounds
		default:
			continue
		}
		var pressure *lower.Pressure
		if _, err := x.point(&Candidate{Genes: []Gene{{c, c.Trace(p)}}}); errors.As(err, &pressure) {
			continue
		} else if err != want {
			t.Fatalf("%v: %v, want %v", c.Trace(p), err, want)
		}
		if found[want] = true; len(found) == 2 {
			return
		}
	}
	t.Errorf("found only %v", found)
}
