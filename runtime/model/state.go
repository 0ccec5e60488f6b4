package model

import "io"

// state is what one layer remembers of one sequence. Attention is one kind. A recurrent layer is another: its state is no
// list of positions, so it can go back only to where it took a snapshot.
type state interface {
	// Append makes the state ready for the next n positions, which the layer then computes. An error leaves it as it was.
	Append(n int) error
	// Truncate forgets positions from n on, if it can, and returns n. Otherwise it goes back to an earlier position and
	// returns that: the tokens from there on have to be computed again. It never returns more than n.
	Truncate(n int) int
	// Snapshot makes Truncate able to return to the present position.
	Snapshot()
	// Copy is the state of another sequence that begins with all positions of this one. The two share memory where they can.
	Copy() state
	// Save writes what Load reads: the state after its positions, without snapshots.
	Save(w io.Writer) error
	// Load makes an empty state the one that Save wrote after n positions. After an error the state may only be freed.
	Load(r io.Reader, n int) error
	// Free gives the memory back. The state must not be used afterwards.
	Free()
}

// mixer is the part of a layer in which positions of a sequence meet. Attention is one kind.
type mixer interface {
	// newState is the state of an empty sequence.
	newState() state
	// mix computes ws.mixed of ws.normed, for the rows of all segments, or for the ones that ws.narrow leaves. State number `layer` of each segment's session is the mixer's own,
	// and has already been appended to.
	mix(ws *workspace, layer int) error
	// bytes is the memory of one sequence of n positions.
	bytes(n int) int64
}
