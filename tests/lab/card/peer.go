package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/tmacc/tmacc/ir/format/blocks"
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

// process does a part in a process of its own, which may end or lose the device, and adds its report as far as it came. The process may read
// the report up to here: the speeds of the device, and schedules.
func (x *lab) process(part string, limit time.Duration, flags ...string) error {
	if err := x.save(); err != nil {
		return err
	}
	out := x.out + "." + part
	os.Remove(out)
	defer os.Remove(out)
	ctx, stop := context.WithTimeout(x.ctx, limit+10*time.Second)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, append([]string{"-child", "-parts", part, "-o", out, "-known", x.out, "-device", x.device, "-problems", x.problems, "-traces", x.traces, "-peer", x.peer,
		"-limit", limit.Round(time.Second).String(), "-improve", x.improve.String(), "-small=" + strconv.FormatBool(x.small)}, flags...)...)
	c.Stderr, c.WaitDelay = os.Stderr, 5*time.Second
	failed := c.Run()
	if failed != nil && ctx.Err() == context.DeadlineExceeded {
		failed = fmt.Errorf("ended after %v, in which it had not come to its end", limit)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return errors.Join(failed, errors.New("its process left no report"))
	}
	var r report
	err = json.Unmarshal(data, &r)
	x.add(r)
	return errors.Join(failed, err)
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
