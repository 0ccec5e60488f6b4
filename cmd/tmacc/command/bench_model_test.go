package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/bench/inference"
)

// TestBenchModel measures a small model beside the machine: every figure is there, whatever it is.
func TestBenchModel(t *testing.T) {
	needMeasuring(t)
	const file = "../../../testdata/gguf/llama-q4_0.gguf"
	out := ok(t, "bench", "-q", "-model", file, "-p", "16", "-n", "2", "-d", "0,3", "-r", "2", "-o", "json")
	var records []inference.Record
	if err := json.Unmarshal([]byte(out), &records); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Test().Name())
		if r.File != "llama-q4_0.gguf" || r.Kind != "llama 3M Q4_0" || r.Threads != 1 || len(r.SamplesTS) != 2 || r.CPU == "" || r.Time == "" {
			t.Errorf("record %+v", r)
		}
		if !(r.MeanTS > 0 && r.Ratio > 0 && r.ReadGBS > 0) || (r.Prompt > 0) != (r.DotShare > 0) || (r.Generate > 0) != (r.ReadShare > 0) {
			t.Errorf("%s: %+v", r.Test().Name(), r)
		}
	}
	if got := strings.Join(names, ", "); got != "pp16, tg2, pp16 @ d3, tg2 @ d3" {
		t.Errorf("tests %s", got)
	}
	out = ok(t, "bench", "-q", "-model", file, "-p", "0", "-n", "1", "-r", "1")
	for _, want := range []string{"| llama 3M Q4_0 |", "| tg1 |", "This machine beside it, threads 1: reads "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestBenchModelFlags: flags that mean nothing for a measurement are refused.
func TestBenchModelFlags(t *testing.T) {
	const model = "synthetic:bitnet-2b"
	for want, args := range map[string][]string{
		"-depth is for -model":                        {"-d", "1"},
		"-output is for -model":                       {"-o", "md"},
		"-format is not for -model":                   {"-model", model, "-format", "w2"},
		"-json is not for -model":                     {"-model", model, "-json"},
		"-peer ggml=x: with -model want llama=FOLDER": {"-model", model, "-peer", "ggml=x"},
		"-peer llama=: with -model want llama=FOLDER": {"-model", model, "-peer", "llama="},
		"-peer llama=x: want ggml=FOLDER":             {"-peer", "llama=x"},
		"-n -1: want 0 to 1048576":                    {"-model", model, "-n", "-1"},
		"-d 1048577: want":                            {"-model", model, "-d", "1048577"},
		"-r 0: want 1 to 1000":                        {"-model", model, "-r", "0"},
		"-o xml: have md, json, csv":                  {"-model", model, "-o", "xml"},
		"-cache q4: have f16, f32, q8":                {"-model", model, "-cache", "q4"},
		"-threads 0: this process may use 1":          {"-model", model, "-threads", "0"},
		"nothing to measure: give a length":           {"-model", model, "-p", "0", "-n", "0"},
		`unknown synthetic model "x": have bitnet-2b`: {"-model", "synthetic:x"},
		"tmacc: none.gguf: no such file":              {"-model", "none.gguf"},
		"tmacc: ../../../testdata/gguf/blocks.gguf: model: architecture \"blocks\"": {"-model", "../../../testdata/gguf/blocks.gguf"},
		"tmacc: ../tale/tale-bitnet-4m-tq2_0.gguf: the context that -p, -n and -d need is 600; the model was made for 1 to 512 positions": {
			"-model", "../tale/tale-bitnet-4m-tq2_0.gguf", "-p", "600"},
		"-threads is for -peer and -model": {"-threads", "1"},
	} {
		code, _, stderr := tmacc(append([]string{"bench", "-q"}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d: %s; want %s", args, code, stderr, want)
		}
	}
}
