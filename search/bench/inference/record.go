package inference

import (
	"math"
	"time"
)

// Samples is what the repetitions of a test measured.
type Samples struct {
	Test
	Totals   []time.Duration // of each repetition, the model only
	Steps    []time.Duration // of each prompt, or of each generated token
	Products []time.Duration // the products alone, after each step
	Parts    Parts           // of all steps together
	Read     []float64       // the machine's rate of reading memory after each step, in GB/s
	Dot      []float64       // the machine's rate of products after each prompt, in GMAC/s
}

// Model is what records say of a model.
type Model struct {
	File       string `json:"model_filename"`
	Kind       string `json:"model_type"`     // architecture and file type
	Size       int64  `json:"model_size"`     // bytes of all tensors
	Parameters int64  `json:"model_n_params"` // elements of all tensors
	// Weights are the bytes of the matrices in the file that a token reads: all but the experts that it does not choose. MACs are their elements.
	Weights int64 `json:"weight_bytes_per_token"`
	MACs    int64 `json:"macs_per_token"`
	// Head is the part of MACs that is the output matrix, which only the last token of a prompt needs.
	Head   int64  `json:"head_macs"`
	Cache  string `json:"type_k"` // elements of the cache of keys and values
	Values string `json:"type_v"`
}

// Record is one line of the result. Fields have the names that they have in llama-bench, if it has them.
type Record struct {
	Commit string `json:"build_commit"`
	CPU    string `json:"cpu_info"`
	Model
	Threads    int       `json:"n_threads"`
	Prompt     int       `json:"n_prompt"`
	Generate   int       `json:"n_gen"`
	Depth      int       `json:"n_depth"`
	Time       string    `json:"test_time"`
	MeanNs     float64   `json:"avg_ns"` // of a repetition
	DeviantNs  float64   `json:"stddev_ns"`
	MeanTS     float64   `json:"avg_ts"` // tokens per second
	DeviantTS  float64   `json:"stddev_ts"`
	SamplesNs  []int64   `json:"samples_ns"` // by repetition
	SamplesTS  []float64 `json:"samples_ts"`
	MedianNs   float64   `json:"median_ns_per_token"`
	ProductsNs float64   `json:"products_alone_ns_per_token"` // the median
	Ratio      float64   `json:"times_products_alone"`        // of the medians
	// Generated tokens read all weights; this is the rate, and its share of the machine's median rate beside it.
	WeightGBS float64 `json:"weights_gb_s,omitempty"`
	ReadGBS   float64 `json:"read_gb_s"`
	ReadShare float64 `json:"read_share,omitempty"`
	// Prompts are bound by products of int8; this is the rate, and its share of the machine's median rate beside it.
	GMACS    float64 `json:"gmac_s,omitempty"`
	DotGMACS float64 `json:"dot_gmac_s,omitempty"`
	DotShare float64 `json:"dot_share,omitempty"`
	// The time of the parts in ns per token.
	PartProducts  float64 `json:"products_ns_per_token"`
	PartAttention float64 `json:"attention_ns_per_token"`
	PartRest      float64 `json:"rest_ns_per_token"`
	PartHead      float64 `json:"head_ns_per_token"`
}

// Record returns the figures of samples of a model.
func (s Samples) Record(m Model, threads int) Record {
	r := Record{Model: m, Threads: threads, Prompt: s.Prompt, Generate: s.Generate, Depth: s.Depth}
	tokens := float64(s.tokens())
	for _, total := range s.Totals {
		r.SamplesNs = append(r.SamplesNs, total.Nanoseconds())
		r.SamplesTS = append(r.SamplesTS, Over(tokens*1e9, float64(total)))
	}
	r.MeanNs, r.DeviantNs = spread(Nanoseconds(s.Totals))
	r.MeanTS, r.DeviantTS = spread(r.SamplesTS)
	step := float64(max(s.Prompt, 1)) // tokens
	r.MedianNs, r.ProductsNs = Median(Nanoseconds(s.Steps))/step, Median(Nanoseconds(s.Products))/step
	r.Ratio = Over(r.MedianNs, r.ProductsNs)
	r.ReadGBS, r.DotGMACS = Median(s.Read), Median(s.Dot)
	if s.Prompt > 0 {
		r.GMACS = Over(float64(m.MACs-m.Head)+float64(m.Head)/step, r.MedianNs)
		r.DotShare = Over(r.GMACS, r.DotGMACS)
	} else {
		r.WeightGBS = Over(float64(m.Weights), r.MedianNs)
		r.ReadShare = Over(r.WeightGBS, r.ReadGBS)
	}
	all := tokens * float64(len(s.Totals))
	r.PartProducts, r.PartAttention = Over(float64(s.Parts.Products), all), Over(float64(s.Parts.Attention), all)
	r.PartRest, r.PartHead = Over(float64(s.Parts.Rest), all), Over(float64(s.Parts.Head), all)
	return r
}

// Test is the test that r is of.
func (r Record) Test() Test { return Test{r.Prompt, r.Generate, r.Depth} }

// spread returns the mean and the standard deviation of samples, which is 0 of fewer than two.
func spread(x []float64) (mean, deviation float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		deviation += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(deviation)
}
