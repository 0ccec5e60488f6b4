// Code generated from the grammar of spirv-headers by go generate; DO NOT EDIT.

package module

// Opcodes of SPIR-V 1.6.
const (
	OpName                       Op = 5
	OpMemberName                 Op = 6
	OpExtension                  Op = 10
	OpExtInstImport              Op = 11
	OpExtInst                    Op = 12
	OpMemoryModel                Op = 14
	OpEntryPoint                 Op = 15
	OpExecutionMode              Op = 16
	OpCapability                 Op = 17
	OpTypeVoid                   Op = 19
	OpTypeBool                   Op = 20
	OpTypeInt                    Op = 21
	OpTypeFloat                  Op = 22
	OpTypeVector                 Op = 23
	OpTypeArray                  Op = 28
	OpTypeRuntimeArray           Op = 29
	OpTypeStruct                 Op = 30
	OpTypePointer                Op = 32
	OpTypeFunction               Op = 33
	OpConstant                   Op = 43
	OpConstantComposite          Op = 44
	OpConstantNull               Op = 46
	OpFunction                   Op = 54
	OpFunctionEnd                Op = 56
	OpVariable                   Op = 59
	OpLoad                       Op = 61
	OpStore                      Op = 62
	OpAccessChain                Op = 65
	OpDecorate                   Op = 71
	OpMemberDecorate             Op = 72
	OpVectorExtractDynamic       Op = 77
	OpCompositeConstruct         Op = 80
	OpCompositeExtract           Op = 81
	OpConvertFToS                Op = 110
	OpConvertSToF                Op = 111
	OpUConvert                   Op = 113
	OpSConvert                   Op = 114
	OpFConvert                   Op = 115
	OpBitcast                    Op = 124
	OpIAdd                       Op = 128
	OpFAdd                       Op = 129
	OpISub                       Op = 130
	OpFSub                       Op = 131
	OpIMul                       Op = 132
	OpFMul                       Op = 133
	OpUDiv                       Op = 134
	OpFDiv                       Op = 136
	OpUMod                       Op = 137
	OpLogicalOr                  Op = 166
	OpLogicalAnd                 Op = 167
	OpSelect                     Op = 169
	OpIEqual                     Op = 170
	OpSGreaterThan               Op = 173
	OpULessThan                  Op = 176
	OpSLessThan                  Op = 177
	OpFOrdLessThan               Op = 184
	OpFOrdGreaterThan            Op = 186
	OpShiftRightLogical          Op = 194
	OpShiftRightArithmetic       Op = 195
	OpShiftLeftLogical           Op = 196
	OpBitwiseOr                  Op = 197
	OpBitwiseXor                 Op = 198
	OpBitwiseAnd                 Op = 199
	OpNot                        Op = 200
	OpBitFieldInsert             Op = 201
	OpBitFieldSExtract           Op = 202
	OpBitFieldUExtract           Op = 203
	OpControlBarrier             Op = 224
	OpMemoryBarrier              Op = 225
	OpAtomicLoad                 Op = 227
	OpAtomicStore                Op = 228
	OpAtomicIAdd                 Op = 234
	OpPhi                        Op = 245
	OpLoopMerge                  Op = 246
	OpSelectionMerge             Op = 247
	OpLabel                      Op = 248
	OpBranch                     Op = 249
	OpBranchConditional          Op = 250
	OpReturn                     Op = 253
	OpGroupNonUniformShuffle     Op = 345
	OpGroupNonUniformShuffleXor  Op = 346
	OpSDot                       Op = 4450
	OpUDot                       Op = 4451
	OpSUDot                      Op = 4452
	OpTypeCooperativeMatrixKHR   Op = 4456
	OpCooperativeMatrixLoadKHR   Op = 4457
	OpCooperativeMatrixStoreKHR  Op = 4458
	OpCooperativeMatrixMulAddKHR Op = 4459
	OpCooperativeMatrixLengthKHR Op = 4460
)

