package model

import (
	"slices"

	"github.com/tmacc/tmacc/runtime/ops"
)

// feed is the part of a layer that computes each position by itself. A dense network is one kind, experts are another.
type feed interface {
	// feed computes ws.mixed of ws.normed, for the first n rows and the layer ws.layer.
	feed(ws *workspace, n int) error
	// rowBytes is the memory that it takes for a row.
	rowBytes() int64
}

// newFeed is the feed-forward part of the layers.
func newFeed(c *Config) feed {
	if c.Experts.Count > 0 {
		return &experts{c.Experts, c.Embedding}
	}
	return &dense{c.FeedForward}
}

// feedRoles are the tensors that the feed-forward part of a layer needs.
func (c *Config) feedRoles() []role {
	switch {
	case c.Experts.Shared > 0:
		return slices.Concat(expertRoles, sharedRoles)
	case c.Experts.Count > 0:
		return expertRoles
	}
	return denseRoles
}

// width is the elements between the matrices that all positions have, 0: a position has only those that it chooses.
func (c *Config) width() int {
	if c.Experts.Count > 0 {
		return c.Experts.Shared
	}
	return c.FeedForward
}

// dense is the same matrices for all positions.
type dense struct{ width int }

func (d *dense) rowBytes() int64 { return 4 * 2 * int64(d.width) }

func (d *dense) feed(ws *workspace, n int) error {
	l := ws.layer
	ws.openGates(n, d.width)
	if err := ws.multiply(ws.normed, n, product{l.matrices[gateWeights], ws.gates}, product{l.matrices[upWeights], ws.ups}); err != nil {
		return err
	}
	ws.clock(&ws.times.Products)
	ws.each(n, (*workspace).gate)
	ws.clock(&ws.times.Rest)
	err := ws.multiply(ws.gates, n, product{l.matrices[downWeights], ws.mixed[:n*ws.model.config.Embedding]})
	ws.clock(&ws.times.Products)
	return err
}

// openGates makes room for n rows of a width in gates and ups.
func (ws *workspace) openGates(n, width int) {
	ws.width = width
	ws.gates, ws.ups = grow(ws.gates, n*width), grow(ws.ups, n*width)
}

// gate computes the gated activations of a row.
func (ws *workspace) gate(row int) {
	x := ws.gates[row*ws.width:][:ws.width]
	ws.model.row.gate.of(x, x, ws.ups[row*ws.width:][:ws.width])
	if weights := ws.layer.vectors[gatedNorm]; weights != nil {
		ops.RMSNorm(x, x, weights, ws.model.config.Epsilon)
	}
}
