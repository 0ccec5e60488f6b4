package shaders

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

const (
	leastCaught = 0.95
	shortest    = 160              // instructions of the shaders that are changed, at most
	patience    = 60 * time.Second // for a changed module
)

// TestMain runs changed modules instead of tests where TestMutants asks for it.
func TestMain(m *testing.M) {
	if Quick(); os.Getenv(mutantsChild) != "" {
		runMutants(os.Stdin, os.Stdout)
		return
	}
	chosen.Share()
	os.Exit(m.Run())
}

// mutantsChild is set in processes that run changed modules, which may end them, or never end.
const mutantsChild = "TMACC_MUTANTS_CHILD"

// TestMutants is a test of the tests: an instruction of a module is changed, and the product must change with it. It lists the
// changes that make no difference. Modules that spirv-val or the device refuses do not count. TMACC_SEED replays a run, TMACC_MUTANTS says how
// many changes to try.
func TestMutants(t *testing.T) {
	n := drawn.Env(t, "TMACC_MUTANTS", 400)
	seed := drawn.Env(t, "TMACC_SEED", 1)
	rng := rand.New(rand.NewSource(int64(seed)))
	all := mutated(t)
	r := &mutantRunner{}
	defer r.stop()
	count, survivors := map[string]int{}, []string{}
	for i := 0; count["valid"] < n && i < 4*n; i++ {
		o := all[i%len(all)]
		text, what := o.mutant(rng)
		module := assembled(t, text)
		if module == nil {
			count["refused"]++
			continue
		}
		fate := o.fate(t, r, module)
		if count["valid"]++; fate == "" {
			survivors = append(survivors, o.name+": "+what)
		}
		count[fate]++
	}
	slices.Sort(survivors)
	caught := count["valid"] - len(survivors)
	t.Logf("TMACC_SEED=%d: %d of %d changes caught %v; no difference from\n%s", seed, caught, count["valid"], count, strings.Join(survivors, "\n"))
	if count["valid"] < n || float64(caught) < leastCaught*float64(n) {
		t.Errorf("%d of %d changes caught, want %.0f %% of %d", caught, count["valid"], 100*leastCaught, n)
	}
}

// original is a module, calls of it, and what these leave in its buffers.
type original struct {
	name  string
	lines []string
	calls []*Call
	want  []*Call
}

// mutated are the short shaders of testdata.
func mutated(t *testing.T) (out []*original) {
	d, rng := Device(t), rand.New(rand.NewSource(1))
	paths, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		p := named(t, path)
		k, err := schedule.Compile(p, traceOf(t, path))
		if err != nil {
			t.Fatal(err)
		}
		f, err := lower.Vectorize(k.Nest, "matmul")
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range Targets(false) {
			s, err := lower.Select(context.Background(), target, f)
			if k.Nest.Holders > 0 || err == nil && len(s.Rows) > shortest {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			sh, err := target.Print(s, Controls(d))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, newOriginal(t, d, rng, name+" "+target.Machine().ShortName(), k, f, sh))
		}
	}
	return out
}

