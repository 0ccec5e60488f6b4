package core_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/targets"
)

// docs/cores.md names each field of a file.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/cores.md")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(text(t, targets.Cores()[0])), &fields); err != nil {
		t.Fatal(err)
	}
	for _, of := range []map[string]any{fields, fields["hierarchy"].(map[string]any), fields["pipeline"].(map[string]any)} {
		for name := range of {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/cores.md does not name the field %s", name)
			}
		}
	}
}
