package core_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
)

// docs/cores.md has a row for each field of a file, also for those that may be left out, and says which version is written.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/cores.md")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(text(t, targets.Cores()[0])), &fields); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(fields))
	for _, of := range []any{core.Hierarchy{}, core.Pipeline{}} {
		for i := range reflect.TypeOf(of).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(of).Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(page), "\n| `"+name+"` | ") {
			t.Errorf("docs/cores.md has no row for the field %s", name)
		}
	}
	if want := fmt.Sprintf("\n| `version` | %d", core.Version); !strings.Contains(string(page), want) {
		t.Errorf("docs/cores.md does not say that files have version %d", core.Version)
	}
}
