package worker

import (
	"testing"

	"github.com/tmacc/tmacc/search/timing"
)

// TestForget: copies that lie between others give their room back after the request, and those others stay; when they go, their
// memory is kept for the next ones.
func TestForget(t *testing.T) {
	data := make([]byte, 1000)
	spaced, err := timing.NewSpacedCopies(data, 5000, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{weights: map[string]*weights{"default": {copies: spaced, total: 5000, keep: true}, "candidate": {copies: spaced.Beside(data)}}}
	s.forget()
	if len(s.weights) != 1 || s.weights["default"] == nil || s.spare != nil {
		t.Errorf("%d weights are left, spare %v", len(s.weights), s.spare)
	}
	again := spaced.Beside(data)
	if again == nil {
		t.Fatal("the room between the copies is not free")
	}
	s.weights["candidate"] = &weights{copies: again}
	s.round = keepFor + 1
	s.forget()
	if len(s.weights) != 0 || s.spare != spaced {
		t.Errorf("%d weights are left, spare %v", len(s.weights), s.spare)
	}
	if err := s.spare.Close(); err != nil {
		t.Error(err)
	}
}
