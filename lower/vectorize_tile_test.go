package lower

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/schedule"
)

// tileTrace multiplies by tiles of 8 rows and columns, which 8 lanes hold, in workgroups of 2 subgroups.
const tileTrace = `[{"decompose":{"family":"dot","value":"affine"}},
{"split":{"loop":"n","by":16,"into":["nt","nn"]}}, {"bind":{"loop":"nt","to":"group"}}, {"split":{"loop":"nn","by":8,"into":["wn","c"]}}, {"bind":{"loop":"wn","to":"lane"}},
{"split":{"loop":"m","by":16,"into":["mt","mm"]}}, {"bind":{"loop":"mt","to":"group"}}, {"split":{"loop":"mm","by":8,"into":["tm","i"]}}, {"bind":{"loop":"tm","to":"unrolled"}},
{"split":{"loop":"k","by":32,"into":["ks","kk"]}}, {"split":{"loop":"kk","by":16,"into":["f","kd"]}}, {"bind":{"loop":"f","to":"unrolled"}},
{"split":{"loop":"kd","by":8,"into":["u","j"]}}, {"bind":{"loop":"u","to":"unrolled"}},
{"tensorize":{"loop":"j","to":"tile","rows":"i","columns":"c","lanes":8}},
{"reorder":{"order":["nt","mt","wn","ks","u","f","tm","i","c","j"]}},
{"pack":{"tensor":"codes","order":["mt","ks","u","tm","i","j"],"fields":["f"],"map":"dense"}},
{"pack":{"tensor":"act","chunk":8}},
{"stage":{"value":"w","at":"ks","shared":true,"ahead":true,"halves":true}}]`

// tiled is the function of tileTrace with some of its text replaced.
func tiled(t *testing.T, format, from, to string) (*vir.Func, error) {
	t.Helper()
	p, err := ir.Named(format)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(tileTrace, from, to, 1)
	if text == tileTrace && from != to {
		t.Fatalf("%s is not there", from)
	}
	var trace schedule.Trace
	if err := json.Unmarshal([]byte(text), &trace); err != nil {
		t.Fatal(err)
	}
	k, err := schedule.Compile(p, trace)
	if err != nil {
		t.Fatal(err)
	}
	return Vectorize(k.Nest, "matmul")
}

// What lanes share is filled for the first iteration before the loop, and for the next one in it; the last one is behind it.
func TestPipeline(t *testing.T) {
	f, err := tiled(t, "w4", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := vir.Verify(f); err != nil {
		t.Fatal(err)
	}
	text := f.String()
	for what, want := range map[string]int{"loop l1 count_ks-1 carry": 1, "barrier": 1 + 2 + 1, "= matmul": 2 * 8} {
		if have := strings.Count(text, what); have != want {
			t.Errorf("%d times %q, want %d:\n%s", have, what, want, text)
		}
	}
}

// TestTilesRefused: what no tile is, and what lanes cannot share out or by halves.
func TestTilesRefused(t *testing.T) {
	for _, c := range []struct{ format, from, to, want string }{
		{"w4", `"order":["mt","ks","u","tm","i","j"]`, `"order":["mt","ks","u","i","j","tm"]`, "no equal parts"},
		{"w4", `"order":["nt","mt","wn","ks","u","f","tm"`, `"order":["nt","mt","wn","ks","tm","f","u"`, "halves"},
		{"w4", `"chunk":8`, `"chunk":4`, "not affine in the serial loop j"},
		{"w4", `"lanes":8`, `"lanes":64`, "no equal parts"},
		{"w4", `"ahead":true,"halves":true}}`, `"ahead":true}}, {"scale_at":{"where":"begin"}}`, "a tile has rows and columns"},
	} {
		_, err := tiled(t, c.format, c.from, c.to)
		var refused *nest.Refused
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s instead of %s: %v, want %s", c.to, c.from, err, c.want)
		}
	}
}

// TestSharedTooMuch: lanes share no more than devices have.
func TestSharedTooMuch(t *testing.T) {
	begin, end := strings.Index(tileTrace, `{"loop":"m","by":16`), strings.Index(tileTrace, `,"into":["f","kd"]`)
	from := tileTrace[begin:end]
	to := strings.NewReplacer(`"m","by":16`, `"m","by":128`, `"k","by":32`, `"k","by":1024`, `"kk","by":16`, `"kk","by":512`).Replace(from)
	_, err := tiled(t, "w4", from, to)
	if refused := (*nest.Refused)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "lanes share 131072 bytes, at most 65536") {
		t.Error(err)
	}
}
