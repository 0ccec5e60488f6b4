package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"github.com/tmacc/tmacc/runtime/ops"
)

// A saved session is, with little-endian numbers:
//
//	magic (8 bytes)   definition (4)   identity of the model (32)   cache type (4)   number of tokens n (4)
//	the tokens (4 each)   hash of their embeddings (32)   the states of all layers after n positions   CRC-32C of all before (4)
//
// Everything follows from the tokens and the model, so sessions with equal tokens have equal bytes, on every machine, unless a
// window made them forget pages.
const sessionMagic = "tmaccS\x00\x01"

// definition is the number of the definition of logits. It grows when keys, values or other states of the same tokens become others.
const definition = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes the tokens of s and what the layers remember of them, for LoadSession. Snapshots are not saved.
func (s *Session) Save(w io.Writer) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.model.closed.Load() {
		return errClosed
	}
	head, err := s.head()
	if err != nil {
		return err
	}
	sum := crc32.New(castagnoli)
	summed := io.MultiWriter(w, sum)
	for _, t := range s.tokens {
		head = binary.LittleEndian.AppendUint32(head, uint32(t))
	}
	embeddings, err := s.embeddings()
	if err != nil {
		return err
	}
	head = append(head, embeddings[:]...)
	if _, err := summed.Write(head); err != nil {
		return err
	}
	for _, x := range s.states {
		if err := x.Save(summed); err != nil {
			return err
		}
	}
	_, err = w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

// head is the beginning of a saved session, up to the tokens.
func (s *Session) head() ([]byte, error) {
	id, err := s.model.identity()
	if err != nil {
		return nil, err
	}
	head := binary.LittleEndian.AppendUint32([]byte(sessionMagic), definition)
	head = append(head, id[:]...)
	head = binary.LittleEndian.AppendUint32(head, uint32(s.model.options.Cache))
	return binary.LittleEndian.AppendUint32(head, uint32(len(s.tokens))), nil
}

// LoadSession is a session that Save wrote. The error says why it does not fit: it is of another model, with other weights, of
// another type of cache, of a version of this package that computes otherwise, longer than Options.Context, or damaged. It reads r up to the end of the
// session. The caller closes the session.
func (m *Model) LoadSession(r io.Reader) (*Session, error) {
	s, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	if err := s.load(r); err != nil {
		s.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errorf("saved session", "ends too early: it is damaged")
		}
		return nil, err
	}
	return s, nil
}

