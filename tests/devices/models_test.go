// Package devices runs whole models on a device of Vulkan.
package devices

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cache"
	rundevice "github.com/tmacc/tmacc/runtime/device"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/search/device"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

// TestMain makes this test its own worker, on devices and on the CPU.
func TestMain(m *testing.M) {
	worker.ServeDevice(&device.Server{})
	worker.Main()
	chosen.Share()
	folder, err := os.MkdirTemp("", "tmacc-cache-")
	if err == nil {
		err = os.Setenv(cache.EnvFolder, folder)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// files are the models: the one in the command and two in the repository, or with TMACC_LONG=1 all in the folder that TMACC_DATA names.
func files(t *testing.T) []string {
	if os.Getenv("TMACC_LONG") == "" {
		return []string{"../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf", "../../testdata/gguf/llama-q4_0.gguf", "../../testdata/gguf/qwen3-q2_0.gguf"}
	}
	folder := os.Getenv("TMACC_DATA")
	if folder == "" {
		t.Skip("TMACC_DATA names no folder of GGUF models")
	}
	var all []string
	for _, pattern := range []string{"*.gguf", "*/*.gguf"} {
		some, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	all = slices.DeleteFunc(all, func(path string) bool { return !isModel(path) })
	if len(all) == 0 {
		t.Fatalf("no GGUF models in %s", folder)
	}
	return all
}

// isModel says that a file has a model that this version runs, and not blocks or a vocabulary only.
func isModel(path string) bool {
	f, err := gguf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return model.Check(f, model.Options{}) == nil
}

// TestModels: a model on a device has the logits that it has on the CPU, bit for bit: of a prompt, of tokens that follow beyond a block of the cache, after a session
// has gone back, and in a copy of it. One model in three is drawn, or all run with TMACC_LONG=1.
func TestModels(t *testing.T) {
	on := here(t)
	for _, path := range drawn.Some(drawn.New(t), 3, files(t)) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			want := logits(t, f, nil)
			got := logits(t, f, on)
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("logits after call %d differ: %v..., want %v...", i, got[i][:4], want[i][:4])
				}
			}
		})
	}
}

// here is the device that tests run on. Without one the test is skipped.
func here(t *testing.T) *kernels.Device {
	t.Helper()
	x, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	target, _ := spirv.ByName("spirv")
	return &kernels.Device{Here: x, Target: target}
}

// with is on, with another device to compute.
func with(on *kernels.Device, d abi.Device) *kernels.Device {
	x := *on.Here
	x.On = d
	return &kernels.Device{Here: &x, Target: on.Target}
}

// counting is on, and what it is asked for from now on.
func counting(on *kernels.Device) (*kernels.Device, *counts) {
	seen := &counts{}
	return with(on, counted{on.On, seen}), seen
}

// opened is a small model on a device, or with nil on the CPU, and a session.
func opened(t *testing.T, on *kernels.Device) (*model.Model, *model.Session) {
	return openedFor(t, on, model.Options{Context: 64})
}

func openedFor(t *testing.T, on *kernels.Device, opt model.Options) (*model.Model, *model.Session) {
	t.Helper()
	return openedFile(t, small, on, opt)
}

// small is the file of a small model.
const small = "../../testdata/gguf/llama-q4_0.gguf"

// changed is a copy of a file of a model, in which a number of the metadata is another one.
func changed(t *testing.T, path, key string, value uint32) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte(key))
	if at < 0 {
		t.Fatalf("%s has no %s", path, key)
	}
	const typeBytes = 4
	binary.LittleEndian.PutUint32(data[at+len(key)+typeBytes:], value)
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func openedFile(t *testing.T, path string, on *kernels.Device, opt model.Options) (*model.Model, *model.Session) {
	t.Helper()
	return openedBy(t, on, func(k model.Kernels) (*model.Model, error) { return model.Open(path, k, opt) })
}

