package spirv

// h200 are the speeds of NVIDIA's H200. docs/lab/card.md has the rates, the launch, and a read of 2 MiB, which without the launch and the
// bytes' own time is the start. Instructions are its products of words. Lines, Latency and Step are those that docs/lab/card.jsonl is
// ranked best with: a line takes a multiprocessor a cycle. NVIDIA's "CUDA C++ Programming Guide", table of technical specifications,
// compute capability 9.0, has what a multiprocessor holds.
var h200 = Speeds{
	Name: "h200", Devices: []string{"NVIDIA H200"},
	Read: 4547, Instructions: 16190, Dots: 14500, Lines: 253, Matrices: 1261, Launch: 1256, Start: 1570, Latency: 470, Step: 2,
	Processors: 132, Lanes: 2048, Groups: 32, Words: 65536, Shared: 48 << 10, Subgroup: 32,
	Shapes: [][3]int{{16, 16, 32}, {16, 8, 32}},
}