var instructions = map[Op]instruction{
	OpName:                       {"OpName", "IdRef LiteralString"},
	OpMemberName:                 {"OpMemberName", "IdRef LiteralInteger LiteralString"},
	OpExtension:                  {"OpExtension", "LiteralString"},
	OpExtInstImport:              {"OpExtInstImport", "IdResult LiteralString"},
	OpExtInst:                    {"OpExtInst", "IdResultType IdResult IdRef LiteralExtInstInteger IdRef*"},
	OpMemoryModel:                {"OpMemoryModel", "AddressingModel MemoryModel"},
	OpEntryPoint:                 {"OpEntryPoint", "ExecutionModel IdRef LiteralString IdRef*"},
	OpExecutionMode:              {"OpExecutionMode", "IdRef ExecutionMode"},
	OpCapability:                 {"OpCapability", "Capability"},
	OpTypeVoid:                   {"OpTypeVoid", "IdResult"},
	OpTypeBool:                   {"OpTypeBool", "IdResult"},
	OpTypeInt:                    {"OpTypeInt", "IdResult LiteralInteger LiteralInteger"},
	OpTypeFloat:                  {"OpTypeFloat", "IdResult LiteralInteger"},
	OpTypeVector:                 {"OpTypeVector", "IdResult IdRef LiteralInteger"},
	OpTypeArray:                  {"OpTypeArray", "IdResult IdRef IdRef"},
	OpTypeRuntimeArray:           {"OpTypeRuntimeArray", "IdResult IdRef"},
	OpTypeStruct:                 {"OpTypeStruct", "IdResult IdRef*"},
	OpTypePointer:                {"OpTypePointer", "IdResult StorageClass IdRef"},
	OpTypeFunction:               {"OpTypeFunction", "IdResult IdRef IdRef*"},
	OpConstant:                   {"OpConstant", "IdResultType IdResult LiteralContextDependentNumber"},
	OpConstantComposite:          {"OpConstantComposite", "IdResultType IdResult IdRef*"},
	OpConstantNull:               {"OpConstantNull", "IdResultType IdResult"},
	OpFunction:                   {"OpFunction", "IdResultType IdResult FunctionControl IdRef"},
	OpFunctionEnd:                {"OpFunctionEnd", ""},
	OpVariable:                   {"OpVariable", "IdResultType IdResult StorageClass IdRef?"},
	OpLoad:                       {"OpLoad", "IdResultType IdResult IdRef MemoryAccess?"},
	OpStore:                      {"OpStore", "IdRef IdRef MemoryAccess?"},
	OpAccessChain:                {"OpAccessChain", "IdResultType IdResult IdRef IdRef*"},
	OpDecorate:                   {"OpDecorate", "IdRef Decoration"},
	OpMemberDecorate:             {"OpMemberDecorate", "IdRef LiteralInteger Decoration"},
	OpVectorExtractDynamic:       {"OpVectorExtractDynamic", "IdResultType IdResult IdRef IdRef"},
	OpCompositeConstruct:         {"OpCompositeConstruct", "IdResultType IdResult IdRef*"},
	OpCompositeExtract:           {"OpCompositeExtract", "IdResultType IdResult IdRef LiteralInteger*"},
	OpConvertFToS:                {"OpConvertFToS", "IdResultType IdResult IdRef"},
	OpConvertSToF:                {"OpConvertSToF", "IdResultType IdResult IdRef"},
	OpUConvert:                   {"OpUConvert", "IdResultType IdResult IdRef"},
	OpSConvert:                   {"OpSConvert", "IdResultType IdResult IdRef"},
	OpFConvert:                   {"OpFConvert", "IdResultType IdResult IdRef"},
	OpBitcast:                    {"OpBitcast", "IdResultType IdResult IdRef"},
	OpIAdd:                       {"OpIAdd", "IdResultType IdResult IdRef IdRef"},
	OpFAdd:                       {"OpFAdd", "IdResultType IdResult IdRef IdRef"},
	OpISub:                       {"OpISub", "IdResultType IdResult IdRef IdRef"},
	OpFSub:                       {"OpFSub", "IdResultType IdResult IdRef IdRef"},
	OpIMul:                       {"OpIMul", "IdResultType IdResult IdRef IdRef"},
	OpFMul:                       {"OpFMul", "IdResultType IdResult IdRef IdRef"},
	OpUDiv:                       {"OpUDiv", "IdResultType IdResult IdRef IdRef"},
	OpFDiv:                       {"OpFDiv", "IdResultType IdResult IdRef IdRef"},
	OpUMod:                       {"OpUMod", "IdResultType IdResult IdRef IdRef"},
	OpLogicalOr:                  {"OpLogicalOr", "IdResultType IdResult IdRef IdRef"},
	OpLogicalAnd:                 {"OpLogicalAnd", "IdResultType IdResult IdRef IdRef"},
	OpSelect:                     {"OpSelect", "IdResultType IdResult IdRef IdRef IdRef"},
	OpIEqual:                     {"OpIEqual", "IdResultType IdResult IdRef IdRef"},
	OpSGreaterThan:               {"OpSGreaterThan", "IdResultType IdResult IdRef IdRef"},
	OpULessThan:                  {"OpULessThan", "IdResultType IdResult IdRef IdRef"},
	OpSLessThan:                  {"OpSLessThan", "IdResultType IdResult IdRef IdRef"},
	OpFOrdLessThan:               {"OpFOrdLessThan", "IdResultType IdResult IdRef IdRef"},
	OpFOrdGreaterThan:            {"OpFOrdGreaterThan", "IdResultType IdResult IdRef IdRef"},
	OpShiftRightLogical:          {"OpShiftRightLogical", "IdResultType IdResult IdRef IdRef"},
	OpShiftRightArithmetic:       {"OpShiftRightArithmetic", "IdResultType IdResult IdRef IdRef"},
	OpShiftLeftLogical:           {"OpShiftLeftLogical", "IdResultType IdResult IdRef IdRef"},
	OpBitwiseOr:                  {"OpBitwiseOr", "IdResultType IdResult IdRef IdRef"},
	OpBitwiseXor:                 {"OpBitwiseXor", "IdResultType IdResult IdRef IdRef"},
	OpBitwiseAnd:                 {"OpBitwiseAnd", "IdResultType IdResult IdRef IdRef"},
	OpNot:                        {"OpNot", "IdResultType IdResult IdRef"},
	OpBitFieldInsert:             {"OpBitFieldInsert", "IdResultType IdResult IdRef IdRef IdRef IdRef"},
	OpBitFieldSExtract:           {"OpBitFieldSExtract", "IdResultType IdResult IdRef IdRef IdRef"},
	OpBitFieldUExtract:           {"OpBitFieldUExtract", "IdResultType IdResult IdRef IdRef IdRef"},
	OpControlBarrier:             {"OpControlBarrier", "IdScope IdScope IdMemorySemantics"},
	OpMemoryBarrier:              {"OpMemoryBarrier", "IdScope IdMemorySemantics"},
	OpAtomicLoad:                 {"OpAtomicLoad", "IdResultType IdResult IdRef IdScope IdMemorySemantics"},
	OpAtomicStore:                {"OpAtomicStore", "IdRef IdScope IdMemorySemantics IdRef"},
	OpAtomicIAdd:                 {"OpAtomicIAdd", "IdResultType IdResult IdRef IdScope IdMemorySemantics IdRef"},
	OpPhi:                        {"OpPhi", "IdResultType IdResult PairIdRefIdRef*"},
	OpLoopMerge:                  {"OpLoopMerge", "IdRef IdRef LoopControl"},
	OpSelectionMerge:             {"OpSelectionMerge", "IdRef SelectionControl"},
	OpLabel:                      {"OpLabel", "IdResult"},
	OpBranch:                     {"OpBranch", "IdRef"},
	OpBranchConditional:          {"OpBranchConditional", "IdRef IdRef IdRef LiteralInteger*"},
	OpReturn:                     {"OpReturn", ""},
	OpGroupNonUniformShuffle:     {"OpGroupNonUniformShuffle", "IdResultType IdResult IdScope IdRef IdRef"},
	OpGroupNonUniformShuffleXor:  {"OpGroupNonUniformShuffleXor", "IdResultType IdResult IdScope IdRef IdRef"},
	OpSDot:                       {"OpSDot", "IdResultType IdResult IdRef IdRef PackedVectorFormat?"},
	OpUDot:                       {"OpUDot", "IdResultType IdResult IdRef IdRef PackedVectorFormat?"},
	OpSUDot:                      {"OpSUDot", "IdResultType IdResult IdRef IdRef PackedVectorFormat?"},
	OpTypeCooperativeMatrixKHR:   {"OpTypeCooperativeMatrixKHR", "IdResult IdRef IdScope IdRef IdRef IdRef"},
	OpCooperativeMatrixLoadKHR:   {"OpCooperativeMatrixLoadKHR", "IdResultType IdResult IdRef IdRef IdRef? MemoryAccess?"},
	OpCooperativeMatrixStoreKHR:  {"OpCooperativeMatrixStoreKHR", "IdRef IdRef IdRef IdRef? MemoryAccess?"},
	OpCooperativeMatrixMulAddKHR: {"OpCooperativeMatrixMulAddKHR", "IdResultType IdResult IdRef IdRef IdRef CooperativeMatrixOperands?"},
	OpCooperativeMatrixLengthKHR: {"OpCooperativeMatrixLengthKHR", "IdResultType IdResult IdRef"},
}

