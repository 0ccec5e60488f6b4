// Package core describes processor cores: what instructions cost there, and how kernels ask for memory. The
// compiler's passes read none of it: rows take their costs from a core, and schedules are chosen by it.
package core

import (
	"strings"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// Core is a processor core. The built-in ones have a file each, in the folder of their architecture.
type Core struct {
	Name  string    // a word of small letters, digits and dashes
	ISAs  []string  // the instruction sets that kernels are tuned for it with: "amd64/avx2"
	CPUs  []cpu.Set // the CPUs that have the core; none: all CPUs that no other core names
	Own   bool      // described by a user's file; programs prefer it to the built-in cores of the same CPUs
	Costs Costs

	Halves      bool // a load of a whole register takes twice as long as a load of half of one
	Fresh       int  // tenths of a cycle that a dot product waits for the one before it in a sum that begins in the same iteration, while others go on
	DecodeFirst bool // default kernels of one column decode fields of all row vectors before they multiply them
	Pipeline    Pipeline
	Hierarchy   Hierarchy
	Memory
}

// Class is a kind of instructions that take equally long. Each architecture has its own classes.
type Class string

// Costs has the cost of each class of an architecture.
type Costs map[Class]Cost

// Cost is what an instruction of a class takes, in tenths of a cycle.
type Cost struct {
	Tenths int   // reciprocal throughput
	Busy   []int // how long each set of execution units is busy, as lower.Row.Busy; nil: the first set, for Tenths
	// The same for instructions of more than 256 bits. If Wide is 0, they take what narrower ones take.
	Wide     int
	WideBusy []int

	Latency   int    // cycles from its operands to its result; of a load from the first-level cache
	Ports     string // what each of its micro-operations runs on, as Micros reads it
	WidePorts string // the same of more than 256 bits; "": Ports
}

// At returns the reciprocal throughput of an instruction on registers of that many bits, and how long it keeps each
// set of execution units busy.
func (c Cost) At(bits int) (tenths int, busy []int) {
	if bits > 256 && c.Wide > 0 {
		return c.Wide, c.WideBusy
	}
	return c.Tenths, c.Busy
}

// Micros are the micro-operations of an instruction on registers of that many bits, nil if its ports are not known.
func (c Cost) Micros(bits int) []Micro {
	text := c.Ports
	if bits > 256 && c.WidePorts != "" {
		text = c.WidePorts
	}
	micros, err := Micros(text)
	if err != nil {
		return nil
	}
	return micros
}

// Memory is how kernels ask for what they read. docs/lab/choices.md has the figures that the values were chosen by.
type Memory struct {
	// Streams is how weights are asked for. Slow is for kernels that work SlowLine cycles or longer on a line of
	// weights, or that look up in tables. Scattered is for records whose parts are not read in the order in which
	// they lie. In both cases what the CPU foresees by itself may come too late.
	Streams   nest.Streams `json:"streams"`
	Slow      nest.Streams `json:"slow"`
	Scattered nest.Streams `json:"scattered"`
	// SlowFew replaces Slow for four columns and more. All zeros: Slow.
	SlowFew nest.Streams `json:"slow_few"`
	// GroupLookups replaces Slow for one column by Tiles tiles that looks up in tables of groups. All zeros: Slow.
	GroupLookups nest.Streams `json:"group_lookups"`
	// Alone replaces Scattered for one column, if groups are long or their scales lie behind them, and with Lead if
	// the kernel is not slow. All zeros: Scattered.
	Alone nest.Streams `json:"alone"`
	// SlowLine is in cycles per line of weights; 0: all kernels are slow. SlowOne replaces it for one column and for
	// tiles side by side; 0: SlowLine.
	SlowLine float64 `json:"slow_line"`
	SlowOne  float64 `json:"slow_one"`
	// Skipping is the factor by which a call slows down when it reads only part of a tile. It skips the lines of the
	// other part, and from memory two such calls take longer than one that reads all.
	Skipping float64 `json:"skipping"`
	// Lead puts what several groups of a record share in front of it, where kernels read it.
	Lead bool `json:"lead"`
	// RowFields allows two fields of a byte to be rows instead of elements of K, in groups short enough to be spelled out.
	RowFields bool `json:"row_fields"`
	// Stride is the most bytes that an iteration over pieces of a group reads, of one word of all codes of a tile;
	// 0: any number. If it is set, row vectors lie side by side.
	Stride int `json:"stride"`
	// Tiles is how many tiles a kernel for few columns reads side by side, if registers hold their sums; 0: one.
	Tiles int `json:"tiles"`
	// TilesCost is the most that one column by Tiles tiles may cost, relative to one tile. It counts as at most 1
	// where computing takes much longer than reading.
	TilesCost float64 `json:"tiles_cost"`
	// HalvesTiles makes tiles smaller by the factor Tiles where registers do not hold the sums of Tiles whole ones.
	HalvesTiles bool `json:"halves_tiles"`
	// SuperTiles is how tiles of super-blocks side by side are asked for. All zeros: as other tiles.
	SuperTiles nest.Streams `json:"super_tiles"`
	// Indexes allows default schedules to have addresses that are sums of two registers.
	Indexes bool `json:"indexes"`
	// TablesRead is the factor by which weights come more slowly from memory where one column looks up in tables, 1 or more; 0: 1.
	TablesRead float64 `json:"tables_read"`
	// Tables is how many bytes ahead tables of several columns are asked for; 0: they are not.
	Tables int `json:"tables"`
}

// IsFile says that a word for a core is the path of a file with one, not a name.
func IsFile(word string) bool {
	return strings.HasSuffix(word, ".json") || strings.ContainsAny(word, `/\`)
}
