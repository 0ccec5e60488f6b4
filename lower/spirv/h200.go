package spirv

// h200 are the speeds of NVIDIA's H200. Rates, the launch and the start are in docs/lab/card.md: multiplications of words, and a read of
// 2 MiB without the launch and the bytes' own time. Latency and Step are those that docs/lab/card.jsonl is ranked best with. NVIDIA's
// "CUDA C++ Programming Guide", table of technical specifications, compute capability 9.0, has what a multiprocessor holds.
var h200 = Speeds{
	Name: "h200", Devices: []string{"NVIDIA H200"},
	Read: 4547, Instructions: 16190, Matrices: 1261, Launch: 1256, Start: 1570, Latency: 570, Step: 1.5,
	Processors: 132, Lanes: 2048, Groups: 32, Words: 65536, Shared: 48 << 10, Subgroup: 32,
	Shapes: [][3]int{{16, 16, 32}, {16, 8, 32}},
}
