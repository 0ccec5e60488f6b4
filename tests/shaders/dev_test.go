package shaders

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
)

func TestDevTraces(t *testing.T) {
	paths, _ := filepath.Glob(os.Getenv("TMACC_TRACES"))
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(file)
		sc.Buffer(nil, 1<<20)
		for n := 1; sc.Scan(); n++ {
			var x struct {
				Problem string
				Cols    int
				Name    string
				Trace   schedule.Trace
			}
			if err := json.Unmarshal(sc.Bytes(), &x); err != nil {
				t.Error(path, n, err)
				continue
			}
			t.Run(fmt.Sprint(filepath.Base(path), ":", n, " ", x.Problem, " ", x.Name), func(t *testing.T) {
				p, err := ir.Named(x.Problem)
				if err != nil {
					t.Fatal(err)
				}
				k, err := schedule.Compile(p, x.Trace)
				if err != nil {
					t.Fatal(err)
				}
				f, err := lower.Vectorize(k.Nest, "matmul")
				if err != nil {
					t.Fatal(err)
				}
				target := spirv.Targets()[1]
				sh := Compiled(t, target, f, spirv.Controls{Subgroup: 32, RoundToEven: true, Denormals: true, NotNumbers: true})
				Accepted(t, sh)
				t.Log(counts(sh.Text()), "lanes", sh.Lanes, "sub", sh.Subgroup, "rows", k.Rows, "cols", k.Cols, "stepK", k.StepK, "tile", k.Weights.HeaderBytes, k.Weights.RecordBytes)
				if os.Getenv("TMACC_NORUN") != "" {
					return
				}
				d := Device(t)
				sh = Compiled(t, target, f, Controls(d))
				rng := rand.New(rand.NewSource(1))
				for kind := check.Uniform; kind <= check.NotFinite; kind++ {
					shape := [3]int{k.Rows + 1, k.Cols, wholeK(p, k.StepK+7)}
					c := check.New(rng, p, shape[0], shape[1], shape[2], kind)
					if kind == check.Uniform && os.Getenv("TMACC_EVAL") != "" {
						compare(t, fmt.Sprint("vir ", kind, shape), c, k, func(args []vir.Arg) error { return vir.Eval(f, args) })
					}
					compare(t, fmt.Sprint("device ", kind, shape), c, k, func(args []vir.Arg) error { return Run(d, sh, f, args) })
				}
			})
		}
		file.Close()
	}
}

// counts are the instructions between the last loop's head and its end.
func counts(text string) string {
	total := map[string]int{}
	loop := map[string]int{}
	in := false
	for _, l := range strings.Split(text, "\n") {
		f := strings.Fields(l)
		op := ""
		for _, w := range f {
			if strings.HasPrefix(w, "Op") {
				op = w
				break
			}
		}
		switch op {
		case "OpFunction":
			total = map[string]int{}
		case "OpLoopMerge":
			in = true
			loop = map[string]int{}
		case "OpBranch":
			if len(loop) > 1 {
				in = false
			}
		}
		total[op]++
		if in {
			loop[op]++
		}
	}
	n, m := 0, 0
	for _, x := range loop {
		n += x
	}
	for _, x := range total {
		m += x
	}
	return fmt.Sprint("total ", m, " loop ", n, " ", loop)
}
