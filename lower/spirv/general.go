package spirv

// general are the speeds of a device that nothing is known about: rates of a graphics card of the middle, by the proportions of data
// sheets. A processor has 1024 lanes of 64 registers, as the smaller ones of today.
var general = Speeds{
	Name: "general",
	Read: 450, Instructions: 6000, Dots: 6000, Lines: 100, Launch: 3000, Start: 2000, Latency: 600, Step: 2,
	Processors: 32, Lanes: 1024, Groups: 16, Words: 65536, Shared: 32 << 10, Subgroup: 32,
}
