package gguf

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/gguf.md has the rows of other programs' types and the limits.
func TestDoc(t *testing.T) {
	text, err := os.ReadFile("../../../docs/gguf.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for id := range Type(1 << 10) {
		if forks[id] == nil {
			continue
		}
		rows++
		defined, also := "", []string{}
		if d := id.defined(); d != nil {
			defined = " `" + d.name + "`"
		}
		for _, f := range forks[id] {
			also = append(also, "`"+f.name+"`")
		}
		if row := fmt.Sprintf("\n| %d |%s | %s |\n", id, defined, strings.Join(also, ", ")); !strings.Contains(string(text), row) {
			t.Errorf("no row%s", row)
		}
	}
	if rows != len(forks) {
		t.Errorf("%d of %d ids", rows, len(forks))
	}
	for _, row := range []string{
		fmt.Sprintf("| tensors, in all parts | %d |", maxTensors), fmt.Sprintf("| metadata values | %d |", maxValues), fmt.Sprintf("| strings in arrays | %d |", maxTexts),
		fmt.Sprintf("| arrays in arrays; their depth | %d; %d |", maxArrays, maxDepth), fmt.Sprintf("| bytes of a key, of a tensor's name | %d, %d |", maxKey, maxName),
		fmt.Sprintf("| alignment | %d |", maxAlignment), fmt.Sprintf("| bytes of a metadata value that is asked for | %d |", maxValue), fmt.Sprintf("more than %d bytes are read when", small),
	} {
		if !strings.Contains(string(text), row) {
			t.Errorf("no %q", row)
		}
	}
}
