package command

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A K that is too large is blamed on what has it: a tensor, which is left out, a flag, or an entry of kernel.
func TestTooLargeK(t *testing.T) {
	head := header("blk.0.wide.weight", 2, 1<<25, 1)
	path := file(t, "x.gguf", head)
	if err := os.Truncate(path, int64(len(head)-8192+1<<25/32*18)); err != nil { // nothing of it is read
		t.Fatal(err)
	}
	code, out, stderr := tmacc("compile", "-dry-run", "-target", "avx2", "-format", "w2", path)
	if want := "blk.LAYER.wide.weight       1  Q4_0  has K 33554432; products take K up to 16777216\n"; code != exitUnsupported || !strings.Contains(out, want) {
		t.Errorf("exit code %d, %s%s; want %s", code, out, stderr, want)
	}
	refused(t, refusal{exitUsage, "tmacc: -max-k 16777217: want 1 to 16777216, or 0: the usual", "compile -dry-run -format w2 -max-k 16777217"})
	refused(t, refusal{exitUsage, "tmacc: kernel A: max-k 16777217: want 1 to 16777216, or 0: the usual", "compile -dry-run -kernel name=A,format=w2,max-k=16777217"})
}

// Where sums could overflow for a K that is larger than usual, the reason says who asks for it.
func TestOverflowIsBlamed(t *testing.T) {
	const cause = "16777216 products of weight 128 and activation 127 are 272730423296, beyond 2147483647 (%s for K up to 16777216)"
	for args, asks := range map[string]string{
		"-format w8 -max-k 16777216":                        "-max-k asks",
		"-kernel name=A,format=w8,max-k=16777216":           "max-k of -kernel asks",
		"-max-k 16777216 -kernel name=A,format=w8":          "-max-k asks",
		"-max-k 64 -kernel name=A,format=w8,max-k=16777216": "max-k of -kernel asks",
	} {
		refused(t, refusal{exitUsage, fmt.Sprintf(cause, asks), "compile -q -no-check -target avx2 -o " + t.TempDir() + " " + args})
	}
}
