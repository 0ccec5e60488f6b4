package model

import (
	"encoding/binary"
	"io"
	"slices"
)

// running is a recurrent mixer for tests: the state is half of what it was, plus the present row. Its states cannot return to
// positions of which they have no snapshot.
type running struct{ n int } // elements

// MakeRecurrent gives a layer a recurrent mixer. It returns how many rows the mixer has computed.
func (m *Model) MakeRecurrent(layer int) (rows func() int) {
	computed := 0
	m.layers[layer].mixer = &counted{running{m.config.Embedding}, &computed}
	return func() int { return computed }
}

type counted struct {
	running
	rows *int
}

type sum struct {
	x         []float32
	at        int
	snapshots []sum
}

func (r running) newState() state   { return &sum{x: make([]float32, r.n)} }
func (r running) bytes(n int) int64 { return int64(4 * r.n) }

func (c *counted) mix(ws *workspace, layer int) error {
	for _, x := range ws.segments {
		s := x.session.states[layer].(*sum)
		for row := x.row; row < x.row+x.n; row++ {
			for i, v := range ws.normed[row*c.n:][:c.n] {
				s.x[i] = float32(0.5*s.x[i]) + v
			}
			copy(ws.mixed[row*c.n:], s.x)
			*c.rows++
		}
		s.at += x.n
	}
	return nil
}

func (s *sum) Append(int) error { return nil }

func (s *sum) Truncate(n int) int {
	if n >= s.at {
		return s.at
	}
	back := sum{x: make([]float32, len(s.x))}
	for _, x := range s.snapshots {
		if x.at <= n {
			back = sum{slices.Clone(x.x), x.at, nil}
		}
	}
	s.x, s.at = back.x, back.at
	s.snapshots = slices.DeleteFunc(s.snapshots, func(x sum) bool { return x.at > s.at })
	return s.at
}

func (s *sum) Snapshot() { s.snapshots = append(s.snapshots, sum{slices.Clone(s.x), s.at, nil}) }

func (s *sum) Copy() state { return &sum{slices.Clone(s.x), s.at, slices.Clone(s.snapshots)} }

func (s *sum) Save(w io.Writer) error { return binary.Write(w, binary.LittleEndian, s.x) }

func (s *sum) Load(r io.Reader, n int) error {
	s.at = n
	return binary.Read(r, binary.LittleEndian, s.x)
}

func (s *sum) Free() {}
