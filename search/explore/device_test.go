package explore

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search/build"
)

// A shader is shown at every stage, changed and predicted without a device. Measuring says that there is none.
func TestShaders(t *testing.T) {
	on, ok := spirv.ByName("spirv")
	if !ok {
		t.Fatal("no target spirv")
	}
	e := opened(t, func(o *Options) { o.Target, o.Trace, o.Lock = on, nil, "" })
	s, err := e.State(t.Context())
	if err != nil || s.Predicts.Ratio != 1 || len(s.Predicts.Ns) != 1 || s.Predicts.Ns[0] <= 0 || len(s.Problems) > 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	if data, err := json.Marshal(s); err != nil || !strings.Contains(string(data), `"purposes":[{"mode":"l2","m":64,"n":1,"k":256}]`) {
		t.Errorf("%s, %v", data, err)
	}
	for stage, want := range map[string]string{build.NestStage: "group mt", build.VirStage: "func matmul", build.AssemblyStage: "OpEntryPoint GLCompute", build.LayoutStage: "tile_m"} {
		if text, err := e.Text(e.Now(), stage); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v, no %q in\n%s", stage, err, want, text)
		}
	}
	if text, err := e.CostReport(t.Context()); err != nil || !strings.Contains(text, "memory: weights at ") {
		t.Errorf("%s, %v", text, err)
	}
	for _, line := range []string{"values 5 by", "choose 1", "beside", "undo", "edit 5 by=0"} {
		if _, err := e.Do(t.Context(), line, nil); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if p := e.Problems(); len(p) != 1 || p[0].Kind != IllegalKind {
		t.Errorf("%v", p)
	}
	e.Reset()
	if _, err := e.Measure(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no device") {
		t.Error(err)
	}
	if c := e.Command(); !strings.Contains(c, "tmacc bench ") {
		t.Error(c)
	}
}
