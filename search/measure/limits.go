package measure

import (
	"fmt"

	"github.com/tmacc/tmacc/ir/format"
)

// Limits is docs/lab/limits.json: what hand-written kernels reached on one machine.
type Limits struct {
	What          string             `json:"what"`
	AVX512VBMI    map[string]Limit   `json:"avx512vbmi"`
	AVXVNNI       map[string]Limit   `json:"avxvnni"`
	AVX2          map[string]Limit   `json:"avx2"`
	PrepareCycles map[string]float64 `json:"prepare_act_cycles_k4096_avx512"`           // of a row of 4096 activations
	Instructions  map[string]float64 `json:"instructions_per_1000_weights_steady_loop"` // by sequence, weights and target
}

// Limit is a row of Limits: multiply-accumulates per core cycle, 0 where nothing
// was measured.
type Limit struct {
	Bits      float64 `json:"bpw"`
	L2        float64 `json:"l2"`
	L3        float64 `json:"l3"`
	DRAMShare float64 `json:"dram_share"`
	GEMM      float64 `json:"gemm"`
	Family    string  `json:"family"`
}

// ParseLimits reads Limits and refuses what format.UnmarshalStrict does and negative figures.
func ParseLimits(data []byte) (Limits, error) {
	var l Limits
	if err := format.UnmarshalStrict(data, &l); err != nil {
		return Limits{}, fmt.Errorf("limits: %w", err)
	}
	for target, rows := range map[string]map[string]Limit{"avx512vbmi": l.AVX512VBMI, "avxvnni": l.AVXVNNI, "avx2": l.AVX2} {
		for name, r := range rows {
			if min(r.Bits, r.L2, r.L3, r.DRAMShare, r.GEMM) < 0 || r.Bits == 0 {
				return Limits{}, fmt.Errorf("limits: %s %s: figures must be positive, and bpw present", target, name)
			}
		}
	}
	return l, nil
}

// row finds the limit of a target, the zero Limit if there is none.
func (l Limits) row(target, name string) Limit {
	switch target {
	case "avx512vbmi":
		return l.AVX512VBMI[name]
	case "avxvnni":
		return l.AVXVNNI[name]
	case "avx2":
		return l.AVX2[name]
	}
	return Limit{}
}