// Enumerants, after the names of their kinds.
const (
	SelectionControlNone                                     uint32 = 0x0
	LoopControlNone                                          uint32 = 0x0
	LoopControlUnroll                                        uint32 = 0x1
	LoopControlDontUnroll                                    uint32 = 0x2
	FunctionControlNone                                      uint32 = 0x0
	MemorySemanticsAcquireRelease                            uint32 = 0x8
	MemorySemanticsUniformMemory                             uint32 = 0x40
	MemorySemanticsWorkgroupMemory                           uint32 = 0x100
	MemorySemanticsMakeAvailable                             uint32 = 0x2000
	MemorySemanticsMakeVisible                               uint32 = 0x4000
	MemoryAccessNone                                         uint32 = 0x0
	MemoryAccessNonPrivatePointer                            uint32 = 0x20
	ExecutionModelGLCompute                                  uint32 = 0x5
	AddressingModelLogical                                   uint32 = 0x0
	MemoryModelGLSL450                                       uint32 = 0x1
	MemoryModelVulkan                                        uint32 = 0x3
	ExecutionModeLocalSize                                   uint32 = 0x11
	ExecutionModeDenormPreserve                              uint32 = 0x116b
	ExecutionModeSignedZeroInfNanPreserve                    uint32 = 0x116d
	ExecutionModeRoundingModeRTE                             uint32 = 0x116e
	StorageClassInput                                        uint32 = 0x1
	StorageClassWorkgroup                                    uint32 = 0x4
	StorageClassPrivate                                      uint32 = 0x6
	StorageClassFunction                                     uint32 = 0x7
	StorageClassPushConstant                                 uint32 = 0x9
	StorageClassStorageBuffer                                uint32 = 0xc
	DecorationBlock                                          uint32 = 0x2
	DecorationArrayStride                                    uint32 = 0x6
	DecorationBuiltIn                                        uint32 = 0xb
	DecorationAliased                                        uint32 = 0x14
	DecorationNonWritable                                    uint32 = 0x18
	DecorationBinding                                        uint32 = 0x21
	DecorationDescriptorSet                                  uint32 = 0x22
	DecorationOffset                                         uint32 = 0x23
	DecorationNoContraction                                  uint32 = 0x2a
	BuiltInWorkgroupId                                       uint32 = 0x1a
	BuiltInLocalInvocationIndex                              uint32 = 0x1d
	BuiltInSubgroupId                                        uint32 = 0x28
	BuiltInSubgroupLocalInvocationId                         uint32 = 0x29
	ScopeDevice                                              uint32 = 0x1
	ScopeWorkgroup                                           uint32 = 0x2
	ScopeSubgroup                                            uint32 = 0x3
	CapabilityShader                                         uint32 = 0x1
	CapabilityFloat16                                        uint32 = 0x9
	CapabilityInt16                                          uint32 = 0x16
	CapabilityInt8                                           uint32 = 0x27
	CapabilityGroupNonUniform                                uint32 = 0x3d
	CapabilityGroupNonUniformShuffle                         uint32 = 0x41
	CapabilityStorageBuffer16BitAccess                       uint32 = 0x1151
	CapabilityStorageBuffer8BitAccess                        uint32 = 0x1160
	CapabilityDenormPreserve                                 uint32 = 0x1170
	CapabilitySignedZeroInfNanPreserve                       uint32 = 0x1172
	CapabilityRoundingModeRTE                                uint32 = 0x1173
	CapabilityVulkanMemoryModel                              uint32 = 0x14e1
	CapabilityDotProductInput4x8BitPacked                    uint32 = 0x1782
	CapabilityDotProduct                                     uint32 = 0x1783
	CapabilityCooperativeMatrixKHR                           uint32 = 0x1786
	PackedVectorFormat4x8Bit                                 uint32 = 0x0
	CooperativeMatrixOperandsMatrixASignedComponentsKHR      uint32 = 0x1
	CooperativeMatrixOperandsMatrixBSignedComponentsKHR      uint32 = 0x2
	CooperativeMatrixOperandsMatrixCSignedComponentsKHR      uint32 = 0x4
	CooperativeMatrixOperandsMatrixResultSignedComponentsKHR uint32 = 0x8
	CooperativeMatrixLayoutRowMajorKHR                       uint32 = 0x0
	CooperativeMatrixLayoutColumnMajorKHR                    uint32 = 0x1
	CooperativeMatrixUseMatrixAKHR                           uint32 = 0x0
	CooperativeMatrixUseMatrixBKHR                           uint32 = 0x1
	CooperativeMatrixUseMatrixAccumulatorKHR                 uint32 = 0x2
)

