//go:build peer

package ggml

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/search/measure"
)

// vulkanFolder has the libraries of the Vulkan backend.
const vulkanFolder = "TMACC_GGML_VULKAN"

// TestVulkanAgrees multiplies random blocks and compares with the naive product in float64, by one activation and several.
func TestVulkanAgrees(t *testing.T) {
	dir := os.Getenv(vulkanFolder)
	if dir == "" {
		t.Skipf("%s names no folder of libraries; %s", vulkanFolder, VulkanRemedy)
	}
	v, err := OpenVulkan(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	t.Logf("ggml %s on %s", v.Version, v.Device)
	for _, typ := range []string{"Q4_0", "Q2_K", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"} {
		for _, n := range []int{1, 64} {
			err := v.agree(typ, n)
			if errors.Is(err, ErrUnsupported) {
				t.Logf("%s, %d activations: %v", typ, n, err)
			} else if err != nil {
				t.Errorf("%s, %d activations: %v", typ, n, err)
			}
		}
	}
}

func (v *Vulkan) agree(typ string, n int) error {
	const m, k = 64, 512
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	data, err := blocks.Random(rng, typ, m, k)
	if err != nil {
		return err
	}
	x := make([]float32, n*k)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	w, src, err := blocks.Read(typ, data, m, k)
	if err != nil {
		return err
	}
	p, err := v.NewProduct(Matrix{Type: typ, Blocks: data, X: x, M: m, K: k, N: n, Copies: 2}, 3)
	if err != nil {
		return err
	}
	defer p.Close()
	g, err := p.Graph(3)
	if err != nil {
		return err
	}
	if _, err := g.Run(); err != nil {
		return err
	}
	out := make([]float32, m*n)
	p.Read(out)
	_, err = measure.NewReference(w, src, x, m, k, n, 32).Agree(out, 32)
	return err
}
