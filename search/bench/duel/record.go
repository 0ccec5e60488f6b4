package duel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/search/bench/inference"
	"github.com/tmacc/tmacc/search/measure/llama"
)

// Figures are of one side of a test.
type Figures struct {
	SamplesNs []int64   `json:"samples_ns"` // by round
	SamplesTS []float64 `json:"samples_ts"` // tokens per second
	MedianTS  float64   `json:"median_ts"`
	MedianNs  float64   `json:"median_ns_per_token"`
	// Generated tokens read all weights of the file; this is the rate, and its share of the machine's median rate beside it.
	WeightGBS float64 `json:"weights_gb_s,omitempty"`
	ReadShare float64 `json:"read_share,omitempty"`
	// Joules is the energy per token that the processor's packages used during this side's turns.
	Joules float64 `json:"j_per_token,omitempty"`
	// IdleCPU is the CPU time that this side's process used during the other side's turns, per second.
	IdleCPU float64 `json:"idle_cpu"`
}

// Peer says which llama.cpp was measured and how.
type Peer struct {
	Version string         `json:"version"`
	Library string         `json:"library"`
	Flash   bool           `json:"flash_attn"`
	Buffers []llama.Buffer `json:"weight_buffers"`
	Cache   int64          `json:"cache_bytes"`
	// Logits is how far the logits of both sides differ after a prompt: the root of the mean square, over that of theirs.
	Logits float64 `json:"logits_difference"`
}

// Energies are the words of Record.Energy.
const (
	EnergyKnown   = "powercap"
	EnergyUnknown = "not available"
)

// Record is one line of the result. Fields have the names that they have in llama-bench, if it has them.
type Record struct {
	Commit string `json:"build_commit"`
	CPU    string `json:"cpu_info"`
	inference.Model
	Threads  int     `json:"n_threads"`
	Prompt   int     `json:"n_prompt"`
	Generate int     `json:"n_gen"`
	Depth    int     `json:"n_depth"`
	Time     string  `json:"test_time"`
	Rounds   int     `json:"rounds"`
	Short    bool    `json:"short,omitempty"` // one round of few tokens, as a token takes SlowS
	SlowS    float64 `json:"trial_s_per_token"`
	Peer     Peer    `json:"peer"`
	Ours     Figures `json:"ours"`
	Theirs   Figures `json:"theirs"`
	// Ratio is the median tokens per second of ours over theirs. Low and High are the least and the largest ratio of one round.
	Ratio   float64 `json:"ratio"`
	Low     float64 `json:"ratio_low"`
	High    float64 `json:"ratio_high"`
	ReadGBS float64 `json:"read_gb_s"`
	Energy  string  `json:"energy"`
	// The time of our parts in ns per token.
	PartProducts  float64 `json:"products_ns_per_token"`
	PartAttention float64 `json:"attention_ns_per_token"`
	PartRest      float64 `json:"rest_ns_per_token"`
	PartHead      float64 `json:"head_ns_per_token"`
	// Error is what went wrong on their side, "": nothing. The figures are then ours only.
	Error string `json:"error,omitempty"`
}

// Test is the test that r is of.
func (r Record) Test() inference.Test {
	return inference.Test{Prompt: r.Prompt, Generate: r.Generate, Depth: r.Depth}
}

// Record returns the figures of a result.
func (x *Result) Record(m inference.Model, threads int) Record {
	r := Record{
		Model: m, Threads: threads, Prompt: x.Prompt, Generate: x.Generate, Depth: x.Depth,
		Rounds: len(x.ours.totals), Short: x.Short, SlowS: x.Slow, ReadGBS: inference.Median(x.Read),
	}
	r.Ours, r.Theirs = x.figures(&x.ours, m, r.ReadGBS), x.figures(&x.theirs, m, r.ReadGBS)
	if x.fault != nil {
		r.Error, r.Theirs = x.fault.Error(), Figures{}
	}
	r.Ratio = inference.Over(r.Ours.MedianTS, r.Theirs.MedianTS)
	for i, theirs := range r.Theirs.SamplesTS {
		ratio := inference.Over(r.Ours.SamplesTS[i], theirs)
		r.High = max(r.High, ratio)
		if i == 0 || ratio < r.Low {
			r.Low = ratio
		}
	}
	all := float64(len(x.ours.totals) * (x.Prompt + x.Generate))
	p := x.ours.parts
	r.PartProducts, r.PartAttention = inference.Over(float64(p.Products), all), inference.Over(float64(p.Attention), all)
	r.PartRest, r.PartHead = inference.Over(float64(p.Rest), all), inference.Over(float64(p.Head), all)
	return r
}

// figures are the figures of a side, beside memory that is read at a rate.
func (x *Result) figures(s *side, m inference.Model, read float64) (f Figures) {
	tokens := float64(x.Prompt + x.Generate)
	for _, total := range s.totals {
		f.SamplesNs = append(f.SamplesNs, total.Nanoseconds())
		f.SamplesTS = append(f.SamplesTS, inference.Over(tokens*1e9, float64(total)))
	}
	f.MedianTS = inference.Median(f.SamplesTS)
	f.MedianNs = inference.Median(inference.Nanoseconds(s.steps)) / float64(max(x.Prompt, 1))
	if x.Prompt == 0 {
		f.WeightGBS = inference.Over(float64(m.Weights), f.MedianNs)
		f.ReadShare = inference.Over(f.WeightGBS, read)
	}
	f.Joules = inference.Over(s.joules, tokens*float64(len(s.totals)))
	f.IdleCPU = inference.Over(float64(s.idle.CPU), float64(s.idle.Time))
	return f
}

// ParseRecords reads what tmacc bench -model -peer -o json has printed: one or more arrays, one after the other.
func ParseRecords(data []byte) ([]Record, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var all []Record
	for d.More() {
		var some []Record
		if err := d.Decode(&some); err != nil {
			return nil, fmt.Errorf("after record %d: %w", len(all), err)
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, errors.New("no records")
	}
	if i := slices.IndexFunc(all, func(r Record) bool { return r.Ours.MedianTS <= 0 || r.Threads < 1 }); i >= 0 {
		return nil, fmt.Errorf("record %d: not a record of bench -model -peer", i+1)
	}
	return all, nil
}