var enumerants = map[string]map[uint32]enumerant{
	"ImageOperands":  {},
	"FPFastMathMode": {},
	"SelectionControl": {
		SelectionControlNone: {"None", ""},
	},
	"LoopControl": {
		LoopControlNone:       {"None", ""},
		LoopControlUnroll:     {"Unroll", ""},
		LoopControlDontUnroll: {"DontUnroll", ""},
	},
	"FunctionControl": {
		FunctionControlNone: {"None", ""},
	},
	"MemorySemantics": {
		MemorySemanticsAcquireRelease:  {"AcquireRelease", ""},
		MemorySemanticsUniformMemory:   {"UniformMemory", ""},
		MemorySemanticsWorkgroupMemory: {"WorkgroupMemory", ""},
		MemorySemanticsMakeAvailable:   {"MakeAvailable", ""},
		MemorySemanticsMakeVisible:     {"MakeVisible", ""},
	},
	"MemoryAccess": {
		MemoryAccessNone:              {"None", ""},
		MemoryAccessNonPrivatePointer: {"NonPrivatePointer", ""},
	},
	"KernelProfilingInfo": {},
	"RayFlags":            {},
	"FragmentShadingRate": {},
	"SourceLanguage":      {},
	"ExecutionModel": {
		ExecutionModelGLCompute: {"GLCompute", ""},
	},
	"AddressingModel": {
		AddressingModelLogical: {"Logical", ""},
	},
	"MemoryModel": {
		MemoryModelGLSL450: {"GLSL450", ""},
		MemoryModelVulkan:  {"Vulkan", ""},
	},
	"ExecutionMode": {
		ExecutionModeLocalSize:                {"LocalSize", "LiteralInteger LiteralInteger LiteralInteger"},
		ExecutionModeDenormPreserve:           {"DenormPreserve", "LiteralInteger"},
		ExecutionModeSignedZeroInfNanPreserve: {"SignedZeroInfNanPreserve", "LiteralInteger"},
		ExecutionModeRoundingModeRTE:          {"RoundingModeRTE", "LiteralInteger"},
	},
	"StorageClass": {
		StorageClassInput:         {"Input", ""},
		StorageClassWorkgroup:     {"Workgroup", ""},
		StorageClassPrivate:       {"Private", ""},
		StorageClassFunction:      {"Function", ""},
		StorageClassPushConstant:  {"PushConstant", ""},
		StorageClassStorageBuffer: {"StorageBuffer", ""},
	},
	"Dim":                        {},
	"SamplerAddressingMode":      {},
	"SamplerFilterMode":          {},
	"ImageFormat":                {},
	"ImageChannelOrder":          {},
	"ImageChannelDataType":       {},
	"FPRoundingMode":             {},
	"FPDenormMode":               {},
	"QuantizationModes":          {},
	"FPOperationMode":            {},
	"OverflowModes":              {},
	"LinkageType":                {},
	"AccessQualifier":            {},
	"FunctionParameterAttribute": {},
	"Decoration": {
		DecorationBlock:         {"Block", ""},
		DecorationArrayStride:   {"ArrayStride", "LiteralInteger"},
		DecorationBuiltIn:       {"BuiltIn", "BuiltIn"},
		DecorationAliased:       {"Aliased", ""},
		DecorationNonWritable:   {"NonWritable", ""},
		DecorationBinding:       {"Binding", "LiteralInteger"},
		DecorationDescriptorSet: {"DescriptorSet", "LiteralInteger"},
		DecorationOffset:        {"Offset", "LiteralInteger"},
		DecorationNoContraction: {"NoContraction", ""},
	},
	"BuiltIn": {
		BuiltInWorkgroupId:               {"WorkgroupId", ""},
		BuiltInLocalInvocationIndex:      {"LocalInvocationIndex", ""},
		BuiltInSubgroupId:                {"SubgroupId", ""},
		BuiltInSubgroupLocalInvocationId: {"SubgroupLocalInvocationId", ""},
	},
	"Scope": {
		ScopeDevice:    {"Device", ""},
		ScopeWorkgroup: {"Workgroup", ""},
		ScopeSubgroup:  {"Subgroup", ""},
	},
	"GroupOperation":     {},
	"KernelEnqueueFlags": {},
	"Capability": {
		CapabilityShader:                      {"Shader", ""},
		CapabilityFloat16:                     {"Float16", ""},
		CapabilityInt16:                       {"Int16", ""},
		CapabilityInt8:                        {"Int8", ""},
		CapabilityGroupNonUniform:             {"GroupNonUniform", ""},
		CapabilityGroupNonUniformShuffle:      {"GroupNonUniformShuffle", ""},
		CapabilityStorageBuffer16BitAccess:    {"StorageBuffer16BitAccess", ""},
		CapabilityStorageBuffer8BitAccess:     {"StorageBuffer8BitAccess", ""},
		CapabilityDenormPreserve:              {"DenormPreserve", ""},
		CapabilitySignedZeroInfNanPreserve:    {"SignedZeroInfNanPreserve", ""},
		CapabilityRoundingModeRTE:             {"RoundingModeRTE", ""},
		CapabilityVulkanMemoryModel:           {"VulkanMemoryModel", ""},
		CapabilityDotProductInput4x8BitPacked: {"DotProductInput4x8BitPacked", ""},
		CapabilityDotProduct:                  {"DotProduct", ""},
		CapabilityCooperativeMatrixKHR:        {"CooperativeMatrixKHR", ""},
	},
	"RayQueryIntersection":              {},
	"RayQueryCommittedIntersectionType": {},
	"RayQueryCandidateIntersectionType": {},
	"PackedVectorFormat": {
		PackedVectorFormat4x8Bit: {"PackedVectorFormat4x8Bit", ""},
	},
	"IdResultType":                  {},
	"IdResult":                      {},
	"IdMemorySemantics":             {},
	"IdScope":                       {},
	"IdRef":                         {},
	"LiteralInteger":                {},
	"LiteralString":                 {},
	"LiteralContextDependentNumber": {},
	"LiteralExtInstInteger":         {},
	"LiteralSpecConstantOpInteger":  {},
	"PairLiteralIntegerIdRef":       {},
	"PairIdRefLiteralInteger":       {},
	"PairIdRefIdRef":                {},
	"CooperativeMatrixOperands": {
		CooperativeMatrixOperandsMatrixASignedComponentsKHR:      {"MatrixASignedComponentsKHR", ""},
		CooperativeMatrixOperandsMatrixBSignedComponentsKHR:      {"MatrixBSignedComponentsKHR", ""},
		CooperativeMatrixOperandsMatrixCSignedComponentsKHR:      {"MatrixCSignedComponentsKHR", ""},
		CooperativeMatrixOperandsMatrixResultSignedComponentsKHR: {"MatrixResultSignedComponentsKHR", ""},
	},
	"CooperativeMatrixLayout": {
		CooperativeMatrixLayoutRowMajorKHR:    {"RowMajorKHR", ""},
		CooperativeMatrixLayoutColumnMajorKHR: {"ColumnMajorKHR", ""},
	},
	"CooperativeMatrixUse": {
		CooperativeMatrixUseMatrixAKHR:           {"MatrixAKHR", ""},
		CooperativeMatrixUseMatrixBKHR:           {"MatrixBKHR", ""},
		CooperativeMatrixUseMatrixAccumulatorKHR: {"MatrixAccumulatorKHR", ""},
	},
}

// Numbers of the extended instructions of GLSL.std.450.
const (
	ExtendedRoundEven      uint32 = 2
	ExtendedSMax           uint32 = 42
	ExtendedSMin           uint32 = 39
	ExtendedUMax           uint32 = 41
	ExtendedUMin           uint32 = 38
	ExtendedFindUMsb       uint32 = 75
	ExtendedPackHalf2x16   uint32 = 58
	ExtendedUnpackHalf2x16 uint32 = 62
)

var extended = map[uint32]string{
	ExtendedRoundEven:      "RoundEven",
	ExtendedSMax:           "SMax",
	ExtendedSMin:           "SMin",
	ExtendedUMax:           "UMax",
	ExtendedUMin:           "UMin",
	ExtendedFindUMsb:       "FindUMsb",
	ExtendedPackHalf2x16:   "PackHalf2x16",
	ExtendedUnpackHalf2x16: "UnpackHalf2x16",
}