// load makes an empty session the saved one.
func (s *Session) load(r io.Reader) error {
	sum := crc32.New(castagnoli)
	summed := io.TeeReader(r, sum)
	n, err := s.loadHead(summed)
	if err != nil {
		return err
	}
	if err := s.loadTokens(summed, n); err != nil {
		return err
	}
	for _, x := range s.states {
		if err := x.Load(summed, n); err != nil {
			return err
		}
	}
	var want [4]byte
	if _, err := io.ReadFull(r, want[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(want[:]) != sum.Sum32() {
		return errorf("saved session", "is damaged: its checksum is another")
	}
	return nil
}

// loadHead compares the beginning with the model's, and returns the number of tokens.
func (s *Session) loadHead(r io.Reader) (n int, err error) {
	want, err := s.head()
	if err != nil {
		return 0, err
	}
	have := make([]byte, len(want))
	if _, err := io.ReadFull(r, have); err != nil {
		return 0, err
	}
	take := func(n int) (same bool) {
		same = string(have[:n]) == string(want[:n])
		have, want = have[n:], want[n:]
		return same
	}
	switch {
	case !take(len(sessionMagic)):
		return 0, errorf("saved session", "begins as no session does: this is another kind of file")
	case !take(4):
		return 0, errorf("saved session", "was saved by a version that computes otherwise: compute it again")
	case !take(sha256.Size):
		return 0, errorf("saved session", "is of another model: of another file, or with other options than now")
	case !take(4):
		return 0, errorf("saved session", "has another type of cache: open the model with the type that it was saved with")
	}
	count := binary.LittleEndian.Uint32(have)
	if most := s.model.options.Context; uint64(count) > uint64(most) {
		return 0, errorf("saved session", "has %d tokens, and option Context is %d: open the model with a longer context", count, most)
	}
	return int(count), nil
}

// loadTokens reads the n tokens of a session.
func (s *Session) loadTokens(r io.Reader, n int) error {
	data := make([]byte, 4*n) // at most those of option Context
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	for i := range n {
		t := int32(binary.LittleEndian.Uint32(data[4*i:]))
		if t < 0 || int(t) >= s.model.config.Vocabulary {
			return errorf("saved session", "is damaged: token %d is %d, and the vocabulary has ids 0 to %d", i, t, s.model.config.Vocabulary-1)
		}
		s.tokens = append(s.tokens, t)
	}
	want, err := s.embeddings()
	if err != nil {
		return err
	}
	var have [sha256.Size]byte
	if _, err := io.ReadFull(r, have[:]); err != nil {
		return err
	}
	if have != want {
		return errorf("saved session", "is of another model, or damaged: its tokens have other embeddings")
	}
	return nil
}

// embeddings is a hash of the embeddings of the session's tokens. The model's identity has few of them, and a model may differ in one.
func (s *Session) embeddings() (id [sha256.Size]byte, err error) {
	h := &identityHash{Hash: sha256.New()}
	row := make([]float32, s.model.config.Embedding)
	for _, t := range s.tokens {
		if err := s.model.embedding.row(row, int(t)); err != nil {
			return id, err
		}
		h.values(row)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// Save writes the number of the first page that it keeps, and the pages from there on, as Append would find them: behind the last position
// there are zeros. Pages that the next Append gives back are left out.
func (c *cache) Save(w io.Writer) error {
	first := max(c.first, c.a.windowBlock(c.length-behind))
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, uint32(first))); err != nil {
		return err
	}
	for i := first; i < len(c.pages); i++ {
		data := c.pages[i].data
		if used := c.length - i*ops.Block; used < ops.Block && c.dirty > c.length {
			data = append([]byte(nil), data...)
			c.a.forget(data, used)
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// Load reads pages of n positions.
func (c *cache) Load(r io.Reader, n int) error {
	var number [4]byte
	if _, err := io.ReadFull(r, number[:]); err != nil {
		return err
	}
	first := binary.LittleEndian.Uint32(number[:])
	if most := c.a.windowBlock(n); uint64(first) > uint64(most) {
		return errorf("saved session", "is damaged: it begins with page %d, and page %d is needed", first, most)
	}
	c.first, c.length = int(first), n
	c.pages = append(c.pages, make([]*page, first)...)
	for len(c.pages) < numBlocks(n) {
		x, err := c.a.pages.take()
		if err != nil {
			return err
		}
		c.pages = append(c.pages, x)
		if _, err := io.ReadFull(r, x.data); err != nil {
			return err
		}
	}
	c.dirty = len(c.pages) * ops.Block // a file may have anything there
	return nil
}

// rowsOfIdentity is how many rows of each matrix the identity of a model has.
const rowsOfIdentity = 4

// newIdentity tells models apart whose sessions differ: it is a hash of the hyperparameters, all vectors, and the types and some rows of all
// matrices. Where the weights come from, and how they are packed, does not matter.
func (m *Model) newIdentity() (id [sha256.Size]byte, err error) {
	config, err := json.Marshal(struct {
		Config Config
		Float  bool
	}{m.config, m.options.Float})
	if err != nil {
		return id, err
	}
	h := &identityHash{Hash: sha256.New()}
	h.Write(config)
	h.values(m.outputNorm)
	for i := range m.layers {
		for _, v := range m.layers[i].vectors {
			h.values(v)
		}
	}
	for _, x := range m.matrices() {
		if err := h.matrix(x); err != nil {
			return id, err
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// matrices are all matrices of the model, and nil for roles that a layer has none of.
func (m *Model) matrices() []*matrix {
	all := []*matrix{m.embedding, m.head}
	for i := range m.layers {
		l := &m.layers[i]
		all = append(all, slices.Concat(append(l.stacks[:], l.matrices[:])...)...)
	}
	return all
}

// identityHash hashes weights.
type identityHash struct {
	hash.Hash
	data []byte
}

// values adds floats.
func (h *identityHash) values(x []float32) {
	h.data = grow(h.data, 4*len(x))
	ops.StoreRow(h.data, ops.F32, x)
	h.Write(h.data)
}

// matrix adds the type and rows of a matrix, if it is one.
func (h *identityHash) matrix(x *matrix) error {
	if x == nil {
		return nil
	}
	io.WriteString(h, x.typeName)
	row := make([]float32, x.k)
	for i := range rowsOfIdentity {
		if err := x.row(row, i*(x.m-1)/(rowsOfIdentity-1)); err != nil {
			return err
		}
		h.values(row)
	}
	return nil
}
