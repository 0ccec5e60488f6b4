// Package shaders compiles and runs shaders for tests: on the first Vulkan device there is, for which a software one will do.
package shaders

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/device"
)

// open has the validation layer watch, if it is installed and knows all that the device has: older ones know no cooperative matrices.
var open = sync.OnceValues(func() (*vulkan.Device, error) {
	d, err := vulkan.Open(vulkan.Options{Validate: true})
	if err == nil && len(d.Cooperative) == 0 {
		return d, nil
	}
	if err == nil {
		d.Close()
	}
	return vulkan.Open(vulkan.Options{})
})

// Device is the device that tests run on.
func Device(t testing.TB) *vulkan.Device {
	t.Helper()
	d, err := open()
	if none := (*vulkan.Unavailable)(nil); errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Controls are what the device has of what shaders may ask.
func Controls(d *vulkan.Device) spirv.Controls { return device.Controls(d) }

// Compiled is the shader of f.
func Compiled(t testing.TB, target spirv.Target, f *vir.Func, c spirv.Controls) *spirv.Shader {
	t.Helper()
	s, err := lower.Select(context.Background(), target, f)
	if err != nil {
		t.Fatalf("%v\n%v", err, f)
	}
	sh, err := target.Print(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// Runs says that a device has the subgroups and the cooperative matrices that a shader needs.
func Runs(d *vulkan.Device, sh *spirv.Shader) bool {
	for _, s := range sh.Shapes {
		from, sum := map[format.DType]string{format.I8: "s8", format.F16: "f16"}[s.From], map[format.DType]string{format.I8: "s32", format.F16: "f32"}[s.From]
		if !slices.ContainsFunc(d.Cooperative, func(c vulkan.Cooperative) bool {
			return c.M == s.Rows && c.N == s.Columns && c.K == s.Depth && c.A == from && c.B == from && c.C == sum && c.Result == sum
		}) {
			return false
		}
	}
	return sh.Subgroup == 0 || sh.Subgroup == Controls(d).Subgroup
}

// Long is the most instructions of functions that a software device compiles in a second or two.
const Long = 400

// begin is how many bytes behind the beginning of its buffer a pointer is.
const begin = 4096

// beginOf is that of pointer n of a shader: begin, and another number of lines for each.
func beginOf(n int) int64 { return int64(begin + 64*n) }

// Run runs a shader as vir.Eval runs its function: buffers of args are what it leaves.
func Run(d *vulkan.Device, sh *spirv.Shader, f *vir.Func, args []vir.Arg) error {
	c := CallOf(sh, f, args)
	if err := RunAll(d, sh.Binary(), c); err != nil {
		return err
	}
	for n, i := range sh.Buffers {
		copy(args[i].Buf, c.Buffers[n])
	}
	return nil
}

// Call is a call of a shader: workgroups, push constants, and the bytes of each buffer from beginOf it on, which it changes.
type Call struct {
	Layout  vulkan.Layout
	Groups  [3]int
	Push    []byte
	Buffers [][]byte
	sums    int // bytes of the buffer in which workgroups add up parts of sums, 0: there is none
}

// CallOf is the call of a shader with arguments of its function.
func CallOf(sh *spirv.Shader, f *vir.Func, args []vir.Arg) *Call {
	c := &Call{Layout: vulkan.Layout{Buffers: len(sh.Buffers), PushBytes: 4 * len(sh.Params), Subgroup: sh.Subgroup, FullSubgroups: sh.Subgroup > 0}, Groups: [3]int{1, 1, 1}}
	for _, i := range sh.Params {
		if f.Params[i].Int {
			c.Push = binary.LittleEndian.AppendUint32(c.Push, uint32(args[i].Int))
			continue
		}
		c.Push = binary.LittleEndian.AppendUint32(c.Push, uint32(beginOf(len(c.Buffers))))
		c.Buffers = append(c.Buffers, slices.Clone(args[i].Buf))
	}
	tiles := 1
	for i, count := range sh.Grid {
		c.Groups[i] = int(args[count].Int)
		tiles *= c.Groups[i]
	}
	if sh.Parts > 0 {
		c.Groups[len(sh.Grid)] = sh.Parts
		c.Layout.Buffers++
		c.sums = 4 * tiles * (sh.Sums + sh.EachSums*int(args[sh.Iterations].Int))
	}
	return c
}

// RunAll does calls of one module.
func RunAll(d *vulkan.Device, module []byte, calls ...*Call) error {
	p, err := d.Pipeline(module, calls[0].Layout)
	if err != nil {
		return err
	}
	defer p.Free()
	for _, c := range calls {
		if err := c.run(d, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Call) run(d *vulkan.Device, p *vulkan.Pipeline) error {
	var buffers []*vulkan.Buffer
	for i, data := range c.Buffers {
		b, err := d.Buffer(beginOf(i) + int64(len(data)&^3) + 8)
		if err != nil {
			return err
		}
		defer b.Free()
		if err := b.Upload(beginOf(i), data); err != nil {
			return err
		}
		buffers = append(buffers, b)
	}
	zeros := make([]byte, c.sums)
	if c.sums > 0 {
		b, err := d.Buffer(int64(c.sums))
		if err != nil {
			return err
		}
		defer b.Free()
		if err := b.Upload(0, zeros); err != nil {
			return err
		}
		buffers = append(buffers, b)
	}
	if err := d.Run(p, c.Groups, buffers, c.Push); err != nil {
		return err
	}
	if c.sums > 0 {
		sums := slices.Repeat([]byte{1}, c.sums)
		if err := buffers[len(c.Buffers)].Download(0, sums); err != nil {
			return err
		}
		if !bytes.Equal(sums, zeros) {
			return errors.New("workgroups that share sums leave more than zeros where they add them up")
		}
	}
	for i, data := range c.Buffers {
		if len(data) > 0 {
			if err := buffers[i].Download(beginOf(i), data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Targets are the targets with cooperative matrices, or all others: without matrices a function is the same shader on both.
func Targets(tiles bool) []spirv.Target {
	return slices.DeleteFunc(slices.Clone(spirv.Targets()), func(t spirv.Target) bool { return t.Machine().Has&spirv.Tiles != 0 != tiles })
}

// knowTiles says whether the tools of the Khronos Group know cooperative matrices. The ones of Debian 12 are older. With TMACC_TILES=1
// tests must find newer ones.
var knowTiles = sync.OnceValues(func() (bool, error) {
	out, err := exec.Command("spirv-val", "--version").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return true, nil // which a test that needs it says
	}
	old := bytes.Contains(out, []byte("v2022.")) || bytes.Contains(out, []byte("v2023.1 "))
	if err == nil && old && os.Getenv("TMACC_TILES") == "1" {
		err = errors.New("spirv-val does not know cooperative matrices: want version 2023.4 or newer")
	}
	return !old, err
})

// Accepted holds a module against the tools of the Khronos Group: spirv-val accepts it, and spirv-as makes the same
// words of its text. Tools that do not know cooperative matrices are not asked about them.
func Accepted(t testing.TB, sh *spirv.Shader) {
	t.Helper()
	binary := Valid(t, sh)
	if binary == "" {
		return
	}
	text, again := filepath.Join(filepath.Dir(binary), "m.spvasm"), filepath.Join(filepath.Dir(binary), "again.spv")
	if err := os.WriteFile(text, []byte(sh.Text()), 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, "spirv-as", "--preserve-numeric-ids", "--target-env", "vulkan1.3", text, "-o", again)
	data, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[8:12], sh.Binary()[8:12]) // who has made it
	if string(data) != string(sh.Binary()) {
		t.Error("spirv-as makes another module of the text")
	}
}

// Valid writes a module that spirv-val accepts to a file, and returns its name. It is "" if spirv-val is too old for it.
func Valid(t testing.TB, sh *spirv.Shader) string {
	t.Helper()
	if len(sh.Shapes) > 0 {
		if know, err := knowTiles(); !know || err != nil {
			t.Log("the module of matrices is not held against spirv-val, which is too old: ", err)
			if err != nil {
				t.Fatal(err)
			}
			return ""
		}
	}
	binary := filepath.Join(t.TempDir(), "m.spv")
	if err := os.WriteFile(binary, sh.Binary(), 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, "spirv-val", "--target-env", "vulkan1.3", binary)
	return binary
}

// Quick runs the tests of a package in a process in which a software device compiles shaders faster, and worse. It replaces the process. Call it first in TestMain.
func Quick() {
	const quick = "GALLIVM_PERF"
	if _, ok := os.LookupEnv(quick); ok || runtime.GOOS != "linux" {
		return
	}
	if self, err := os.Executable(); err == nil {
		syscall.Exec(self, os.Args, append(os.Environ(), quick+"=nopt")) // if that fails, tests are slow
	}
}

// tool runs a program of Debian's package spirv-tools.
func tool(t testing.TB, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs Debian's package spirv-tools: %v", err)
	}
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Grouped is a schedule whose calls are workgroups and, with lanes, whose vectors of rows are lanes of them.
func Grouped(trace schedule.Trace, loops []nest.Loop, lanes bool) (out schedule.Trace) {
	var lane []string
	to := map[string]string{}
	outside := 0
	for _, l := range loops {
		if l.Kind == nest.Outer {
			outside++
		}
		switch {
		case l.Root != "m":
		case l.Kind == nest.Outer:
			to[l.Name] = "group"
		case l.Kind == nest.Vector && lanes:
			to[l.Name] = "lane"
			lane = append(lane, l.Name)
		}
	}
	for _, s := range trace {
		switch x := s.(type) {
		case schedule.Bind:
			if to[x.Loop] != "" {
				x.To = to[x.Loop]
			}
			s = x
		case schedule.Reorder:
			order := slices.DeleteFunc(slices.Clone(x.Order), func(n string) bool { return slices.Contains(lane, n) })
			if len(order) < len(x.Order) {
				x.Order = slices.Insert(order, outside, lane...)
			}
			s = x
		}
		out = append(out, s)
	}
	return out
}
