package generation

import (
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// greedy is the likeliest token after some, by a session of its own.
func greedy(t *testing.T, m *model.Model, tokens []int32) int32 {
	t.Helper()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	items := []model.Item{{Session: s, Tokens: tokens}}
	if err := m.Forward(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	return int32(slices.Index(items[0].Logits, slices.Max(items[0].Logits)))
}

// A text that is longer than the context goes on as after the tokens that stay alone.
func TestShift(t *testing.T) {
	const room, more = 12, 9
	m, tokens := tale(t, room)
	given := tokens.Encode(prompt, token.Options{})
	for _, keep := range []int{2, -1} {
		first := keep
		if keep < 0 {
			first = len(given)
		}
		window, forgotten := slices.Clone(given), 0
		var want strings.Builder
		for i := range more {
			id := greedy(t, m, window)
			want.WriteString(tokens.Decode([]int32{id}, false))
			if full := room - 1; len(window) == full && i+1 < more { // with the token that was chosen
				half := (full - first) / 2
				window, forgotten = slices.Delete(window, first, first+half), forgotten+half
			}
			window = append(window, id)
		}
		text, r, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: more, Shift: true, Keep: keep})
		if err != nil || text != want.String() || r.End != Enough || r.Tokens != more || r.Forgotten != forgotten || forgotten == 0 {
			t.Errorf("keep %d: %q, %+v, %v\nwant %q, %d forgotten", keep, text, r, err, want.String(), forgotten)
		}
	}
	for _, keep := range []int{room - 1, room + 5} {
		if _, r, err := goOn(t, t.Context(), m, tokens, prompt, Options{Tokens: more, Shift: true, Keep: keep}); err != nil || r.End != Full || r.Forgotten != 0 {
			t.Errorf("keep %d: %+v, %v", keep, r, err)
		}
	}
}