// openedBy is a model that open opens with the kernels of a device, or with nil of the CPU, and a session.
func openedBy(t *testing.T, on *kernels.Device, open func(k model.Kernels) (*model.Model, error)) (*model.Model, *model.Session) {
	t.Helper()
	p, err := kernels.New(context.Background(), kernels.Options{Device: on})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := open(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return m, s
}

// both computes on the CPU, where on is nil, and on a device, and wants the same results of each call, bit for bit.
func both(t *testing.T, on *kernels.Device, compute func(on *kernels.Device) [][]float32) {
	t.Helper()
	want, got := compute(nil), compute(on)
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	for i := range want {
		if !slices.EqualFunc(got[i], want[i], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Errorf("other bits in result %d", i)
		}
	}
}

// forward computes a batch, and returns the results of each item.
func forward(t *testing.T, m *model.Model, items ...model.Item) (all [][]float32) {
	t.Helper()
	if err := m.Forward(context.Background(), items); err != nil {
		t.Fatal(err)
	}
	for _, x := range items {
		all = append(all, slices.Concat(x.Logits, x.Hidden))
	}
	return all
}

// batch is the next tokens of sessions, some of each.
func batch(m *model.Model, want model.Want, sessions []*model.Session, lengths ...int) (items []model.Item) {
	for i, s := range sessions {
		var tokens []int32
		for j := range lengths[i] {
			tokens = append(tokens, int32(1+(s.Len()+j+i)*37%(m.Config().Vocabulary-1)))
		}
		if len(tokens) > 0 {
			items = append(items, model.Item{Session: s, Tokens: tokens, Want: want})
		}
	}
	return items
}

// logits are the logits after each call. The products run on a device unless it is nil.
func logits(t *testing.T, f *gguf.File, on *kernels.Device) (all [][]float32) {
	t.Helper()
	said, onCPU := 0, 0
	p, err := kernels.New(context.Background(), kernels.Options{Device: on, Say: func(e kernels.Event) {
		if _, ok := e.(kernels.OnCPU); ok {
			said++
			t.Log(e)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := model.New(f, p, model.Options{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, x := range p.Made() {
		if on != nil && x.Product.Device() == "" {
			onCPU++
		}
	}
	if onCPU != said {
		t.Errorf("%d products run on the CPU, of %d it was said", onCPU, said)
	}
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	forward := func(s *model.Session, tokens ...int32) {
		item := []model.Item{{Session: s, Tokens: tokens}}
		if err := m.Forward(context.Background(), item); err != nil {
			t.Fatal(err)
		}
		all = append(all, slices.Clone(item[0].Logits))
	}
	greedy := func(s *model.Session, n int) {
		for range n {
			last := all[len(all)-1]
			forward(s, int32(slices.Index(last, slices.Max(last))))
		}
	}
	prompt := make([]int32, 61)
	for i := range prompt {
		prompt[i] = int32(1 + 37*i%(m.Config().Vocabulary-1))
	}
	forward(s, prompt...)
	greedy(s, 6)
	other, err := s.Copy()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := s.Truncate(context.Background(), 62); err != nil {
		t.Fatal(err)
	}
	forward(s, 5)
	greedy(s, 3)
	forward(other, 7)
	if on != nil && os.Getenv("TMACC_LONG") == "" {
		if err := m.Resident(); err != nil || said > 0 {
			t.Errorf("steps: %v; %d products run on the CPU", err, said)
		}
	} else if on != nil {
		t.Logf("steps: %v", m.Resident())
	}
	return all
}

// TestLoss: a device that is lost in a step, or in a prompt between steps, costs the call. The session stays as it was, and the next call has the CPU's logits.
func TestLoss(t *testing.T) {
	both(t, here(t), func(on *kernels.Device) (all [][]float32) {
		m, s := opened(t, on)
		forward := func(tokens ...int32) error {
			item := []model.Item{{Session: s, Tokens: tokens}}
			err := m.Forward(context.Background(), item)
			if err == nil {
				all = append(all, slices.Clone(item[0].Logits))
			}
			return err
		}
		for _, lost := range [][]int32{nil, {1}, {2, 3}} {
			if on != nil && lost != nil {
				d, err := rundevice.Shared("")
				if err != nil {
					t.Fatal(err)
				}
				d.LoseAfter(0)
				n := s.Len()
				if err := forward(lost...); !errors.Is(err, vulkan.ErrLost) || s.Len() != n || m.Resident() != nil {
					t.Fatalf("%v, %d tokens, %v", err, s.Len(), m.Resident())
				}
			}
			if err := forward(1); err != nil || on != nil && m.Resident() != nil {
				t.Fatal(err, m.Resident())
			}
		}
		return all
	})
}

// TestRoom: a model that is larger than the device's memory, with the buffers of its products, is refused before a matrix is there, by an error that says how much is missing. The
// embedding, whose rows the host reads, needs none. A model whose session does not fit has its steps by products, and says from the beginning how much is missing for it. So does
// no step that begins fail for want of memory.
func TestRoom(t *testing.T) {
	on := here(t)
	refused, byProducts, resident := 0, 0, 0
	limits := []int64{256 << 10, 1 << 20, 2 << 20}
	for x := int64(3 << 20); x <= 8<<20; x += 512 << 10 { // a session takes 768 KiB
		limits = append(limits, x)
	}
	const plenty = 64 << 20
	for _, limit := range append(limits, plenty) {
		if resident > 0 && limit < plenty {
			continue // there was room in less
		}
		d, err := vulkan.Open(vulkan.Options{MemoryLimit: limit})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		limited, seen := counting(with(on, &rundevice.One{Device: d}))
		p, err := kernels.New(context.Background(), kernels.Options{Device: limited})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		m, err := model.Open("../../testdata/gguf/llama-q4_0.gguf", p, model.Options{Chunk: 64})
		if err != nil {
			if refused++; !strings.Contains(err.Error(), "are missing") || byProducts+resident > 0 || seen.loads > 0 {
				t.Errorf("of %d bytes, with %d matrices on the device: %v", limit, seen.loads, err)
			}
			continue
		}
		defer m.Close()
		for range 2 {
			switch err := m.Resident(); {
			case err == nil:
				resident++
			case !strings.Contains(err.Error(), "option Context: ") || !strings.Contains(err.Error(), "are missing") || resident > 0:
				t.Errorf("of %d bytes: %v", limit, err)
			default:
				byProducts++
			}
			s, err := m.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Forward(context.Background(), []model.Item{{Session: s, Tokens: make([]int32, 64)}}); err != nil {
				t.Errorf("of %d bytes: %v", limit, err)
			}
			s.Close()
		}
	}
	if refused == 0 || byProducts == 0 || resident == 0 {
		t.Errorf("%d models refused, %d by products, %d with resident steps", refused, byProducts, resident)
	}
}

// idle is a device that computes no steps, and says that it has.
type idle struct{ abi.Device }

type idleRunner struct{ *rundevice.Runner }

func (x idle) Open(name string, v *abi.Variant, l *format.Layout) (abi.Runner, error) {
	r, err := x.Device.Open(name, v, l)
	if err != nil {
		return nil, err
	}
	return &idleRunner{r.(*rundevice.Runner)}, nil
}

func (x *idleRunner) Run(abi.Recording) error { return nil }

// counted is a device that counts submissions of steps, products that are computed one at a time, kernels for lists of matrices that are asked for, and the
// operators and the blocks by such lists of the steps that it has recorded last.
type counted struct {
	abi.Device
	*counts
}

type counts struct {
	steps, products, lists, loads, rooms int
	listed                               int // blocks that are multiplied by a matrix of a list, of the last recording
	operators                            map[string]int
	ends                                 map[abi.Ending]int // products of the last recording that end in operators
}

type countedRunner struct {
	*rundevice.Runner
	counted
}

type countedMatrix struct {
	abi.Loaded
	counted
}

func (x counted) Open(name string, v *abi.Variant, l *format.Layout) (abi.Runner, error) {
	if of := v.Listed; of != nil {
		v.Listed = func(cols int) ([]abi.Shader, error) {
			x.lists++
			return of(cols)
		}
	}
	r, err := x.Device.Open(name, v, l)
	if err != nil {
		return nil, err
	}
	return &countedRunner{r.(*rundevice.Runner), x}, nil
}

func (x *countedRunner) Load(tiles []byte, tileBytes int) (abi.Loaded, error) {
	x.loads++
	w, err := x.Runner.Load(tiles, tileBytes)
	return &countedMatrix{w, x.counted}, err
}

func (x *countedRunner) Stack(tiles [][]byte, tileBytes int) ([]abi.Loaded, int, error) {
	all, apart, err := x.Runner.Stack(tiles, tileBytes)
	for i := range all {
		x.loads++
		all[i] = &countedMatrix{all[i], x.counted}
	}
	return all, apart, err
}

func (x *countedMatrix) Multiply(c *abi.DeviceCall) error {
	x.products++
	return x.Loaded.Multiply(c)
}

func (x *countedRunner) Record(steps []abi.Step) (abi.Recording, error) {
	x.operators, x.ends, x.listed = map[string]int{}, map[abi.Ending]int{}, 0
	for _, s := range steps {
		switch s := s.(type) {
		case *abi.Multiplying:
			s.Matrix = s.Matrix.(*countedMatrix).Loaded
			if s.End != (abi.Ending{}) {
				x.ends[s.End]++
			}
			if s.List.Memory != nil {
				x.listed += s.Runs[0].Blocks
			}
		case *abi.Operating:
			x.operators[s.Operator.Name]++
		}
	}
	return x.Runner.Record(steps)
}

func (x *countedRunner) Room() (int64, error) {
	x.rooms++
	return x.Runner.Room()
}

func (x *countedRunner) Run(r abi.Recording) error {
	x.steps++
	return x.Runner.Run(r)
}

// caches are types of keys and values, by the names that the command has for them.
var caches = map[string]model.CacheType{"f16": model.CacheF16, "q8": model.CacheQ8}

// TestPrompts: a prompt is one submission for each part of it, once the first part has been compared. It has the CPU's bits in the middle of a block, across blocks, for
// all of its tokens, for hidden states, and for none; and so does what follows it. No kernel is compiled that only models with experts use.
func TestPrompts(t *testing.T) {
	for name, cache := range caches {
		t.Run(name, func(t *testing.T) { promptsWith(t, cache) })
	}
}

func promptsWith(t *testing.T, cache model.CacheType) {
	on, seen := counting(here(t))
	both(t, on, func(on *kernels.Device) (all [][]float32) {
		m, s := openedFor(t, on, model.Options{Context: 400, Chunk: 100, Cache: cache})
		tokens := func(n int) (all []int32) {
			for i := range n {
				all = append(all, int32(1+(s.Len()+i)*37%(m.Config().Vocabulary-1)))
			}
			return all
		}
		for i, x := range []model.Item{{Tokens: tokens(3)}, {Tokens: tokens(1)}, {Tokens: tokens(9)}, {Tokens: tokens(160), Want: model.WantNone}, {Tokens: tokens(70), Want: model.WantAll},
			{Tokens: tokens(2), Want: model.WantAll, WantHidden: true}, {Tokens: tokens(1)}, {Tokens: tokens(130)}} {
			x.Session = s
			before := *seen
			all = append(all, forward(t, m, x)...)
			if want := (len(x.Tokens) + 99) / 100; on != nil && (seen.steps-before.steps != want || i > 1 && seen.products > before.products || m.Resident() != nil) {
				t.Errorf("call %d: %d submissions of %d, %d products, %v", i, seen.steps-before.steps, want, seen.products-before.products, m.Resident())
			}
		}
		return all
	})
	if seen.lists > 0 {
		t.Errorf("%d kernels are compiled for lists of matrices, which only models with experts have", seen.lists)
	}
}

// TestLong: a session of more than 16 blocks has the CPU's bits, of a prompt and of the tokens that follow. A token merges its blocks by 16 and by 4.
func TestLong(t *testing.T) {
	const positions, prompt, more = 2048, 1400, 3
	on, seen := counting(here(t))
	path := changed(t, small, "llama.context_length", positions)
	both(t, on, func(on *kernels.Device) (all [][]float32) {
		m, s := openedFile(t, path, on, model.Options{Context: positions})
		forward := func(tokens ...int32) {
			all = append(all, forward(t, m, model.Item{Session: s, Tokens: tokens})...)
		}
		tokens := make([]int32, prompt)
		for i := range tokens {
			tokens[i] = int32(1 + 37*i%(m.Config().Vocabulary-1))
		}
		forward(tokens...)
		for range more {
			last := all[len(all)-1]
			forward(int32(slices.Index(last, slices.Max(last))))
		}
		if on != nil {
			// 22 blocks: the first, and 16, 4 and 1 that are merged
			layers := m.Config().Layers
			want := map[string]int{"merge_16": layers, "merge_4": layers, "merge": layers}
			for name, n := range want {
				if seen.operators[name] != n || m.Resident() != nil {
					t.Errorf("a token has %d dispatches of %s, want %d; %v", seen.operators[name], name, n, m.Resident())
				}
			}
		}
		forward(1, 2, 3)
		return all
	})
}

// TestBatches: tokens of several sessions are one submission, in any order and mixed with parts of prompts, and have the CPU's bits.
func TestBatches(t *testing.T) {
	for name, cache := range caches {
		t.Run(name, func(t *testing.T) { batchesWith(t, cache) })
	}
}

func batchesWith(t *testing.T, cache model.CacheType) {
	on, seen := counting(here(t))
	// Each call has tokens of some of three sessions: how many, of each that begins or goes on.
	calls := [][3]int{{1, 2}, {1}, {0, 3}, {50, 1, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {1, 70, 1}, {1}, {0, 0, 1}, {1, 1, 1}}
	both(t, on, func(on *kernels.Device) (all [][]float32) {
		m, s := openedFor(t, on, model.Options{Context: 200, Chunk: 100, Cache: cache})
		sessions := []*model.Session{s}
		for len(sessions) < 3 {
			more, err := m.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			defer more.Close()
			sessions = append(sessions, more)
		}
		for call, x := range calls {
			items := batch(m, []model.Want{model.WantLast, model.WantAll}[call%2], []*model.Session{sessions[call%3], sessions[(call+1)%3], sessions[(call+2)%3]}, x[:]...)
			before := *seen
			all = append(all, forward(t, m, items...)...)
			if on != nil && call > 3 && (seen.steps-before.steps != 1 || seen.products > before.products || m.Resident() != nil) {
				t.Errorf("call %d: %d submissions, %d products, %v", call, seen.steps-before.steps, seen.products-before.products, m.Resident())
			}
		}
		return all
	})
}

// TestSeats: a device that has room for the keys and values of one session only computes the tokens of two by products, and of one by itself.
func TestSeats(t *testing.T) {
	const positions = 16384 // of a session, which take more memory than everything else
	on := here(t)
	path := changed(t, small, "llama.context_length", positions)
	limit := int64(0)
	both(t, on, func(on *kernels.Device) (all [][]float32) {
		seen := &counts{}
		if on != nil {
			d, err := vulkan.Open(vulkan.Options{MemoryLimit: limit})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			on, seen = counting(with(on, &rundevice.One{Device: d}))
		}
		m, s := openedFile(t, path, on, model.Options{Context: positions, Chunk: 32})
		limit = m.Memory().Weights + m.Memory().Cache*7/4
		other, err := m.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		for call, sessions := range [][]*model.Session{{s}, {s, other}, {other}, {s, other}, {s}} {
			var items []model.Item
			for i, x := range sessions {
				items = append(items, model.Item{Session: x, Tokens: []int32{int32(1 + call + i)}})
			}
			before := *seen
			all = append(all, forward(t, m, items...)...)
			if on == nil {
				continue
			}
			if (seen.steps-before.steps == 1) != (len(sessions) == 1) || m.Resident() != nil || m.ResidentSessions() != min(call, 1) {
				t.Errorf("call %d of %d sessions: %d submissions, %d sessions at most, %v", call, len(sessions), seen.steps-before.steps, m.ResidentSessions(), m.Resident())
			}
			if asked := seen.rooms - before.rooms; call > 1 && asked > 0 {
				t.Errorf("call %d asks %d times what room there is", call, asked)
			}
		}
		return all
	})
}

// TestPartlyRotated: a model that rotates a part of each head has steps on the device, with the CPU's bits, also of heads
// that are several panels of 8 bits.
func TestPartlyRotated(t *testing.T) {
	on := here(t)
	path := changed(t, "../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf", "rope.dimension_count", 32)
	both(t, on, func(on *kernels.Device) (all [][]float32) {
		m, s := openedFile(t, path, on, model.Options{Context: 64, Cache: model.CacheQ8})
		if have := m.Config().HeadSize; have <= 32 {
			t.Fatalf("heads have %d elements", have)
		}
		for _, tokens := range [][]int32{{1, 2, 3}, {4}, {5}, {6, 7}} {
			all = append(all, forward(t, m, model.Item{Session: s, Tokens: tokens})...)
		}
		if err := m.Resident(); on != nil && err != nil {
			t.Error(err)
		}
		return all
	})
}

// TestFirstStep: a device whose first step has other bits than the CPU computes no more of them, and spoils no token.
func TestFirstStep(t *testing.T) {
	on := here(t)
	both(t, with(on, idle{on.On}), func(on *kernels.Device) (all [][]float32) {
		m, s := opened(t, on)
		for token := range int32(3) {
			all = append(all, forward(t, m, model.Item{Session: s, Tokens: []int32{1 + token}})...)
		}
		if err := m.Resident(); on != nil && (err == nil || !strings.Contains(err.Error(), "other bits")) {
			t.Errorf("%v", err)
		}
		return all
	})
}
