package gen

import (
	"strings"
	"testing"
)

func TestRoles(t *testing.T) {
	tensors := []Tensor{
		{Name: "blk.0.attn_q.weight", Type: "Q4_K", Product: 0, M: 64, K: 256, Count: 1},
		{Name: "blk.1.attn_q.weight", Type: "Q6_K", Product: 1, M: 64, K: 256, Count: 1},
		{Name: "blk.0.ffn_gate.7.weight", Type: "Q4_K", Product: 0, M: 64, K: 256, Count: 1},
		{Name: "output.weight", Type: "Q6_K", Product: 1, M: 64, K: 256, Count: 8},
		{Name: "model.layers.3.self_attn.q_proj.weight", Type: "Q4_K", Product: 0, M: 64, K: 256, Count: 1},
		{Name: "Q4_0.100%.weight", Type: "Q4_K", Product: 0, M: 64, K: 256, Count: 1},
	}
	taken := map[string]string{"Output": "product"}
	roles, err := rolesOf(tensors, 2, taken)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, r := range roles {
		got.WriteString(r.name + " " + r.verb + " " + r.like() + "\n")
	}
	want := `AttnQ blk.%d.attn_q.weight blk.LAYER.attn_q.weight
FfnGate blk.%d.ffn_gate.%d.weight blk.LAYER.ffn_gate.INDEX.weight
OutputMatrix output.weight output.weight
ModelLayersSelfAttnQProj model.layers.%d.self_attn.q_proj.weight model.layers.LAYER.self_attn.q_proj.weight
Q40100 Q4_0.%d%%.weight Q4_0.LAYER%.weight
`
	if got.String() != want {
		t.Errorf("%s\nwant\n%s", got.String(), want)
	}
	w := &writer{products: []product{{id: "A"}, {id: "B"}}}
	if got := strings.Join(w.sizes(roles[0]), "; "); got != "64 rows of 256 in Q4_K, by A (1); 64 rows of 256 in Q6_K, by B (1)" {
		t.Error(got)
	}
	for _, bad := range []Tensor{tensors[0], {Name: "x", Type: "Q4_K", Product: 2, M: 1, K: 1, Count: 1}, {Name: "x", Type: "Q4_K", Product: 0, M: 0, K: 1, Count: 1}, {Name: "x\nfunc init() {}\n//", Type: "Q4_K", Product: 0, M: 1, K: 1, Count: 1}, {Name: "x", Type: "Q4_K\n", Product: 0, M: 1, K: 1, Count: 1}, {Name: "x\xff", Type: "", Product: 0, M: 1, K: 1, Count: 1}} {
		if _, err := rolesOf(append(tensors[:6:6], bad), 2, map[string]string{}); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}
