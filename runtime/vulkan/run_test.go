package vulkan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmacc/tmacc/runtime/cache"
)

func TestRun(t *testing.T) {
	for _, o := range ways {
		d := open(t, o)
		x, y := filled(t, d, count(1000, 1)...), filled(t, d, count(1000, 7)...)
		ok(t, d.Run(adder(t, d), [3]int{16, 1, 1}, []*Buffer{x, y}, bytesOf(999, 3)))
		want := count(1000, 10)
		want[999] = 7 * 999 // beyond n
		if got := contents(t, y); !slices.Equal(got, want) {
			t.Errorf("%+v: %d, want %d", o, got, want)
		}
	}
}

// TestSequence: each command sees what the one before wrote, in each of several runs.
func TestSequence(t *testing.T) {
	d := open(t, Options{})
	p := adder(t, d)
	const n = 1000
	x, y, z := filled(t, d, count(n, 1)...), filled(t, d, count(n, 2)...), must[*Buffer](t)(d.HostBuffer(4*n))
	a, b := slices.Clone(contents(t, x)), slices.Clone(contents(t, y))
	var commands []Command
	for range 10 {
		commands = append(commands, add(p, x.All(), y.All(), n, 3), add(p, y.All(), x.All(), n, 5))
	}
	commands = append(commands, &Copy{To: z.All(), From: x.All()})
	s := must[*Sequence](t)(d.Record(commands, RecordOptions{Timed: d.Limits.Timestamp > 0}))
	const runs = 5
	for range runs {
		ok(t, s.Start()) // waits for the run before
	}
	ok(t, s.Wait())
	for range 10 * runs {
		for i := range a {
			b[i] += 3 * a[i]
			a[i] += 5 * b[i]
		}
	}
	if got := wordsOf(z.Bytes()); !slices.Equal(got, a) {
		t.Errorf("%d, want %d", got, a)
	}
	if d.Limits.Timestamp == 0 {
		return
	}
	times := must[[]time.Duration](t)(s.Times())
	var sum time.Duration
	for _, took := range times {
		if took < 0 {
			t.Errorf("a command took %v", took)
		}
		sum += took
	}
	if len(times) != len(commands) || sum <= 0 || sum > time.Minute {
		t.Errorf("%d commands took %v", len(times), sum)
	}
}

// TestTimes: a longer command takes longer.
func TestTimes(t *testing.T) {
	d := open(t, Options{})
	if d.Limits.Timestamp == 0 {
		_, err := d.Record(nil, RecordOptions{Timed: true})
		if err == nil || !strings.Contains(err.Error(), "has no timestamps") {
			t.Errorf("%v", err)
		}
		return
	}
	p := must[*Pipeline](t)(d.Pipeline(shader(t, "spin"), Layout{Buffers: 1, PushBytes: 4}))
	x := filled(t, d, 0)
	spin := func(groups int) Command { // llvmpipe ends loops after 65535 steps
		return &Dispatch{Pipeline: p, Groups: [3]int{groups}, Buffers: []Range{x.All()}, Push: bytesOf(60000)}
	}
	many := 100
	if d.Type != Software {
		many = 65535 // more than run at once
	}
	s := must[*Sequence](t)(d.Record([]Command{spin(1), spin(1), spin(many)}, RecordOptions{Timed: true}))
	if _, err := s.Times(); err == nil {
		t.Error("a sequence that has not run has times")
	}
	least := []time.Duration{time.Hour, time.Hour, time.Hour}
	for range 5 {
		ok(t, s.Run())
		for i, took := range must[[]time.Duration](t)(s.Times()) {
			least[i] = min(least[i], took)
		}
	}
	if least[2] < 2*least[1] {
		t.Errorf("1 and %d workgroups took %v", many, least[1:])
	}
	s = must[*Sequence](t)(d.Record([]Command{spin(1), spin(1), spin(many)}, RecordOptions{Timed: true, Total: true}))
	ok(t, s.Run())
	if all := must[[]time.Duration](t)(s.Times()); len(all) != 1 || all[0] < least[2]/2+least[1]/2 {
		t.Errorf("in all %v, of at least %v each", all, least)
	}
	want := uint32(0)
	for range 60000 {
		want = 1664525*want + 1013904223
	}
	if got := contents(t, x)[0]; got != want {
		t.Errorf("%d, want %d", got, want)
	}
}

