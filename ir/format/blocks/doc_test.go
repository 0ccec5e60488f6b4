package blocks

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

var update = flag.Bool("update", false, "write the table of docs/gguf.md")

// TestDoc: the table of docs/gguf.md is that of the block types.
func TestDoc(t *testing.T) {
	const path = "../../../docs/gguf.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, name := range Types() {
		b, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		w := b.weight()
		fmt.Fprintf(&table, "| `%s` | `%s` | %d | %d | %s | %s |\n", b.Type, w, b.Values, b.Bytes,
			short(8*float64(b.Bytes)/float64(b.Values*max(b.Rows, 1))), short(packedBits(w)))
	}
	before, rest, ok := strings.Cut(string(doc), "|---|---|---:|---:|---:|---:|\n")
	old, after, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 {
		t.Fatalf("%s: no table", path)
	}
	if old+"\n" == table.String() {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the block types; run go test ./ir/format/blocks -update", path)
	}
	text := before + "|---|---|---:|---:|---:|---:|\n" + table.String() + "\n" + after
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// packedBits is bits per weight: codes stored one by one, and the numbers that groups share.
func packedBits(w format.Weight) float64 {
	bits := float64(w.Bits)
	for _, x := range w.Shared() {
		if x.Span > 0 {
			bits += float64(x.Elem.Bits()) / float64(x.Span)
		}
	}
	return bits
}

func short(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }
