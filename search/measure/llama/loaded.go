package llama

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/search/measure/library"
)

// loaded is the library, and a model, in this process.
type loaded struct {
	f              functions
	engine         Engine
	said           said
	model, context pointer
	memory         pointer
	pool           pointer
	pools          map[int]pointer // by number of threads
}

// said is what the library has said that is worth keeping.
type said struct {
	buffers []Buffer
	cache   int64
	fault   string // the first error of a request
}

// The levels of lines in the library's log.
const levelError = 4

// bufferLine is a line about a buffer: "load_tensors:   CPU_Mapped model buffer size =   123.45 MiB".
var bufferLine = regexp.MustCompile(`^\w+: +(\S+) (model|KV) buffer size = +([0-9.]+) MiB`)

// hear keeps a line of the log.
func (s *said) hear(level int32, line string) {
	line = strings.TrimSpace(line)
	if level == levelError && s.fault == "" {
		s.fault = line
	}
	m := bufferLine.FindStringSubmatch(line)
	if m == nil {
		return
	}
	mib, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		return
	}
	if m[2] == "KV" {
		s.cache += int64(mib * (1 << 20))
		return
	}
	s.buffers = append(s.buffers, Buffer{m[1], int64(mib * (1 << 20))})
}

// open loads the libraries of a folder. ggml's own score chooses the variant of the CPU backend.
func open(dir string) (*loaded, error) {
	path, err := find(dir)
	if err != nil {
		return nil, err
	}
	lib, err := library.Load(path)
	if err != nil {
		return nil, err
	}
	l := &loaded{pools: map[int]pointer{}}
	if err := l.f.find(lib); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l.f.logTo(library.Callback(func(level int32, line *byte, _ pointer) { l.said.hear(level, text(line)) }), nil)
	l.f.backends(filepath.Dir(path))
	backend, err := mapped("libggml-cpu")
	if err != nil {
		return nil, fmt.Errorf("%s: none of the variants of the CPU backend runs on this CPU: %w", dir, err)
	}
	l.engine = Engine{l.f.version(), filepath.Base(backend)}
	handle, err := library.Load(backend)
	if err != nil {
		return nil, err
	}
	return l, l.f.findPool(handle)
}

// text is a text of C.
func text(from *byte) string {
	if from == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(from), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(from, n))
}

// mapped is the path of a library of this process whose name begins with prefix.
func mapped(prefix string) (string, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(maps)) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			if path := strings.TrimSpace(line[at:]); strings.HasPrefix(filepath.Base(path), prefix) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("no %s is loaded", prefix)
}

// load loads a model, with an empty context.
func (l *loaded) load(opt Options) (Memory, error) {
	l.said = said{}
	if l.model = l.f.modelLoad(opt.Path, usualModel); l.model == nil {
		return Memory{}, l.failed("does not load " + opt.Path)
	}
	p := usualContext
	p.context = uint32(opt.Context)
	p.threads, p.threadsBatch = 1, 1
	p.flash = 1
	if opt.Plain {
		p.flash = 0
	}
	if opt.Float {
		p.typeK, p.typeV = 0, 0
	}
	if opt.Embed {
		p.embeddings, p.pooling = true, int32(opt.Pooling)
	}
	if l.context = l.f.contextNew(l.model, p); l.context == nil {
		return Memory{}, l.failed(fmt.Sprintf("makes no context of %d tokens for %s", opt.Context, opt.Path))
	}
	l.memory = l.f.memory(l.context)
	return Memory{l.said.buffers, l.said.cache}, l.setThreads(1)
}

// failed is an error with what the library has said.
func (l *loaded) failed(what string) error {
	if l.said.fault == "" {
		return errors.New("llama.cpp " + what)
	}
	return fmt.Errorf("llama.cpp %s: %s", what, l.said.fault)
}

// setThreads gives the context n threads of a pool with the library's usual settings. A pool stays when another is used, since the
// backend pauses it once more then. Its threads sleep.
func (l *loaded) setThreads(n int) error {
	if l.pools[n] == nil {
		var p poolParams
		l.f.poolInit(&p, int32(n))
		if l.pools[n] = l.f.poolNew(&p); l.pools[n] == nil {
			return l.failed(fmt.Sprintf("makes no pool of %d threads", n))
		}
		l.f.poolPause(l.pools[n])
	}
	l.pool = l.pools[n]
	l.f.attach(l.context, l.pool, nil)
	l.f.setThreads(l.context, int32(n), int32(n))
	return nil
}

// decode evaluates tokens after those in the context, at once or one by one. It returns the time of each call, whose logits are
// computed by then. Afterwards the threads sleep.
func (l *loaded) decode(tokens []int32, together bool) (steps []time.Duration, err error) {
	defer l.f.poolPause(l.pool)
	n := 1
	if together {
		n = int(l.f.batch(l.context))
	}
	start := time.Now()
	for len(tokens) > 0 {
		part := tokens[:min(n, len(tokens))]
		tokens = tokens[len(part):]
		status := l.f.decode(l.context, batch{n: int32(len(part)), token: &part[0]})
		l.f.wait(l.context)
		runtime.KeepAlive(part)
		if status != 0 {
			return nil, l.failed(fmt.Sprintf("evaluates no batch of %d tokens (status %d)", len(part), status))
		}
		if !together || len(tokens) == 0 {
			now := time.Now()
			steps, start = append(steps, now.Sub(start)), now
		}
	}
	return steps, nil
}

// fill makes the context hold n tokens. It evaluates all of `tokens`, which are fewer, and saves the sequence. The rest of the
// context is that again and again (see stretched), or, with a cache that is not plain, is evaluated too.
func (l *loaded) fill(tokens []int32, n int) error {
	l.f.clear(l.memory, true)
	if n == 0 {
		return nil
	}
	if _, err := l.decode(tokens[:min(n, len(tokens))], true); err != nil || n <= len(tokens) {
		return err
	}
	state := make([]byte, l.f.stateSize(l.context, 0))
	if got := l.f.stateGet(l.context, &state[0], uint64(len(state)), 0); got != uint64(len(state)) {
		return l.failed("saves no sequence")
	}
	if state = stretched(state, n); state == nil {
		return l.evaluate(tokens, n)
	}
	l.f.clear(l.memory, true)
	if l.f.stateSet(l.context, &state[0], uint64(len(state)), 0) == 0 {
		return l.failed("restores no sequence")
	}
	state = nil
	debug.FreeOSMemory()
	return l.holds(n)
}

// evaluate evaluates tokens again and again until the context has n.
func (l *loaded) evaluate(tokens []int32, n int) error {
	for have := len(tokens); have < n; have += len(tokens) {
		if _, err := l.decode(tokens[:min(len(tokens), n-have)], true); err != nil {
			return err
		}
	}
	return l.holds(n)
}

// holds is an error unless the context holds n tokens.
func (l *loaded) holds(n int) error {
	if last := l.f.last(l.memory, 0); int(last) != n-1 {
		return fmt.Errorf("llama.cpp has %d tokens in its context instead of %d", last+1, n)
	}
	return nil
}

// keep forgets all tokens but the first n.
func (l *loaded) keep(n int) error {
	if !l.f.remove(l.memory, 0, int32(n), -1) {
		return fmt.Errorf("llama.cpp does not forget the tokens after %d of this model", n)
	}
	return nil
}

// last is the logits after the last token.
func (l *loaded) last() ([]float32, error) {
	x := l.f.logits(l.context, -1)
	if x == nil {
		return nil, l.failed("has no logits")
	}
	return append([]float32(nil), unsafe.Slice(x, l.f.vocabSize(l.f.modelVocab(l.model)))...), nil
}

// embeddings are of n tokens, which the context has: one of all, or with the pooling 0 one of each.
func (l *loaded) embeddings(n int) (all []float32, err error) {
	add := func(x *float32) {
		if x == nil {
			err = l.failed("has no embeddings")
			return
		}
		all = append(all, unsafe.Slice(x, l.f.width(l.model))...)
	}
	if l.f.pooling(l.context) != 0 {
		add(l.f.embeddingOf(l.context, 0))
		return all, err
	}
	for i := range n {
		add(l.f.embedding(l.context, int32(i)))
	}
	return all, err
}
