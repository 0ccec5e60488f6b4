package measure

import "fmt"

// Record is one measurement of one kernel: a line of tmacc bench -json.
type Record struct {
	Format          string  `json:"format"`
	BitsPerWeight   float64 `json:"bits_per_weight"` // stored, without scales
	Group           int     `json:"group"`           // weights per scale along K; 0: one per row or tensor
	M               int     `json:"m"`
	K               int     `json:"k"`
	N               int     `json:"n"`
	Target          string  `json:"target"` // without architecture: avx2
	Family          string  `json:"family"` // of the decomposition: dot
	Exact           bool    `json:"exact"`
	Threads         int     `json:"threads"`
	Mode            string  `json:"mode"`              // dram, l3, l2
	Extreme         bool    `json:"extreme,omitempty"` // all activations are as large as the largest
	Tuned           bool    `json:"tuned,omitempty"`   // by schedules of a lock, not the default ones
	Ns              float64 `json:"ns"`                // of one product, without preparing activations
	Cycles          float64 `json:"cycles,omitempty"`  // of the same, by the clock beside it; 0: by ClockGHz
	ClockGHz        float64 `json:"clock_ghz"`         // the fastest in the same run
	WeightsPerCycle float64 `json:"weights_per_cycle"` // multiply-accumulates, M*K*N, per cycle of one core
	GWeightsS       float64 `json:"gweights_s"`        // multiply-accumulates per ns
	GBS             float64 `json:"gb_s"`              // weights and scales, as stored
	CeilingGBS      float64 `json:"ceiling_gb_s"`      // read bandwidth for this mode
	CeilingGMACS    float64 `json:"ceiling_gmac_s"`    // int8 dot product peak of this target
	Share           float64 `json:"share"`             // of the ceiling that binds
	ReadShare       float64 `json:"-"`                 // of the read bandwidth, whatever binds
	PrepareNs       float64 `json:"prepare_ns"`        // of the activations of all N rows
	PrepareCycles   float64 `json:"prepare_cycles,omitempty"`
	Host            string  `json:"host,omitempty"`   // of tmacc bench -json: where it was measured,
	Date            string  `json:"date,omitempty"`   // when: 2026-11-21,
	Commit          string  `json:"commit,omitempty"` // and what tmacc was built from, "" if it is not known
}

// cycles of one product.
func (r Record) cycles() float64 {
	if r.Cycles > 0 {
		return r.Cycles
	}
	return r.Ns * r.ClockGHz
}

// prepareCycles is the time of preparing the activations, in cycles.
func (r Record) prepareCycles() float64 {
	if r.PrepareCycles > 0 {
		return r.PrepareCycles
	}
	return r.PrepareNs * r.ClockGHz
}

// Weights is what Record does not say about a weight matrix.
type Weights struct {
	NominalBits float64 // per weight: what the format needs at least (3 levels: 1.6)
	ScaleBits   float64 // of scales and zero points of the whole matrix
}

// MaxGEMV is the largest N of a product that memory bounds, as the product reads its weights once and is done. A product
// with a larger N is a GEMM, which the dot product peak bounds.
const MaxGEMV = 8

// MaxShare is the largest share of a ceiling that noise explains.
const MaxShare = 1.02

// ProbeError says that a kernel was faster than the machine can be: the probe did
// not find the ceiling.
type ProbeError struct {
	Record Record
}

func (e *ProbeError) Error() string {
	r := e.Record
	return fmt.Sprintf("measure: %s of %d x %d, N=%d on %s reaches %.3f of the %s ceiling: the probe is wrong", r.Format, r.M, r.K, r.N, r.Target, r.Share, r.ceiling())
}

// Complete returns r with the figures that follow from M, K, N, Ns, the clock and
// the ceilings:
//
//	weights_per_cycle = M*K*N / cycles
//	gweights_s        = M*K*N / ns
//	gb_s              = (M*K*stored bits + scale bits) / 8 / ns
//	share             = (M*K*nominal bits + scale bits) / 8 / ns / ceiling_gb_s    dram, N <= 8
//	                    gweights_s / ceiling_gmac_s                                N > 8
//	                    the larger of the two                                      l2 and l3, N <= 8
//
// With a share above MaxShare it also returns a *ProbeError. Lookup tables yield
// sums of many products per step and may pass the dot product peak, so that is no
// error of families other than dot.
func (r Record) Complete(w Weights) (Record, error) {
	threads := float64(max(1, r.Threads))
	matrix := float64(r.M) * float64(r.K)
	macs := matrix * float64(r.N)
	r.WeightsPerCycle = over(macs, r.cycles()*threads)
	r.GWeightsS = over(macs, r.Ns)
	r.GBS = over((matrix*r.BitsPerWeight+w.ScaleBits)/8, r.Ns)
	read := over((matrix*w.NominalBits+w.ScaleBits)/8, r.Ns*r.CeilingGBS)
	compute := over(r.GWeightsS, r.CeilingGMACS)
	r.ReadShare = read
	switch r.ceiling() {
	case "bandwidth":
		r.Share = read
	case "dot product":
		r.Share = compute
	default:
		r.Share = max(read, compute)
	}
	if r.beyond() {
		return r, &ProbeError{r}
	}
	return r, nil
}

// beyond says that r is faster than the machine can be.
func (r Record) beyond() bool {
	return r.Share > MaxShare && (r.Family == "dot" || r.ceiling() == "bandwidth")
}

// ceiling names what bounds r.
func (r Record) ceiling() string {
	switch {
	case r.N > MaxGEMV:
		return "dot product"
	case r.Mode == ModeDRAM:
		return "bandwidth"
	}
	return "nearer"
}

// over is a/b, 0 if b is.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
