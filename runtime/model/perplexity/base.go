package perplexity

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tmacc/tmacc/runtime/ops"
)

// A base file is llama.cpp's of --kl-divergence-base, little endian throughout:
//
//	"_logits_"   tokens of a chunk, of the vocabulary, and number of chunks (int32 each)   the tokens of all chunks (int32 each)
//	for each prediction that counts: scale, least (float32 each)   codes (uint16), one for each token of the vocabulary, and one more to an even number
const magic = "_logits_"

// The bounds of what base files have.
const (
	mostContext    = 1 << 24
	mostVocabulary = 1 << 24
	mostTokens     = 1 << 30 // in all
)

// Base is the saved predictions of a model, for one call of Compare.
type Base struct {
	Context    int     // tokens of a chunk
	Vocabulary int     // tokens of the model's vocabulary
	Chunks     int     // of the text
	Tokens     []int32 // of the text
	from       *bufio.Reader
	buffer     []byte
}

// BaseError is a fault of a base file.
type BaseError struct{ Problem string }

func (e *BaseError) Error() string { return "base: " + e.Problem }

func baseErrorf(problem string, args ...any) error { return &BaseError{fmt.Sprintf(problem, args...)} }

// ReadBase reads the text of a base file. Compare reads the predictions from r later, as it needs them. An error of both
// is a *BaseError, unless r has failed.
func ReadBase(r io.Reader) (*Base, error) {
	b := &Base{from: bufio.NewReaderSize(r, 1<<16)}
	var head [len(magic) + 12]byte
	if err := b.fill(head[:]); err != nil {
		return nil, err
	}
	if string(head[:len(magic)]) != magic {
		return nil, baseErrorf("begins with %q, not with %q: it is no file of saved predictions", head[:len(magic)], magic)
	}
	for i, x := range []struct {
		what       string
		to         *int
		low, limit int64
	}{
		{"tokens of a chunk", &b.Context, leastContext, mostContext},
		{"tokens of the vocabulary", &b.Vocabulary, 1, mostVocabulary},
		{"chunks", &b.Chunks, 1, mostTokens},
	} {
		n := int64(int32(binary.LittleEndian.Uint32(head[len(magic)+4*i:])))
		if n < x.low || n > x.limit {
			return nil, baseErrorf("says that it has %d %s: want %d to %d", n, x.what, x.low, x.limit)
		}
		*x.to = int(n)
	}
	if int64(b.Context)*int64(b.Chunks) > mostTokens {
		return nil, baseErrorf("says that it has %d chunks of %d tokens: want at most %d tokens", b.Chunks, b.Context, mostTokens)
	}
	return b, b.readTokens()
}

// readTokens reads the text. Its memory grows with the bytes that there are.
func (b *Base) readTokens() error {
	var piece [1 << 12]byte
	for left := b.Context * b.Chunks; left > 0; {
		n := min(left, len(piece)/4)
		if err := b.fill(piece[:4*n]); err != nil {
			return err
		}
		for i := range n {
			t := int32(binary.LittleEndian.Uint32(piece[4*i:]))
			if t < 0 || int(t) >= b.Vocabulary {
				return baseErrorf("token %d is %d, and the vocabulary has %d: the file is damaged", len(b.Tokens), t, b.Vocabulary)
			}
			b.Tokens = append(b.Tokens, t)
		}
		left -= n
	}
	return nil
}

// read reads the next rows.
func (b *Base) read(rows []row) error {
	if b.buffer == nil {
		b.buffer = make([]byte, rowBytes(b.Vocabulary))
	}
	for i := range rows {
		if err := b.fill(b.buffer); err != nil {
			return err
		}
		x := &rows[i]
		x.scale = math.Float32frombits(binary.LittleEndian.Uint32(b.buffer))
		x.least = math.Float32frombits(binary.LittleEndian.Uint32(b.buffer[4:]))
		if top := float32(x.scale*math.MaxUint16) + x.least; !(x.scale >= 0) || !ops.Finite([]float32{top}) {
			return baseErrorf("has a scale of %v and a least log-probability of %v: the file is damaged", x.scale, x.least)
		}
		for j := range x.codes {
			x.codes[j] = binary.LittleEndian.Uint16(b.buffer[8+2*j:])
		}
	}
	return nil
}

func (b *Base) fill(data []byte) error {
	_, err := io.ReadFull(b.from, data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return baseErrorf("ends too early: save it again")
	}
	return err
}

// rowBytes is the size of a row in a file.
func rowBytes(vocabulary int) int { return 8 + 2*((vocabulary+1)/2*2) }

// saver writes a base file.
type saver struct {
	to     io.Writer
	buffer []byte
}

// newSaver begins the file of a text.
func newSaver(w io.Writer, size, vocabulary int, tokens []int32) (*saver, error) {
	s := &saver{to: w, buffer: []byte(magic)}
	for _, n := range []int{size, vocabulary, len(tokens) / size} {
		s.buffer = binary.LittleEndian.AppendUint32(s.buffer, uint32(n))
	}
	for _, t := range tokens {
		s.buffer = binary.LittleEndian.AppendUint32(s.buffer, uint32(t))
	}
	return s, s.flush()
}

func (s *saver) flush() error {
	_, err := s.to.Write(s.buffer)
	s.buffer = s.buffer[:0]
	return err
}

// write writes rows.
func (s *saver) write(rows []row) error {
	for i := range rows {
		x := &rows[i]
		s.buffer = binary.LittleEndian.AppendUint32(s.buffer, math.Float32bits(x.scale))
		s.buffer = binary.LittleEndian.AppendUint32(s.buffer, math.Float32bits(x.least))
		for _, c := range x.codes {
			s.buffer = binary.LittleEndian.AppendUint16(s.buffer, c)
		}
		if len(x.codes)%2 == 1 {
			s.buffer = append(s.buffer, 0, 0)
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}
