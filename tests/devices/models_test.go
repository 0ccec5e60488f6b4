// Package devices runs whole models on a device of Vulkan.
package devices

import (
	"context"
	"errors"
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
)

// TestMain makes this test its own worker, on devices and on the CPU.
func TestMain(m *testing.M) {
	worker.ServeDevice(&device.Server{})
	worker.Main()
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
// has gone back, and in a copy of it.
func TestModels(t *testing.T) {
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	target, _ := spirv.ByName("spirv")
	for _, path := range files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			want := logits(t, f, nil)
			got := logits(t, f, &kernels.Device{Here: here, Target: target})
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("logits after call %d differ: %v..., want %v...", i, got[i][:4], want[i][:4])
				}
			}
		})
	}
}

// opened is a small model on a device, or with nil on the CPU, and a session.
func opened(t *testing.T, on *kernels.Device) (*model.Model, *model.Session) {
	return openedFor(t, on, model.Options{Context: 64})
}

func openedFor(t *testing.T, on *kernels.Device, opt model.Options) (*model.Model, *model.Session) {
	t.Helper()
	p, err := kernels.New(context.Background(), kernels.Options{Device: on})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := model.Open("../../testdata/gguf/llama-q4_0.gguf", p, opt)
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
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	target, _ := spirv.ByName("spirv")
	var all [][]float32
	for _, on := range []*kernels.Device{nil, {Here: here, Target: target}} {
		m, s := opened(t, on)
		var logits []float32
		forward := func(tokens ...int32) error {
			item := []model.Item{{Session: s, Tokens: tokens}}
			err := m.Forward(context.Background(), item)
			logits = append(logits, item[0].Logits...)
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
		all = append(all, logits)
	}
	if !slices.Equal(all[0], all[1]) {
		t.Error("other logits after a loss")
	}
}

// TestRoom: a model that is larger than the device's memory is refused before anything is there, by an error that says how much is missing. The
// embedding, whose rows the host reads, needs none. A model whose cache does not fit has its steps by products, and says so from the beginning.
func TestRoom(t *testing.T) {
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	open := func(limit int64) (*model.Model, error) {
		d, err := vulkan.Open(vulkan.Options{MemoryLimit: limit})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		small := *here
		small.On = &rundevice.One{Device: d}
		target, _ := spirv.ByName("spirv")
		p, err := kernels.New(context.Background(), kernels.Options{Device: &kernels.Device{Here: &small, Target: target}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return model.Open("../../testdata/gguf/llama-q4_0.gguf", p, model.Options{})
	}
	if _, err := open(1 << 18); err == nil || !strings.Contains(err.Error(), "are missing") {
		t.Errorf("%v", err)
	}
	m, err := open(5 << 20) // which the weights need, without the embedding
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for range 2 {
		if err := m.Resident(); err == nil || !strings.Contains(err.Error(), "option Context: ") {
			t.Errorf("%v", err)
		}
		s, err := m.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Forward(context.Background(), []model.Item{{Session: s, Tokens: []int32{1}}}); err != nil {
			t.Error(err)
		}
		s.Close()
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

// counted is a device that counts submissions of steps, and products that are computed one at a time.
type counted struct {
	abi.Device
	steps, products *int
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
	r, err := x.Device.Open(name, v, l)
	if err != nil {
		return nil, err
	}
	return &countedRunner{r.(*rundevice.Runner), x}, nil
}

func (x *countedRunner) Load(tiles []byte, tileBytes int) (abi.Loaded, error) {
	w, err := x.Runner.Load(tiles, tileBytes)
	return &countedMatrix{w, x.counted}, err
}

func (x *countedMatrix) Multiply(c *abi.DeviceCall) error {
	*x.products++
	return x.Loaded.Multiply(c)
}

func (x *countedRunner) Record(steps []abi.Step) (abi.Recording, error) {
	for _, s := range steps {
		if m, ok := s.(*abi.Multiplying); ok {
			m.Matrix = m.Matrix.(*countedMatrix).Loaded
		}
	}
	return x.Runner.Record(steps)
}

func (x *countedRunner) Run(r abi.Recording) error {
	*x.steps++
	return x.Runner.Run(r)
}

// TestPrompts: a prompt is one submission for each part of it, once the first part has been compared. It has the CPU's bits in the middle of a block, across blocks, for
// all of its tokens, for hidden states, and for none; and so does what follows it.
func TestPrompts(t *testing.T) {
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	steps, products := 0, 0
	counts := *here
	counts.On = counted{here.On, &steps, &products}
	target, _ := spirv.ByName("spirv")
	var all [][]float32
	for _, on := range []*kernels.Device{nil, {Here: &counts, Target: target}} {
		m, s := openedFor(t, on, model.Options{Context: 400, Chunk: 100})
		tokens := func(n int) (all []int32) {
			for i := range n {
				all = append(all, int32(1+(s.Len()+i)*37%(m.Config().Vocabulary-1)))
			}
			return all
		}
		for i, x := range []model.Item{{Tokens: tokens(3)}, {Tokens: tokens(1)}, {Tokens: tokens(9)}, {Tokens: tokens(160), Want: model.WantNone}, {Tokens: tokens(70), Want: model.WantAll},
			{Tokens: tokens(2), Want: model.WantAll, WantHidden: true}, {Tokens: tokens(1)}, {Tokens: tokens(130)}} {
			x.Session = s
			items, before, multiplied := []model.Item{x}, steps, products
			if err := m.Forward(context.Background(), items); err != nil {
				t.Fatal(err)
			}
			all = append(all, slices.Concat(items[0].Logits, items[0].Hidden))
			if want := (len(x.Tokens) + 99) / 100; on != nil && (steps-before != want || i > 1 && products > multiplied || m.Resident() != nil) {
				t.Errorf("call %d: %d submissions of %d, %d products, %v", i, steps-before, want, products-multiplied, m.Resident())
			}
		}
	}
	for i := range len(all) / 2 {
		if !slices.Equal(all[i], all[len(all)/2+i]) {
			t.Errorf("other results of call %d", i)
		}
	}
}

// TestFirstStep: a device whose first step has other bits than the CPU computes no more of them, and spoils no token.
func TestFirstStep(t *testing.T) {
	here, err := device.Here("")
	if err != nil {
		t.Skip(err)
	}
	wrong := *here
	wrong.On = idle{here.On}
	target, _ := spirv.ByName("spirv")
	var all [][]float32
	for _, on := range []*kernels.Device{nil, {Here: &wrong, Target: target}} {
		m, s := opened(t, on)
		for token := range int32(3) {
			item := []model.Item{{Session: s, Tokens: []int32{1 + token}}}
			if err := m.Forward(context.Background(), item); err != nil {
				t.Fatal(err)
			}
			all = append(all, slices.Clone(item[0].Logits))
		}
		if err := m.Resident(); on != nil && (err == nil || !strings.Contains(err.Error(), "other bits")) {
			t.Errorf("%v", err)
		}
	}
	for i := range 3 {
		if !slices.Equal(all[i], all[3+i]) {
			t.Errorf("other logits of token %d", i)
		}
	}
}
