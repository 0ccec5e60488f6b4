package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/measure/ggml"
)

// peerTime is a product by ggml's Vulkan back end. It begins with float activations, which it may quantize.
type peerTime struct {
	Version string  `json:"version"`
	Device  string  `json:"device"`
	Type    string  `json:"type"`
	Shape   shape   `json:"shape"`
	Bytes   int64   `json:"bytes"`
	Ns      float64 `json:"ns"` // by the host's clock: what each further product of a graph takes
	GBs     float64 `json:"gb_s"`
	Tops    float64 `json:"tops"`
	Copies  int     `json:"copies"`
	Share   float64 `json:"share"`
	Error   string  `json:"error,omitempty"`
}

// peerTypes are the types of blocks that are timed by one column, and by many.
var peerTypes = map[bool][]string{
	true:  {"Q1_0", "TQ1_0", "TQ2_0", "Q2_0", "Q2_K", "Q4_0", "Q4_K"},
	false: {"F16", "Q2_K", "Q4_0"},
}

// peers times ggml in a process of its own, because it ends the process when something is wrong.
func (x *lab) peers() error {
	if x.peer == "" {
		return errors.New("no -peer")
	}
	if x.child {
		return x.peerHere()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out := x.out + ".peer"
	ctx, stop := context.WithDeadline(x.ctx, x.deadline)
	defer stop()
	left := (time.Until(x.deadline) * 2 / 5).Round(time.Second)
	c := exec.CommandContext(ctx, self, "-child", "-parts", "peer", "-peer", x.peer, "-o", out, "-device", x.device, "-limit", left.String(), "-small="+strconv.FormatBool(x.small))
	var text bytes.Buffer
	c.Stdout, c.Stderr = nil, io.MultiWriter(os.Stderr, &text)
	failed := c.Run()
	if failed != nil {
		failed = fmt.Errorf("%w: %s", failed, text.Bytes()[max(0, text.Len()-1000):])
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return errors.Join(failed, err)
	}
	var r report
	err = json.Unmarshal(data, &r)
	for _, p := range r.Peer {
		if x.Ceilings != nil {
			p.share(x.Ceilings)
		}
		x.Peer = append(x.Peer, p)
	}
	x.Errors = append(x.Errors, r.Errors...)
	return errors.Join(failed, err)
}

func (p *peerTime) share(c *device.Ceilings) {
	if p.Shape.N > 8 {
		p.Share = p.Tops / matrixPeak(c)
	} else {
		p.Share = p.GBs / max(c.Read.Best, c.Copy.Best)
	}
}

// peerHere times ggml in this process.
func (x *lab) peerHere() error {
	v, err := ggml.OpenVulkan(x.peer)
	if err != nil {
		return err
	}
	for _, n := range []int{1, 256, 512} {
		for _, s := range x.shapes([]int{n}) {
			for _, typ := range peerTypes[n == 1] {
				if x.over() {
					return errors.New("the time was up")
				}
				p, err := x.peerTime(v, typ, s)
				if err != nil {
					p.Error = err.Error()
				}
				x.Peer = append(x.Peer, p)
				x.log("%s %v: %.0f ns, %.0f GB/s, %.1f TOPS %s", typ, s, p.Ns, p.GBs, p.Tops, p.Error)
			}
			x.failed("save", x.save())
		}
	}
	return nil
}

// peerTime times one product.
func (x *lab) peerTime(v *ggml.Vulkan, typ string, s shape) (peerTime, error) {
	out := peerTime{Version: v.Version, Device: v.Device, Type: typ, Shape: s}
	data, err := peerWeights(typ, s)
	if err != nil {
		return out, err
	}
	act := make([]float32, s.N*s.K)
	for i := range act {
		act[i] = float32(rand.NormFloat64())
	}
	copies := int(max(3, min(total/2/len(data), 128)))
	products := max(48, copies)
	if x.small {
		copies, products = 2, 4
	}
	p, err := v.NewProduct(ggml.Matrix{Type: typ, Blocks: data, X: act, M: s.M, K: s.K, N: s.N, Copies: copies}, products)
	if err != nil {
		return out, err
	}
	defer p.Close()
	out.Copies, out.Bytes = copies, int64(len(data))
	if out.Ns, err = slope(p, products, 5*x.warm()); err != nil {
		return out, err
	}
	out.GBs, out.Tops = float64(out.Bytes)/out.Ns, 2*float64(s.M)*float64(s.K)*float64(s.N)/out.Ns/1e3
	return out, nil
}

// slope is the time in ns of each product that a graph of n has beyond a graph of n/4: medians of both.
func slope(p *ggml.VulkanProduct, n int, warm time.Duration) (float64, error) {
	few := n / 4
	short, err := p.Graph(few)
	if err != nil {
		return 0, err
	}
	long, err := p.Graph(n)
	if err != nil {
		return 0, err
	}
	if _, err := long.Run(); err != nil { // it may compile
		return 0, err
	}
	for began := time.Now(); time.Since(began) < warm; { // the card's clock falls while it waits for weights
		if _, err := long.Run(); err != nil {
			return 0, err
		}
	}
	var times [2][]time.Duration
	for range 15 {
		for i, g := range []*ggml.VulkanGraph{short, long} {
			t, err := g.Run()
			if err != nil {
				return 0, err
			}
			times[i] = append(times[i], t)
		}
	}
	for _, t := range times {
		slices.Sort(t)
	}
	return float64(times[1][7]-times[0][7]) / float64(n-few), nil
}

// distinct is how many different rows weights of the peer have.
const distinct = 64

// peerWeights are blocks of some rows that repeat.
func peerWeights(typ string, s shape) ([]byte, error) {
	rows := min(distinct, s.M)
	if typ == "F16" {
		data := make([]byte, 0, 2*s.M*s.K)
		for range rows * s.K {
			h := uint16(rand.Uint32())&0x83ff | 0x2c00 // some 2^-4, of either sign
			data = append(data, byte(h), byte(h>>8))
		}
		return bytes.Repeat(data, s.M/rows), nil
	}
	data, err := blocks.Random(rand.New(rand.NewPCG(1, 2)), typ, rows, s.K)
	return bytes.Repeat(data, s.M/rows), err
}
