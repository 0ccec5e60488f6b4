package sample

// window is the last tokens of a text.
type window struct {
	size   int // -1: all
	tokens []int32
	counts []int32 // of each token of the vocabulary; all 0 between calls
}

// add puts tokens behind the others. It forgets earlier ones now and then.
func (w *window) add(ids ...int32) {
	w.tokens = append(w.tokens, ids...)
	if w.size >= 0 && len(w.tokens)/2 > w.size {
		w.tokens = w.tokens[:copy(w.tokens, w.present())]
	}
}

// present is the last tokens, at most as the size says.
func (w *window) present() []int32 {
	if w.size < 0 {
		return w.tokens
	}
	return w.tokens[max(0, len(w.tokens)-w.size):]
}

// penalizes reports whether the text changes logits.
func (s *Sampler) penalizes() bool {
	return (s.options.Repeat != 1 || s.options.Presence != 0 || s.options.Frequency != 0) && s.options.Mirostat == 0
}

// penalize lowers the logits of tokens that the text has.
func (s *Sampler) penalize() {
	w := &s.last
	if len(w.counts) < len(s.logits) {
		w.counts = make([]int32, len(s.logits))
	}
	known := func(id int32) bool { return id >= 0 && int(id) < len(s.logits) }
	for _, id := range w.present() {
		if known(id) {
			w.counts[id]++
		}
	}
	for _, id := range w.present() {
		if known(id) && w.counts[id] > 0 {
			s.logits[id] = s.penalized(s.logits[id], w.counts[id])
			w.counts[id] = 0
		}
	}
}

// penalized is the logit of a token that the text has count times.
func (s *Sampler) penalized(x float32, count int32) float32 {
	if repeat := float32(s.options.Repeat); x > 0 {
		x /= repeat
	} else {
		x = float32(x * repeat)
	}
	each := float32(float32(count) * float32(s.options.Frequency))
	return x - (each + float32(s.options.Presence))
}