func TestIndirect(t *testing.T) {
	d := open(t, Options{})
	x, y, groups := filled(t, d, count(256, 1)...), filled(t, d, make([]uint32, 256)...), filled(t, d, 0, 2, 1, 1)
	c := add(adder(t, d), x.All(), y.All(), 256, 1)
	c.Indirect = Range{groups, 4, 12}
	s := must[*Sequence](t)(d.Record([]Command{c}, RecordOptions{}))
	for _, n := range []uint32{2, 1, 0, 4} {
		ok(t, groups.Upload(4, bytesOf(n)))
		ok(t, s.Run())
	}
	for i, got := range contents(t, y) {
		if want := uint32(i * []int{3, 2, 1, 1}[i/64]); got != want {
			t.Errorf("%d: %d, want %d", i, got, want)
		}
	}
}

// TestConstants: specialization constants, another entry point, and subgroups of each size that a pipeline may ask for.
func TestConstants(t *testing.T) {
	d := open(t, Options{})
	y := filled(t, d, 0, 0, 0)
	run := func(l Layout) []uint32 {
		l.Entry, l.Buffers = "other", 1
		p := must[*Pipeline](t)(d.Pipeline(shader(t, "constants"), l))
		ok(t, d.Run(p, [3]int{1}, []*Buffer{y}, nil))
		return contents(t, y)
	}
	if got := run(Layout{}); got[0] != 10 || got[1] != 20 {
		t.Errorf("without constants: %d", got)
	}
	if got := run(Layout{Constants: map[uint32]uint32{7: 5}}); got[0] != 10 || got[1] != 5 {
		t.Errorf("with one constant: %d", got)
	}
	if got := run(Layout{Constants: map[uint32]uint32{7: 1 << 31, 0: 9}}); got[0] != 9 || got[1] != 1<<31 {
		t.Errorf("with both constants: %d", got)
	}
	for size := d.Subgroup.Min; size <= d.Subgroup.Max && d.Subgroup.Control; size *= 2 {
		full := d.Features.FullSubgroups && 64%size == 0
		if got := run(Layout{Subgroup: size, FullSubgroups: full}); int(got[2]) != size {
			t.Errorf("subgroups of %d, want %d", got[2], size)
		}
	}
}

