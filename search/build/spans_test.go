package build

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
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
