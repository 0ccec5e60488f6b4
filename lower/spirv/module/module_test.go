package module

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// small is a shader that stores a word.
func small() *Module {
	m := New()
	m.Declare(OpCapability, CapabilityShader)
	m.Declare(OpCapability, CapabilityShader)
	m.Declare(OpMemoryModel, AddressingModelLogical, MemoryModelGLSL450)
	main := m.NewID()
	m.Declare(OpExecutionMode, main, ExecutionModeLocalSize, 8, 1, 1)
	m.Declare(OpName, append([]uint32{main}, String("say \"no\"\\")...)...)
	word := m.Type(OpTypeInt, 32, 0)
	void := m.Type(OpTypeVoid)
	array := m.NewType(OpTypeRuntimeArray, word)
	m.Declare(OpDecorate, array, DecorationArrayStride, 4)
	block := m.NewType(OpTypeStruct, array)
	m.Declare(OpDecorate, block, DecorationBlock)
	m.Declare(OpMemberDecorate, block, 0, DecorationOffset, 0)
	v := m.Variable(m.Type(OpTypePointer, StorageClassStorageBuffer, block), StorageClassStorageBuffer)
	m.Declare(OpDecorate, v, DecorationDescriptorSet, 0)
	m.Declare(OpDecorate, v, DecorationBinding, 0)
	m.Function(main, void, m.Type(OpTypeFunction, void))
	m.Label(m.NewID())
	zero := m.Constant(OpConstant, word, 0)
	scope := m.Constant(OpConstant, word, ScopeWorkgroup)
	m.Do(OpControlBarrier, scope, scope, m.Constant(OpConstant, word, MemorySemanticsAcquireRelease|MemorySemanticsWorkgroupMemory))
	at := m.Emit(OpAccessChain, m.Type(OpTypePointer, StorageClassStorageBuffer, word), v, zero, zero)
	m.Do(OpStore, at, m.Emit(OpExtInst, word, m.Import("GLSL.std.450"), ExtendedSMax, zero, m.Constant(OpConstant, m.Type(OpTypeInt, 32, 0), 4000000000)))
	m.Do(OpReturn)
	m.Do(OpFunctionEnd)
	return m
}

func TestText(t *testing.T) {
	have := small().Text()
	for _, want := range []string{
		`OpEntryPoint GLCompute %1 "main" %7`, "OpExecutionMode %1 LocalSize 8 1 1", `OpName %1 "say \"no\"\\"`,
		"= OpExtInst %2 %", " SMax %", "OpFunction %3 None %", " 4000000000\n", "OpMemberDecorate %5 0 Offset 0",
	} {
		if !strings.Contains(have, want) {
			t.Errorf("%s is not in\n%s", want, have)
		}
	}
	if n := strings.Count(have, "OpCapability"); n != 1 {
		t.Errorf("%d capabilities", n)
	}
}

// Each line of the text has the number that was set when its instruction was written; declarations, constants and the function's variables have none.
func TestPurposes(t *testing.T) {
	m := New()
	void, word := m.Type(OpTypeVoid), m.Type(OpTypeInt, 32, 0)
	m.Function(m.NewID(), void, m.Type(OpTypeFunction, void))
	m.Label(m.NewID())
	if before := m.For(7); before != 0 {
		t.Errorf("%d was set before", before)
	}
	v := m.Local(m.Type(OpTypePointer, StorageClassFunction, word))
	m.Do(OpStore, v, m.Constant(OpConstant, word, 1))
	if before := m.For(0); before != 7 {
		t.Errorf("%d was set before, want 7", before)
	}
	m.Do(OpReturn)
	m.For(8)
	m.Do(OpFunctionEnd)
	all := m.Purposes()
	for i, line := range strings.Split(strings.TrimSuffix(m.Text(), "\n"), "\n") {
		want := 0
		switch {
		case strings.HasPrefix(line, "OpStore"):
			want = 7
		case line == "OpFunctionEnd":
			want = 8
		}
		if i >= len(all) || all[i] != want {
			t.Errorf("line %d, %s, of %v: want %d", i, line, all, want)
		}
	}
}

// TestTools holds both forms against the tools of the Khronos Group: spirv-val accepts the words, spirv-as makes them of the
// text, and spirv-dis makes the text of them.
func TestTools(t *testing.T) {
	m := small()
	dir := t.TempDir()
	words, text, again := filepath.Join(dir, "m.spv"), filepath.Join(dir, "m.spvasm"), filepath.Join(dir, "again.spv")
	for path, data := range map[string][]byte{words: m.Binary(), text: []byte(m.Text())} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, "spirv-val", "--target-env", "vulkan1.3", words)
	tool(t, "spirv-as", "--preserve-numeric-ids", "--target-env", "vulkan1.3", text, "-o", again)
	data, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[8:12], m.Binary()[8:12]) // the number of the program that made it
	if !bytes.Equal(data, m.Binary()) {
		t.Error("spirv-as makes other words of the text")
	}
	if have := tool(t, "spirv-dis", "--raw-id", "--no-indent", "--no-header", words); have != m.Text() {
		t.Errorf("spirv-dis makes\n%sof\n%s", have, m.Text())
	}
}

// tool runs a program of Debian's package spirv-tools.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs Debian's package spirv-tools: %v", err)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}
