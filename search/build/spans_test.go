package build

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
)

// linesOf are the lines of a stage.
func linesOf(all []Stage, name string) []string {
	for _, s := range all {
		if s.Name == name {
			return strings.Split(strings.TrimRight(s.Text, "\n"), "\n")
		}
	}
	return nil
}

// operation is in the comment of an instruction that has a result.
var operation = regexp.MustCompile(`v\d+:\S+ = `)

// Every instruction of the assembly but constants and addresses knows its operation, its statement and its steps, and all of them know it.
func TestSpans(t *testing.T) {
	data, err := os.ReadFile("../explore/testdata/w2.json")
	var trace schedule.Trace
	if err == nil {
		err = json.Unmarshal(data, &trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, _ := w2(t)
	for _, name := range []string{"amd64/avx2", "arm64/neon"} {
		all := Stages(p, trace, targets.ByName(name))
		if err := all[len(all)-1].Err; err != nil {
			t.Fatal(err)
		}
		s := SpansOf(all)
		asm, virs, nests := linesOf(all, AssemblyStage), linesOf(all, VirStage), linesOf(all, NestStage)
		dots, known, operations := 0, 0, 0
		for i, line := range asm {
			if !operation.MatchString(line) {
				continue
			}
			operations++
			r := s.Of(AssemblyStage, i)
			if len(r[VirStage]) == 0 {
				continue
			}
			known++
			for stage, lines := range r {
				for _, j := range lines {
					if back := s.Of(stage, j); stage != TraceStage && !slices.Contains(back[AssemblyStage], i) {
						t.Errorf("%s: line %d of %s does not know %s", name, j, stage, line)
					}
				}
			}
			if strings.Contains(line, "dot2sat") {
				dots++
				if len(r[NestStage]) != 1 || !strings.Contains(nests[r[NestStage][0]], "codes[m, k]") || !slices.Contains(r[TraceStage], 25) {
					t.Errorf("%s: %s is of %v", name, line, r)
				}
				if !strings.Contains(virs[r[VirStage][0]], "dot") {
					t.Errorf("%s: %s is made for %s", name, line, virs[r[VirStage][0]])
				}
			}
		}
		if (dots == 0) != (name == "arm64/neon") || known < operations*8/10 {
			t.Errorf("%s: %d dot products, %d of %d operations are known", name, dots, known, operations)
		}
		if r := s.Of(TraceStage, 25); len(r[AssemblyStage]) < dots {
			t.Errorf("%s: tensorize is of %d lines, and there are %d dot products", name, len(r[AssemblyStage]), dots)
		}
	}
}

// Instructions of shaders know the operations, the statement and the steps that they are for, and all of these know them. Products, by matrices too, are for
// statements that sum up, as is what lanes combine. Declarations are for nothing.
func TestSpansOfShaders(t *testing.T) {
	p, _ := w2(t)
	speeds, _ := spirv.SpeedsCalled("h200")
	for name, product := range map[string]string{"plain": "OpIMul ", "dot": "OpSUDot ", "coop": "OpCooperativeMatrixMulAddKHR "} {
		on, _ := spirv.ByName(name)
		sp, err := space.For(p, on)
		if name == "coop" {
			sp, err = space.ForTiles(p, on, speeds.Subgroup, speeds.Shapes)
		}
		if err != nil {
			t.Fatal(err)
		}
		x, err := sp.First()
		if err != nil {
			t.Fatal(err)
		}
		all := Stages(p, x.Trace(), on)
		if err := all[len(all)-1].Err; err != nil {
			t.Fatal(err)
		}
		spans, nests, asm := SpansOf(all), linesOf(all, NestStage), linesOf(all, AssemblyStage)
		sums := map[int]bool{} // lines of the nest with products
		memo := map[string]map[int]bool{}
		backs := func(stage string, line int) map[int]bool { // the lines of assembly that know a line
			key := fmt.Sprint(stage, line)
			if memo[key] == nil {
				memo[key] = map[int]bool{}
				for _, i := range spans.Of(stage, line)[AssemblyStage] {
					memo[key][i] = true
				}
			}
			return memo[key]
		}
		begun, known, instructions, combined := false, 0, 0, 0
		for i, line := range asm {
			r := spans.Of(AssemblyStage, i)
			if begun = begun || strings.Contains(line, "OpFunction "); !begun {
				if len(r[VirStage]) > 0 {
					t.Errorf("%s: %s is for %v", name, line, r)
				}
				continue
			}
			if instructions++; len(r[NestStage]) != 1 {
				continue
			}
			known++
			for stage, lines := range r {
				for _, j := range lines {
					if stage != TraceStage && !backs(stage, j)[i] {
						t.Fatalf("%s: line %d of %s does not know %s", name, j, stage, line)
					}
				}
			}
			at := r[NestStage][0]
			sum := strings.Contains(nests[at], "+=")
			if strings.Contains(line, product) && sum {
				sums[at] = true
				if len(r[VirStage]) == 0 || len(r[TraceStage]) == 0 {
					t.Errorf("%s: %s is for %v", name, line, r)
				}
			}
			if strings.Contains(line, "OpControlBarrier") {
				if combined++; !sum {
					t.Errorf("%s: lanes combine what they have for %s", name, nests[at])
				}
			}
		}
		if len(sums) == 0 || known < instructions*4/5 || name != "coop" && combined == 0 {
			t.Errorf("%s: products at %v, %d of %d instructions are known, %d combine lanes", name, sums, known, instructions, combined)
		}
		for i := range sums {
			if r := spans.Of(NestStage, i); !slices.ContainsFunc(r[AssemblyStage], func(j int) bool { return strings.Contains(asm[j], product) }) {
				t.Errorf("%s: %s is of %v", name, nests[i], r)
			}
		}
	}
}
