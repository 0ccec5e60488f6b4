package runtime

import (
	"fmt"
	"strings"
)

// foreign says why bytes that begin with head have no intact header of a packed matrix, and what they are instead where
// their first bytes tell.
func foreign(head []byte) string {
	const remedy = "pack the matrix (Pack or NewMatrix), and save that"
	if len(head) == 0 {
		return "is empty: " + remedy
	}
	begins := string(head[:min(len(head), headerBytes)])
	for _, k := range kinds {
		if strings.HasPrefix(begins, k.magic) {
			return k.what
		}
	}
	if len(head) < headerBytes {
		return fmt.Sprintf("has %d bytes, too few for a packed matrix: %s", len(head), remedy)
	}
	return "has no intact header of a packed matrix: " + remedy
}

// kinds lists files that people mistake for a packed matrix, by their first bytes.
var kinds = []struct{ magic, what string }{
	{packedMagic, "is a packed matrix whose header is damaged or cut off: pack it again"},
	{scaledMagic, "is a packed matrix whose header is damaged or cut off: pack it again"},
	{packedMagic[:6], "is a packed matrix of another version of tmacc: pack it again"},
	{actMagic[:6], "holds prepared activations, not a packed matrix: it is an argument act, not packed"},
	{"GGUF", "is a GGUF file, not a packed matrix: read its tensors with gguf.Open and Tensors.Open, and save what they make"},
	{"\x7fELF", "is an ELF program, not a packed matrix"},
	{"PK\x03\x04", "is a zip archive (a PyTorch checkpoint is one), not a packed matrix"},
	{"\x1f\x8b", "is a gzip file, not a packed matrix: unpack it first"},
	{"\x28\xb5\x2f\xfd", "is a zstd file, not a packed matrix: unpack it first"},
}