// TestConcurrent: one device, many goroutines with sequences, copies and pipelines of their own.
func TestConcurrent(t *testing.T) {
	for _, o := range ways {
		d := open(t, o)
		code := shader(t, "add")
		var wait sync.WaitGroup
		for g := range 8 {
			wait.Go(func() {
				if err := work(d, code, uint32(g)); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
	}
}

// work makes things, uses them and frees them.
func work(d *Device, code []byte, seed uint32) error {
	const n = 5000
	p, err := d.Pipeline(code, Layout{Buffers: 2, PushBytes: 8})
	if err != nil {
		return err
	}
	defer p.Free()
	x, err := d.Buffer(4 * n)
	if err != nil {
		return err
	}
	defer x.Free()
	y, err := d.Buffer(4 * n)
	if err != nil {
		return err
	}
	defer y.Free()
	s, err := d.Record([]Command{add(p, x.All(), y.All(), n, seed)}, RecordOptions{})
	if err != nil {
		return err
	}
	defer s.Free()
	for i := range uint32(10) {
		if err := x.Upload(0, bytesOf(count(n, i)...)); err != nil {
			return err
		}
		if err := y.Upload(0, bytesOf(count(n, 1)...)); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		got := make([]byte, 4*n)
		if err := y.Download(0, got); err != nil {
			return err
		}
		if want := count(n, 1+i*seed); !slices.Equal(wordsOf(got), want) {
			return fmt.Errorf("goroutine %d, run %d: %d, want %d", seed, i, wordsOf(got)[:8], want[:8])
		}
	}
	return nil
}

// TestStored: what a driver made of a module is in the user's folder of files, for the next process.
func TestStored(t *testing.T) {
	t.Setenv(cache.EnvFolder, t.TempDir())
	var identities []string
	for range 2 {
		d, err := Open(Options{})
		if err != nil {
			t.Skip(err)
		}
		p := adder(t, d)
		identities = append(identities, string(p.identity(shader(t, "add"))))
		if p.Cached {
			t.Error("Cached is set before there was anything")
		}
		data := []byte("VkPipelineCacheHeaderVersionOne and what the driver keeps") // no header of this driver, so it is ignored
		ok(t, d.cache.Put([]byte(identities[0]), data))
		if p := adder(t, d); !p.Cached {
			t.Error("what was stored is not found")
		}
		ok(t, d.CacheError())
		files, _, err := d.cache.Size()
		if err != nil || files == 0 {
			t.Errorf("%d files, %v", files, err)
		}
		ok(t, d.cache.Clear())
		ok(t, d.Close())
	}
	if identities[0] != identities[1] {
		t.Errorf("identities %q", identities)
	}
	d := open(t, Options{NoCache: true})
	if adder(t, d); d.cache != nil {
		t.Error("NoCache has a cache")
	}
}

// TestIdentity: all that changes what a driver makes changes the identity.
func TestIdentity(t *testing.T) {
	identity := func(change func(d *Device, l *Layout), code string) string {
		d, l := &Device{Info: Info{identity: []byte("a device")}}, Layout{Entry: "main", Buffers: 1, PushBytes: 4}
		change(d, &l)
		return string((&Pipeline{d: d, layout: l}).identity([]byte(code)))
	}
	all := map[string]int{}
	for i, change := range []func(d *Device, l *Layout){
		func(d *Device, l *Layout) {},
		func(d *Device, l *Layout) { d.Info.identity = []byte("another device") },
		func(d *Device, l *Layout) { l.Entry = "other" },
		func(d *Device, l *Layout) { l.Buffers = 2 },
		func(d *Device, l *Layout) { l.PushBytes = 8 },
		func(d *Device, l *Layout) { l.Subgroup = 32 },
		func(d *Device, l *Layout) { l.FullSubgroups = true },
		func(d *Device, l *Layout) { l.Constants = map[uint32]uint32{1: 23} },
		func(d *Device, l *Layout) { l.Constants = map[uint32]uint32{12: 3} },
	} {
		for _, code := range []string{"code", "another code"} {
			id := identity(change, code)
			if j, again := all[id]; again {
				t.Errorf("changes %d and %d have one identity", i, j)
			}
			all[id] = i
		}
	}
}

// TestCacheError: a folder that cannot be used is no reason to fail.
func TestCacheError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(path, nil, 0o600))
	t.Setenv(cache.EnvFolder, path)
	d, err := Open(Options{})
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	adder(t, d)
	if d.CacheError() == nil {
		t.Error("a file is a folder")
	}
}

// TestShaders: the modules of testdata are what spirv-as makes, and spirv-val accepts them.
func TestShaders(t *testing.T) {
	if _, err := exec.LookPath("spirv-as"); err != nil {
		t.Skip(err, " (Debian: spirv-tools)")
	}
	texts := must[[]string](t)(filepath.Glob("testdata/*.spvasm"))
	for _, text := range texts {
		out := filepath.Join(t.TempDir(), "out.spv")
		if say, err := exec.Command("spirv-as", "--target-env", "spv1.5", text, "-o", out).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", text, err, say)
		}
		if say, err := exec.Command("spirv-val", "--target-env", "vulkan1.3", out).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", text, err, say)
		}
		committed := shader(t, strings.TrimSuffix(filepath.Base(text), ".spvasm"))
		if !bytes.Equal(committed[4*headerWords:], must[[]byte](t)(os.ReadFile(out))[4*headerWords:]) { // the header names spirv-as' version
			t.Errorf("%s is not current: testdata/README.md says how it is made", text)
		}
	}
	if len(texts) != 3 {
		t.Errorf("%d shaders", len(texts))
	}
}

// TestInspect: broken modules are refused or read, and none ends the program.
func TestInspect(t *testing.T) {
	code := shader(t, "add")
	m, err := inspect(code)
	if err != nil || !slices.Equal(m.capabilities, []uint32{1}) || !slices.Equal(m.entries, []string{"main"}) || m.local != [3]int{64, 1, 1} || m.bindings != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	first := 4 * slices.Index(wordsOf(code), 5<<16|opFunction)
	for at := range len(code) {
		if _, err := inspect(code[:at]); err == nil && at <= first {
			t.Errorf("the first %d bytes are a module", at)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		broken := slices.Clone(code)
		for range 1 + r.IntN(3) {
			broken[r.IntN(len(broken))] = byte(r.Uint32())
		}
		inspect(broken)
	}
}
