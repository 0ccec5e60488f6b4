package module

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write grammar.go")

// The grammar of Debian's package spirv-headers.
const headers = "/usr/include/spirv/unified1/"

// wantedOps, wantedEnumerants and wantedExtended are what modules have: a back end that needs more adds it here.
const wantedOps = `OpExtension OpExtInstImport OpExtInst OpMemoryModel OpEntryPoint OpExecutionMode OpCapability OpName OpMemberName
	OpTypeVoid OpTypeBool OpTypeInt OpTypeFloat OpTypeVector OpTypeArray OpTypeRuntimeArray OpTypeStruct OpTypePointer OpTypeFunction
	OpConstant OpConstantComposite OpConstantNull OpFunction OpFunctionEnd OpVariable OpLoad OpStore OpAccessChain OpDecorate OpMemberDecorate
	OpVectorExtractDynamic OpCompositeConstruct OpCompositeExtract OpUConvert OpSConvert OpConvertSToF OpConvertFToS OpFConvert OpBitcast
	OpIAdd OpFAdd OpISub OpFSub OpIMul OpFMul OpFDiv OpUDiv OpUMod OpSDot OpUDot OpSUDot OpShiftRightLogical OpShiftRightArithmetic OpShiftLeftLogical
	OpBitwiseOr OpBitwiseXor OpBitwiseAnd OpNot OpBitFieldInsert OpBitFieldSExtract OpBitFieldUExtract
	OpSelect OpLogicalOr OpLogicalAnd OpIEqual OpULessThan OpSLessThan OpSGreaterThan OpFOrdGreaterThan OpFOrdLessThan OpControlBarrier OpMemoryBarrier OpAtomicLoad OpAtomicStore OpAtomicIAdd OpGroupNonUniformShuffle OpGroupNonUniformShuffleXor OpPhi OpLoopMerge OpSelectionMerge
	OpLabel OpBranch OpBranchConditional OpReturn
	OpTypeCooperativeMatrixKHR OpCooperativeMatrixLoadKHR OpCooperativeMatrixStoreKHR OpCooperativeMatrixMulAddKHR OpCooperativeMatrixLengthKHR`

var wantedEnumerants = map[string]string{
	"Capability":         "Shader GroupNonUniform GroupNonUniformShuffle DotProduct DotProductInput4x8BitPacked DenormPreserve RoundingModeRTE SignedZeroInfNanPreserve Float16 StorageBuffer8BitAccess StorageBuffer16BitAccess Int8 Int16 VulkanMemoryModel CooperativeMatrixKHR",
	"AddressingModel":    "Logical",
	"MemoryModel":        "GLSL450 Vulkan",
	"ExecutionModel":     "GLCompute",
	"ExecutionMode":      "LocalSize DenormPreserve RoundingModeRTE SignedZeroInfNanPreserve",
	"StorageClass":       "Input PushConstant Workgroup Private Function StorageBuffer",
	"Decoration":         "Block ArrayStride BuiltIn NonWritable Binding DescriptorSet Offset NoContraction Aliased",
	"BuiltIn":            "WorkgroupId LocalInvocationIndex SubgroupId SubgroupLocalInvocationId",
	"FunctionControl":    "None",
	"LoopControl":        "None Unroll DontUnroll",
	"SelectionControl":   "None",
	"MemoryAccess":       "None NonPrivatePointer",
	"PackedVectorFormat": "PackedVectorFormat4x8Bit",
	"Scope":              "Device Workgroup Subgroup",
	"MemorySemantics":    "AcquireRelease WorkgroupMemory UniformMemory MakeAvailable MakeVisible",

	"CooperativeMatrixOperands": "MatrixASignedComponentsKHR MatrixBSignedComponentsKHR MatrixCSignedComponentsKHR MatrixResultSignedComponentsKHR",
	"CooperativeMatrixLayout":   "RowMajorKHR ColumnMajorKHR",
	"CooperativeMatrixUse":      "MatrixAKHR MatrixBKHR MatrixAccumulatorKHR",
}

const wantedExtended = "RoundEven SMax SMin UMax UMin FindUMsb PackHalf2x16 UnpackHalf2x16"

type grammar struct {
	Major        int    `json:"major_version"`
	Minor        int    `json:"minor_version"`
	Instructions []row  `json:"instructions"`
	Kinds        []kind `json:"operand_kinds"`
}

type row struct {
	Name     string    `json:"opname"`
	Code     int       `json:"opcode"`
	Operands []operand `json:"operands"`
}

type kind struct {
	Kind       string  `json:"kind"`
	Enumerants []value `json:"enumerants"`
}

type value struct {
	Name       string    `json:"enumerant"`
	Value      any       `json:"value"`
	Parameters []operand `json:"parameters"`
}

// The grammar of SPV_KHR_cooperative_matrix, which is younger than the headers that Debian 12 has: the rows of the registry's
// grammar that modules need. Headers that have the extension are held against it.
const younger = "testdata/cooperative_matrix.json"

