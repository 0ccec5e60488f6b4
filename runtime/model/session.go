package model

import (
	"context"
	"sync"
)

// Session is one sequence of tokens and what the layers remember of it. One call at a time may use a session. Sessions of a
// model may be used at once.
type Session struct {
	model   *Model
	mu      sync.Mutex // held by calls
	tokens  []int32    // that the states have
	states  []state    // of each layer; nil once closed
	before  int        // how many tokens it had before the present call of Forward
	results []float32  // of the last call: logits or hidden states
}

// NewSession is an empty sequence. Its memory grows with its tokens. The caller closes it.
func (m *Model) NewSession() (*Session, error) {
	if m.closed.Load() {
		return nil, errClosed
	}
	s := &Session{model: m, tokens: make([]int32, 0, m.options.Context)}
	for i := range m.layers {
		s.states = append(s.states, m.layers[i].mixer.newState())
	}
	return s, nil
}

var errClosed = errorf("model", "is closed")

// Model is the model of the session.
func (s *Session) Model() *Model { return s.model }

// Len is the number of tokens of the sequence.
func (s *Session) Len() int { return len(s.tokens) }

// Tokens are the tokens of the sequence. The caller does not change them.
func (s *Session) Tokens() []int32 { return s.tokens }

// use is an error unless the caller may use s until it calls s.mu.Unlock.
func (s *Session) use() error {
	if s == nil {
		return errorf("session", "is nil: make it by NewSession")
	}
	if !s.mu.TryLock() {
		return errorf("session", "is used by another call, or twice by this one")
	}
	if s.states == nil {
		s.mu.Unlock()
		return errorf("session", "is closed")
	}
	return nil
}

// Truncate forgets the tokens from position n on. Where a layer cannot go back to n, s goes back further and computes
// the tokens up to n again. If that fails, s has fewer tokens.
func (s *Session) Truncate(ctx context.Context, n int) error {
	if err := s.use(); err != nil {
		return err
	}
	if n < 0 || n > len(s.tokens) {
		s.mu.Unlock()
		return errorf("argument n", "is %d; the session has %d tokens", n, len(s.tokens))
	}
	again := s.tokens[s.truncate(n):n]
	s.tokens = s.tokens[:n-len(again)]
	s.mu.Unlock()
	if len(again) == 0 {
		return nil
	}
	return s.model.Forward(ctx, []Item{{Session: s, Tokens: again}})
}

// truncate takes all states back to the same position, at most n, and returns it.
func (s *Session) truncate(n int) int {
	for at := n; ; {
		for _, x := range s.states {
			at = min(at, x.Truncate(at))
		}
		if at == n {
			return n
		}
		n = at
	}
}

// Snapshot makes Truncate able to return to the present position without computing tokens again.
func (s *Session) Snapshot() error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, x := range s.states {
		x.Snapshot()
	}
	return nil
}

// Copy is another session with the same tokens. The two share memory until one of them goes on.
func (s *Session) Copy() (*Session, error) {
	if err := s.use(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := &Session{model: s.model, tokens: append(make([]int32, 0, s.model.options.Context), s.tokens...)}
	for _, x := range s.states {
		out.states = append(out.states, x.Copy())
	}
	return out, nil
}

// Close frees the memory of s. Closing again does nothing.
func (s *Session) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.states {
		x.Free()
	}
	s.states, s.tokens, s.results = nil, nil, nil
	return nil
}
