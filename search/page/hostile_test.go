package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/tune"
)

// A log may say anything. No text of it becomes markup, whichever field it stands in.
func TestPageEscapes(t *testing.T) {
	const hostile = `</title></style></svg></pre><script>alert(1)</script><img src=x onerror=alert(2)>" onload="alert(3)`
	s := searched(t)
	s.Product, s.Run.Target, s.CPU, s.Compiler, s.Ended, s.ID = hostile, hostile, hostile, hostile, hostile, hostile
	s.Purposes[0].Mode, s.Run.Dropped = hostile, map[string]int{hostile: 1}
	trace := schedule.Trace{schedule.Decompose{Family: hostile, Value: hostile}, schedule.Split{Loop: hostile, By: 2, Into: schedule.Pair{hostile, "b"}}}
	s.Trials[1].Genes[0].Trace, s.Trials[2].Genes[0].Trace, s.Trials[0].Error = trace, trace, hostile
	weight := s.Problem.Weight
	weight.Name = hostile
	s.Problem.Weight = weight
	for _, known := range []bool{true, false} {
		if !known {
			s.Problem = nil
		}
		data, err := HTML(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ToLower(string(data))
		for _, out := range []string{"<script", "<img", "onerror=alert(2)>", `" onload=`} {
			if i := strings.Index(text, out); i >= 0 {
				t.Errorf("the page has %s: %.200s", out, text[max(0, i-100):])
			}
		}
		if strings.Count(text, "<title>") != strings.Count(text, "</title>") || strings.Count(text, "</style>") != 1 || strings.Count(text, "<svg") != strings.Count(text, "</svg>") {
			t.Error("an element ends where it should not")
		}
	}
}

// The extremes of what logs may have, lists of other lengths and trials without schedules make no panic, and no figure that is none.
func TestPageOdd(t *testing.T) {
	figures := []float64{0, 2e-6, 1, 9e15}
	for i, x := range figures {
		for j, y := range figures {
			s := searched(t)
			s.Trials[2].Cost, s.Trials[2].Ratios, s.Trials[2].Ns = x, []float64{y}, []float64{x}
			s.Trials[1].Ns, s.Trials[1].Estimate, s.Trials[1].Predicted = []float64{y, x, x}, y, x
			s.Run.Ceilings[0] = tune.Ceilings{ReadGBS: y, DotGMACS: x}
			s.Purposes[0].M, s.Purposes[0].K = []int{1, 3, 64, 1 << 30}[i], []int{1, 255, 256, 1 << 30}[j]
			data, err := HTML(t.Context(), s)
			if err != nil {
				t.Errorf("%v and %v: %v", x, y, err)
			}
			for _, none := range []string{"NaN", "Inf"} {
				if at := strings.Index(string(data), none); at >= 0 {
					t.Errorf("%v and %v: the page has %s: %s", x, y, none, data[max(0, at-60):at+20])
				}
			}
		}
	}
	for name, change := range map[string]func(s *Search){
		"no genes":      func(s *Search) { s.Trials[2].Genes = nil },
		"no trace":      func(s *Search) { s.Trials[2].Genes[0].Trace = nil },
		"no purpose":    func(s *Search) { s.Purposes = nil },
		"no ceilings":   func(s *Search) { s.Run.Ceilings = nil },
		"no ratios":     func(s *Search) { s.Trials[2].Ratios = nil },
		"one trial":     func(s *Search) { s.Trials = s.Trials[2:] },
		"no usual":      func(s *Search) { s.Usual = nil },
		"nil step":      func(s *Search) { s.Usual = []schedule.Trace{nil} },
		"two schedules": func(s *Search) { s.Trials[2].Genes = append(s.Trials[2].Genes, s.Trials[1].Genes...) },
	} {
		s := searched(t)
		change(&s)
		if data, err := HTML(t.Context(), s); err != nil || !strings.Contains(string(data), "The best schedule") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The page of a long search stays one that browsers show: it grows with its drawings, not with the trials.
func TestPageLong(t *testing.T) {
	s := searched(t)
	few, err := HTML(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20000 {
		x := s.Trials[1+i%2]
		x.Cost += 0.1 + float64(i%997)/1000
		x.Ns, x.Ratios = []float64{x.Ns[0] + float64(i%499)}, []float64{x.Cost}
		x.Estimate += float64(i%313) / 1000
		s.Trials = append(s.Trials, x)
	}
	data, err := HTML(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if more := len(data) - len(few); more > 6<<20 {
		t.Errorf("20000 candidates add %d bytes to a page of %d", more, len(few))
	}
	if want := fmt.Sprint(len(s.Trials)) + " candidates"; !strings.Contains(string(data), want) {
		t.Errorf("no %s", want)
	}
}