// extended is g with rows that it lacks. It reports rows that g has differently.
func (g *grammar) extended(t *testing.T, rows grammar) {
	t.Helper()
	for _, x := range rows.Instructions {
		i := slices.IndexFunc(g.Instructions, func(have row) bool { return have.Name == x.Name })
		if i < 0 {
			g.Instructions = append(g.Instructions, x)
		} else if have := g.Instructions[i]; have.Code != x.Code || kinds(have.Operands) != kinds(x.Operands) {
			t.Errorf("%s has %v, the registry's grammar %v", younger, x, have)
		}
	}
	for _, k := range rows.Kinds {
		i := slices.IndexFunc(g.Kinds, func(have kind) bool { return have.Kind == k.Kind })
		if i < 0 {
			g.Kinds = append(g.Kinds, k)
			continue
		}
		for _, x := range k.Enumerants {
			j := slices.IndexFunc(g.Kinds[i].Enumerants, func(have value) bool { return have.Name == x.Name })
			if j < 0 {
				g.Kinds[i].Enumerants = append(g.Kinds[i].Enumerants, x)
			} else if have := g.Kinds[i].Enumerants[j]; fmt.Sprint(have.Value) != fmt.Sprint(x.Value) {
				t.Errorf("%s has %v, the registry's grammar %v", younger, x, have)
			}
		}
	}
}

type operand struct{ Kind, Quantifier string }

// TestGrammar holds grammar.go against the registry's grammar.
func TestGrammar(t *testing.T) {
	want := generated(t)
	if *update {
		if err := os.WriteFile("grammar.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("grammar.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("grammar.go differs from the registry's grammar: go generate ./lower/spirv/module")
	}
}

func read(t *testing.T, name string) (g grammar) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Skipf("needs Debian's package spirv-headers: %v", err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// generated is grammar.go.
func generated(t *testing.T) []byte {
	core, glsl := read(t, headers+"spirv.core.grammar.json"), read(t, headers+"extinst.glsl.std.450.grammar.json")
	core.extended(t, read(t, younger))
	var b bytes.Buffer
	b.WriteString("// Code generated from the grammar of spirv-headers by go generate; DO NOT EDIT.\n\npackage module\n")
	writeOps(t, &b, core)
	writeEnumerants(t, &b, core)
	b.WriteString("\n// Numbers of the extended instructions of GLSL.std.450.\nconst (\n")
	table := ""
	for _, name := range strings.Fields(wantedExtended) {
		for _, x := range glsl.Instructions {
			if x.Name == name {
				fmt.Fprintf(&b, "Extended%s uint32 = %d\n", name, x.Code)
				table += fmt.Sprintf("Extended%s: %q,\n", name, name)
			}
		}
	}
	fmt.Fprintf(&b, ")\n\nvar extended = map[uint32]string{\n%s}\n", table)
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return text
}

func writeOps(t *testing.T, b *bytes.Buffer, g grammar) {
	t.Helper()
	wanted := strings.Fields(wantedOps)
	fmt.Fprintf(b, "\n// Opcodes of SPIR-V %d.%d.\nconst (\n", g.Major, g.Minor)
	table := ""
	for _, x := range g.Instructions {
		i := slices.Index(wanted, x.Name)
		if i < 0 {
			continue
		}
		wanted = slices.Delete(wanted, i, i+1)
		fmt.Fprintf(b, "%s Op = %d\n", x.Name, x.Code)
		table += fmt.Sprintf("%s: {%q, %q},\n", x.Name, x.Name, kinds(x.Operands))
	}
	if len(wanted) > 0 {
		t.Fatalf("the grammar has no %v", wanted)
	}
	fmt.Fprintf(b, ")\n\nvar instructions = map[Op]instruction{\n%s}\n", table)
}

func kinds(operands []operand) string {
	var out []string
	for _, x := range operands {
		out = append(out, x.Kind+x.Quantifier)
	}
	return strings.Join(out, " ")
}

func writeEnumerants(t *testing.T, b *bytes.Buffer, g grammar) {
	t.Helper()
	table := ""
	b.WriteString("\n// Enumerants, after the names of their kinds.\nconst (\n")
	for _, k := range g.Kinds {
		wanted := strings.Fields(wantedEnumerants[k.Kind])
		if wanted == nil {
			continue
		}
		table += fmt.Sprintf("%q: {\n", k.Kind)
		for _, x := range k.Enumerants {
			i := slices.Index(wanted, x.Name)
			if i < 0 {
				continue
			}
			wanted = slices.Delete(wanted, i, i+1)
			value, err := strconv.ParseUint(fmt.Sprint(x.Value), 0, 32)
			if err != nil {
				t.Fatal(err)
			}
			name := k.Kind + strings.TrimPrefix(x.Name, k.Kind)
			fmt.Fprintf(b, "%s uint32 = %#x\n", name, value)
			table += fmt.Sprintf("%s: {%q, %q},\n", name, x.Name, kinds(x.Parameters))
		}
		if len(wanted) > 0 {
			t.Fatalf("the grammar has no %s %v", k.Kind, wanted)
		}
		table += "},\n"
	}
	fmt.Fprintf(b, ")\n\nvar enumerants = map[string]map[uint32]enumerant{\n%s}\n", table)
}
