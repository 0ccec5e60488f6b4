package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/search/device"
)

// head is docs/lab/card.md above its tables.
const head = `# Products on a card

Written by %[1]sgo run ./tests/lab/card -page%[1]s from the reports in docs/lab/card. %[1]sbash tests/lab/card/run.sh%[1]s makes such a report on your card, in six minutes.

## How it was measured

* Times are by the device's clock: the median of 15 or more sequences of products, each after the one before it, with a barrier between. The weights are 8 to 512 copies of 512 MiB in all, so that no cache has them.
* Activations are int8, and were prepared before. ggml quantizes its activations once for a graph, which counts for nothing either. Its times are by the host's clock:
  the time of a longer graph less that of a shorter one. All of its products write to one place, so that each waits for the one before it.
* Small products of each schedule were compared with the definition, bit for bit. Of each best one all rows of one or three columns were compared at the shape of its line.
* *of reading* is the share of the best rate at which any shader reads 1 GiB. *of a read of its size* compares with a shader that only reads that many bytes, after the read before it: no product can be faster.
* ggml's type is the fastest one of the same number of bits. Q1_0, TQ2_0, Q2_0 and Q4_0 have scales of groups of 128, 256, 64 and 32 weights. Formats here without -g have a scale of a row: the equals of
  Q2_0 and Q4_0 are w2-g64 and w4-g32.

## Where

`

// page is docs/lab/card.md: the ceilings and the peer of the last report that has them, and the best products of all.
func page(paths []string) (string, error) {
	var x lab
	var where []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		var r report
		if err := json.Unmarshal(data, &r); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		where = append(where, fmt.Sprintf("* %s, %s; %s; commit %s; %s", r.Device.Name, r.Device.Driver, r.Host, r.Commit, r.Date))
		if r.Ceilings != nil {
			x.Ceilings = r.Ceilings
		}
		if len(r.Peer) > 0 {
			x.Peer = r.Peer
		}
		x.add(report{Best: r.Best})
	}
	if x.Ceilings == nil {
		return "", fmt.Errorf("%v: no ceilings", paths)
	}
	for _, t := range x.Best {
		t.figures()
	}
	x.shares()
	var b strings.Builder
	fmt.Fprintf(&b, head, "`")
	fmt.Fprintf(&b, "%s\n\n## Ceilings\n\n%s\n## One column\n\n%s\n## Many columns\n\n%s", strings.Join(where, "\n"), x.ceilingRows(), x.vectorRows(), x.matrixRows())
	return b.String(), nil
}

// ceilingRows are the ceilings.
func (x *lab) ceilingRows() string {
	var b strings.Builder
	c := x.Ceilings
	fmt.Fprintf(&b, "| ceiling | best | by |\n| --- | ---: | --- |\n")
	row := func(name, unit string, r device.Rate) {
		fmt.Fprintf(&b, "| %s | %.0f %s | %s |\n", name, r.Best, unit, r.By)
	}
	row("reading", "GB/s", c.Read)
	row("copying, bytes read and written", "GB/s", c.Copy)
	row("dot products of four bytes", "TOPS", c.Dot)
	for _, r := range c.Matrices {
		row("matrices "+r.Kind, "TOPS", r)
	}
	for _, p := range x.Peer {
		if p.Type == "F16" && p.Tops == x.halves() {
			fmt.Fprintf(&b, "| ggml's F16 product, %v | %.0f TOPS | ggml %s |\n", p.Shape, p.Tops, p.Version)
		}
	}
	fmt.Fprintf(&b, "| a dispatch that does nothing | %.2f us | after the one before it |\n", c.LaunchNs.After/1e3)
	for _, p := range c.Parts {
		fmt.Fprintf(&b, "| reading %d MiB | %.1f us, %.0f GB/s | after the read before it |\n", p.Bytes>>20, float64(p.Bytes)/p.GBs/1e3, p.GBs)
	}
	return b.String()
}

// halves is the best rate of ggml's F16 products.
func (x *lab) halves() (most float64) {
	for _, p := range x.Peer {
		if p.Type == "F16" {
			most = max(most, p.Tops)
		}
	}
	return most
}

// peersOf are ggml's types with the nominal bits of a format.
var peersOf = map[float64][]string{1: {"Q1_0"}, 1.6: {"TQ1_0", "TQ2_0"}, 2: {"Q2_0", "Q2_K"}, 4: {"Q4_0", "Q4_K"}}

// beside is the fastest of ggml's products with the bits of a problem's weights, at a shape.
func (x *lab) beside(problem string, s shape) (best peerTime, ok bool) {
	w, err := format.Lookup(problem)
	if err != nil {
		return best, false
	}
	for _, p := range x.Peer {
		if p.Shape == s && p.Ns > 0 && slices.Contains(peersOf[w.Bound], p.Type) && (!ok || p.Ns < best.Ns) {
			best, ok = p, true
		}
	}
	return best, ok
}

// reading is how long a shader takes to read some bytes: between the parts that were measured it grows evenly.
func reading(parts []device.Part, bytes float64) float64 {
	ns := func(p device.Part) float64 { return float64(p.Bytes) / p.GBs }
	for i := 1; i < len(parts); i++ {
		a, b := parts[i-1], parts[i]
		if bytes <= float64(b.Bytes) || i+1 == len(parts) {
			return ns(a) + (bytes-float64(a.Bytes))/float64(b.Bytes-a.Bytes)*(ns(b)-ns(a))
		}
	}
	return 0
}

// vectorRows are products by one column.
func (x *lab) vectorRows() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| weights | shape | MB | us | GB/s | of reading | of a read of its size | ggml | us | times as fast |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |\n")
	for _, t := range x.Best {
		if t.Shape.N > 1 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %d x %d | %.1f | %.1f | %.0f | %.0f %% | %.0f %% | %s |\n", t.Problem, t.Shape.M, t.Shape.K, float64(t.Bytes)/1e6, t.Ns/1e3, t.GBs, 100*t.Share,
			100*reading(x.Ceilings.Parts, float64(t.Bytes))/t.Ns, x.beaten(t))
	}
	return b.String()
}

// beaten is ggml's type, its time, and how many times as long that is.
func (x *lab) beaten(t *timed) string {
	p, ok := x.beside(t.Problem, t.Shape)
	if !ok {
		return " | | "
	}
	return fmt.Sprintf("%s | %.1f | %.2f", p.Type, p.Ns/1e3, p.Ns/t.Ns)
}

// matrixRows are products by many columns.
func (x *lab) matrixRows() string {
	var b strings.Builder
	peak := x.matrixPeak()
	fmt.Fprintf(&b, "| weights | shape | columns | us | TOPS | of %.0f TOPS | ggml | us | times as fast |\n| --- | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |\n", peak)
	all := slices.DeleteFunc(slices.Clone(x.Best), func(t *timed) bool { return t.Shape.N == 1 })
	slices.SortStableFunc(all, func(a, b *timed) int { return cmp.Compare(a.Problem, b.Problem) })
	for _, t := range all {
		fmt.Fprintf(&b, "| %s | %d x %d | %d | %.1f | %.0f | %.0f %% | %s |\n", t.Problem, t.Shape.M, t.Shape.K, t.Shape.N, t.Ns/1e3, t.Tops, 100*t.Tops/peak, x.beaten(t))
	}
	return b.String()
}