func newOriginal(t *testing.T, d *vulkan.Device, rng *rand.Rand, name string, k *schedule.Kernel, f *vir.Func, sh *spirv.Shader) *original {
	o := &original{name: name, lines: strings.Split(strings.TrimSpace(sh.Text()), "\n")}
	for i, kind := range []check.Kind{check.Uniform, check.Outlier, check.NotFinite, check.Zeros} {
		c := check.New(rng, k.Problem, (i+1)*k.Rows, (4-i)*k.Cols, wholeK(k.Problem, (2+i)*k.StepK), kind)
		c.OddNaNs()
		scales := c.Source.Scales
		if len(c.Source.Supers) > 0 { // the scales are integers
			scales = c.Source.Supers
		}
		groups := len(scales) / c.M
		for m := 0; m < c.M; m += 1 + rng.Intn(4) {
			odd := []float32{0x3p-24, -0x5p-22, -1, 0}[rng.Intn(4)] // some are not normal as f16
			for g := range groups {
				scales[m*groups+g] = odd
			}
		}
		_, err := c.Run(k, func(args []vir.Arg) error {
			o.calls = append(o.calls, CallOf(sh, f, args))
			return Run(d, sh, f, args)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	o.want = copiedCalls(o.calls)
	if err := RunAll(d, sh.Binary(), o.want...); err != nil {
		t.Fatal(err)
	}
	return o
}

func copiedCalls(calls []*Call) (out []*Call) {
	for _, c := range calls {
		x := *c
		x.Buffers = nil
		for _, b := range c.Buffers {
			x.Buffers = append(x.Buffers, slices.Clone(b))
		}
		out = append(out, &x)
	}
	return out
}

// fate is what the device makes of a module instead of o: "" if that is the same.
func (o *original) fate(t *testing.T, r *mutantRunner, module []byte) string {
	have, err := r.run(t, request{module, o.calls})
	switch {
	case err != nil:
		return err.Error()
	case have.Error != "":
		return "refused by the device"
	}
	for i, c := range o.want {
		if !slices.EqualFunc(c.Buffers, have.Calls[i].Buffers, bytes.Equal) {
			return "another result"
		}
	}
	return ""
}

var (
	instruction = regexp.MustCompile(`^(?:(%\d+) = )?(Op\w+)(?: (.*))?$`)
	idPattern   = regexp.MustCompile(`%\d+`)
)

// exchanged are operations on the same types. Most numbers are small, so that no exchange is of the kind of a number only.
var exchanged = [][]string{
	{"OpIAdd", "OpISub", "OpIMul"}, {"OpBitwiseAnd", "OpBitwiseOr", "OpBitwiseXor"}, {"OpShiftLeftLogical", "OpShiftRightLogical"},
	{"OpFAdd", "OpFSub", "OpFMul"}, {"OpULessThan", "OpUGreaterThanEqual"}, {"OpSLessThan", "OpSGreaterThanEqual"}, {"OpIEqual", "OpINotEqual"},
	{"OpUGreaterThan", "OpULessThanEqual"}, {"OpFOrdGreaterThan", "OpFOrdLessThanEqual"}, {"OpLogicalAnd", "OpLogicalOr"},
}

// mutant is the text of o with one change, and which.
func (o *original) mutant(rng *rand.Rand) (text, what string) {
	m := parseModule(o.lines)
	for {
		at := m.body[rng.Intn(len(m.body))]
		lines := slices.Clone(o.lines)
		change := []func(*rand.Rand, []string, int) bool{m.exchange, m.constant, m.operand, m.drop}[rng.Intn(4)]
		if before := lines[at]; change(rng, lines, at) && lines[at] != before {
			return strings.Join(lines, "\n") + "\n", before + "  ->  " + strings.ReplaceAll(lines[at], "\n", "; ")
		}
	}
}

// parsed is what changes need to know of a module.
type parsed struct {
	types     map[string]string // of results
	constants map[string]int64  // words
	body      []int             // the lines of a function that compute something which is used, and store it
	before    map[int][]string  // for each of them, results of the same block before it
	functions int               // the first line of functions
}

func parseModule(lines []string) *parsed {
	m := &parsed{types: map[string]string{}, constants: map[string]int64{}, before: map[int][]string{}}
	uses := map[string]int{}
	for _, l := range lines {
		if x := instruction.FindStringSubmatch(l); !strings.HasPrefix(x[2], "OpDecorate") && !strings.HasPrefix(x[2], "OpMember") {
			for _, id := range idPattern.FindAllString(x[3], -1) {
				uses[id]++
			}
		}
	}
	var block []string
	for i, l := range lines {
		x := instruction.FindStringSubmatch(l)
		id, op, args := x[1], x[2], strings.Fields(x[3])
		switch {
		case op == "OpFunction":
			m.functions = i
		case op == "OpLabel":
			block = nil
		case op == "OpConstant":
			var n int64
			fmt.Sscan(args[1], &n)
			m.types[id], m.constants[id] = args[0], n
		case m.functions > 0 && id != "" && op != "OpVariable" && op != "OpPhi":
			if m.types[id] = args[0]; uses[id] > 0 {
				m.body, m.before[i] = append(m.body, i), slices.Clone(block)
			}
			block = append(block, id)
		case op == "OpStore":
			m.body, m.before[i] = append(m.body, i), slices.Clone(block)
		}
	}
	return m
}

// exchange puts another operation in place of the one at line i.
func (m *parsed) exchange(rng *rand.Rand, lines []string, i int) bool {
	op := instruction.FindStringSubmatch(lines[i])[2]
	for _, ops := range exchanged {
		if slices.Contains(ops, op) {
			lines[i] = strings.Replace(lines[i], op+" ", ops[rng.Intn(len(ops))]+" ", 1)
			return true
		}
	}
	return false
}

// operands are where the IDs of line i begin that it reads.
func (m *parsed) operands(line string) (at [][]int) {
	x := instruction.FindStringSubmatchIndex(line)
	for _, loc := range idPattern.FindAllStringIndex(line[x[6]:], -1) {
		if at = append(at, []int{x[6] + loc[0], x[6] + loc[1]}); x[2] >= 0 && len(at) == 1 {
			at = at[:0] // its type
			x[2] = -1
		}
	}
	return at
}

// constant flips a bit of a constant that line i reads, for this line only: of a mask one that is set, of a small number a low one.
func (m *parsed) constant(rng *rand.Rand, lines []string, i int) bool {
	var all [][]int
	for _, loc := range m.operands(lines[i]) {
		if _, ok := m.constants[lines[i][loc[0]:loc[1]]]; ok {
			all = append(all, loc)
		}
	}
	if len(all) == 0 {
		return false
	}
	loc := all[rng.Intn(len(all))]
	id := lines[i][loc[0]:loc[1]]
	was, bits := uint32(m.constants[id]), 5
	if was >= 1<<bits {
		bits = 32
	}
	n := was ^ 1<<rng.Intn(bits)
	if strings.Contains(lines[i], "OpBitwiseAnd") && n > was {
		return false
	}
	lines[i] = lines[i][:loc[0]] + "%99999" + lines[i][loc[1]:]
	lines[m.functions] = fmt.Sprintf("%%99999 = OpConstant %s %d\n%s", m.types[id], n, lines[m.functions])
	return true
}

// operand lets line i read another value of the same type from the same block, or a constant.
func (m *parsed) operand(rng *rand.Rand, lines []string, i int) bool {
	at := m.operands(lines[i])
	if len(at) == 0 {
		return false
	}
	loc := at[rng.Intn(len(at))]
	id := lines[i][loc[0]:loc[1]]
	if _, ok := m.constants[id]; ok {
		return false
	}
	others := slices.DeleteFunc(slices.Clone(m.before[i]), func(x string) bool { return x == id || m.types[x] != m.types[id] })
	if len(others) == 0 {
		return false
	}
	lines[i] = lines[i][:loc[0]] + others[rng.Intn(len(others))] + lines[i][loc[1]:]
	return true
}

// drop lets the result of line i be one of what it reads, or 0. A store is gone.
func (m *parsed) drop(rng *rand.Rand, lines []string, i int) bool {
	x := instruction.FindStringSubmatch(lines[i])
	if x[1] == "" {
		lines[i] = "OpNop"
		return true
	}
	if strings.HasPrefix(x[2], "OpAccessChain") || x[2] == "OpCopyObject" {
		return false
	}
	t := m.types[x[1]]
	var same []string
	for _, loc := range m.operands(lines[i]) {
		if id := lines[i][loc[0]:loc[1]]; m.types[id] == t {
			same = append(same, id)
		}
	}
	from := "%99998"
	if len(same) > 0 {
		from = same[rng.Intn(len(same))]
	} else {
		lines[m.functions] = fmt.Sprintf("%%99998 = OpConstantNull %s\n%s", t, lines[m.functions])
	}
	lines[i] = fmt.Sprintf("%s = OpCopyObject %s %s", x[1], t, from)
	return true
}

// assembled is the module of a text, nil if the tools refuse it.
func assembled(t *testing.T, text string) []byte {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "m.spvasm"), filepath.Join(dir, "m.spv")
	if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"spirv-as", "--target-env", "vulkan1.3", in, "-o", out}, {"spirv-val", "--target-env", "vulkan1.3", out}} {
		err := exec.Command(args[0], args[1:]...).Run()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return nil
		}
		if err != nil {
			t.Skipf("needs Debian's package spirv-tools: %v", err)
		}
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type request struct {
	Module []byte
	Calls  []*Call
}

type answer struct {
	Error string
	Calls []*Call
}

// mutantRunner is a process that runs changed modules, as long as it lives.
type mutantRunner struct {
	cmd     *exec.Cmd
	to      io.WriteCloser
	encode  *gob.Encoder
	answers chan *answer // closed when the process ends
}

func (r *mutantRunner) start() error {
	r.cmd = exec.Command(os.Args[0])
	r.cmd.Env = append(os.Environ(), mutantsChild+"=1")
	to, err := r.cmd.StdinPipe()
	if err != nil {
		return err
	}
	from, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r.to, r.encode, r.answers = to, gob.NewEncoder(to), make(chan *answer)
	if err := r.cmd.Start(); err != nil {
		return err
	}
	go func(answers chan<- *answer) {
		defer close(answers)
		for d := gob.NewDecoder(from); ; {
			a := &answer{}
			if d.Decode(a) != nil {
				return
			}
			answers <- a
		}
	}(r.answers)
	return nil
}

func (r *mutantRunner) stop() {
	if r.cmd != nil {
		r.to.Close()
		r.cmd.Process.Kill()
		for range r.answers {
		}
		r.cmd.Wait()
		r.cmd = nil
	}
}

// run runs a module. The error says that it ends the process, or does not end.
func (r *mutantRunner) run(t *testing.T, q request) (*answer, error) {
	if r.cmd == nil {
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.encode.Encode(q); err != nil {
		t.Fatal(err)
	}
	select {
	case a, ok := <-r.answers:
		if ok {
			return a, nil
		}
		r.stop()
		return nil, errors.New("ends the process")
	case <-time.After(patience):
		r.stop()
		return nil, errors.New("does not end")
	}
}

// runMutants answers requests until there are no more.
func runMutants(from io.Reader, to io.Writer) {
	decode, encode := gob.NewDecoder(from), gob.NewEncoder(to)
	d, err := open()
	for {
		var q request
		if decode.Decode(&q) != nil {
			return
		}
		if err == nil {
			err = RunAll(d, q.Module, q.Calls...)
		}
		a := answer{Calls: q.Calls}
		if err != nil {
			a.Error = err.Error()
		}
		if encode.Encode(a) != nil || errors.Is(err, vulkan.ErrLost) {
			return
		}
		err = nil
	}
}
