package lower_test

import (
	"errors"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// TestColumnsApart: how far columns of the output are apart is known at run time, so the
// lanes of a vector cannot be columns.
func TestColumnsApart(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	trace := schedule.Trace{
		schedule.Decompose{Family: "dot", Value: "affine"}, schedule.HoistZero{At: "flush"},
		schedule.Split{Loop: "n", By: 8, Into: schedule.Pair{"nt", "nc"}}, schedule.Bind{Loop: "nt", To: "outer"},
		schedule.Split{Loop: "m", By: 8, Into: schedule.Pair{"mt", "l"}}, schedule.Bind{Loop: "mt", To: "outer"},
		schedule.Split{Loop: "k", By: 16, Into: schedule.Pair{"ks", "kk"}}, schedule.Split{Loop: "kk", By: 4, Into: schedule.Pair{"f", "j"}},
		schedule.Bind{Loop: "f", To: "unrolled"}, schedule.Tensorize{Loop: "j", To: "dot4"},
		schedule.Bind{Loop: "nc", To: "vector"}, schedule.Bind{Loop: "l", To: "unrolled"},
		schedule.Reorder{Order: []string{"nt", "mt", "ks", "f", "l", "nc", "j"}},
		schedule.Pack{Tensor: "codes", Order: []string{"mt", "ks", "l", "words", "j"}, Fields: []string{"f"}, Map: "dense"},
		schedule.Pack{Tensor: "act", Chunk: 4},
	}
	k, err := schedule.Compile(p, trace)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lower.Vectorize(k.Nest, "k")
	const want = "out: lanes are steps apart that are known at run time"
	var refused *nest.Refused
	if !errors.As(err, &refused) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
