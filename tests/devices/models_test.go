// Package devices runs whole models on a device of Vulkan.
package devices

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/cache"
	rundevice "github.com/tmacc/tmacc/runtime/device"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/worker"
)

// TestMain makes this test its own worker, on devices and on the CPU.
func TestMain(m *testing.M) {
	worker.ServeDevice(&device.Server{})
	worker.Main()
	folder, err := os.MkdirTemp("", "tmacc-cache-")
	if err == nil {
		err = os.Setenv(cache.EnvFolder, folder)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// files are the models: the one in the command and one in the repository, or with TMACC_LONG=1 all in the folder that TMACC_DATA names.
func files(t *testing.T) []string {
	if os.Getenv("TMACC_LONG") == "" {
		return []string{"../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf", "../../testdata/gguf/llama-q4_0.gguf"}
	}
	folder := os.Getenv("TMACC_DATA")
	if folder == "" {
		t.Skip("TMACC_DATA names no folder of GGUF models")
	}
	all, err := filepath.Glob(filepath.Join(folder, "*.gguf"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no GGUF files in %s: %v", folder, err)
	}
	return all
}

// TestModels: a model on a device has the logits that it has on the CPU, bit for bit, of a prompt and of tokens that follow.
func TestModels(t *testing.T) {
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	target, _ := spirv.ByName("spirv")
	for _, path := range files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := model.Check(f, model.Options{}); err != nil {
				t.Skip(err) // a file of blocks, or of a vocabulary
			}
			want := logits(t, f, nil)
			got := logits(t, f, &kernels.Device{Here: here, Target: target})
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("logits after call %d differ: %v..., want %v...", i, got[i][:4], want[i][:4])
				}
			}
		})
	}
}

// logits are those of a prompt of several tokens, and of the likeliest tokens after it, one by one. The products run on a device unless it is nil.
func logits(t *testing.T, f *gguf.File, on *kernels.Device) (all [][]float32) {
	t.Helper()
	p, err := kernels.New(context.Background(), kernels.Options{Device: on, Say: func(e kernels.Event) { t.Log(e) }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := model.New(f, p, model.Options{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ran := slices.ContainsFunc(p.Made(), func(x kernels.Made) bool { return x.Product.Device() != "" })
	if quantized := len(kernels.Needed(f)) > 0; on != nil && ran != quantized {
		t.Errorf("products on a device: %t, quantized: %t", ran, quantized)
	}
	if on != nil {
		t.Logf("steps of one token: %v", m.Resident())
	}
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tokens := make([]int32, 11)
	for i := range tokens {
		tokens[i] = int32(1 + 37*i%m.Config().Vocabulary)
	}
	for range 8 {
		item := []model.Item{{Session: s, Tokens: tokens}}
		if err := m.Forward(context.Background(), item); err != nil {
			t.Fatal(err)
		}
		row := slices.Clone(item[0].Logits)
		all = append(all, row)
		tokens = []int32{int32(slices.Index(row, slices.Max(row)))}
	}
	if on != nil {
		t.Logf("steps of one token: %v", m.Resident())
	}
	return all
}

// TestRoom: a model that is larger than the device's memory is refused before anything is there, by an error that says how much is missing.
func TestRoom(t *testing.T) {
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	d, err := vulkan.Open(vulkan.Options{MemoryLimit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	small := *here
	small.On = &rundevice.One{Device: d}
	target, _ := spirv.ByName("spirv")
	p, err := kernels.New(context.Background(), kernels.Options{Device: &kernels.Device{Here: &small, Target: target}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = model.Open("../../testdata/gguf/llama-q4_0.gguf", p, model.Options{})
	if err == nil || !strings.Contains(err.Error(), "are missing") {
		t.Errorf("%v", err)
	}
}
