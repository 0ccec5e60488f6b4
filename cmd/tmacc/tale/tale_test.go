package tale

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The file is the one that README.md describes.
func TestOpen(t *testing.T) {
	f, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if arch, err := f.Text("general.architecture"); err != nil || arch != "bitnet" {
		t.Errorf("%q, %v", arch, err)
	}
	data, err := f.Tensor("token_embd.weight").Bytes()
	if err != nil || len(data) == 0 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(file))
	bytes := fmt.Sprintf("%d,%03d,%03d bytes", len(file)/1e6, len(file)/1e3%1e3, len(file)%1e3)
	if text := string(readme); !strings.Contains(text, hex.EncodeToString(sum[:])) || !strings.Contains(text, bytes) {
		t.Errorf("README.md does not describe a file of %s with sum %x", bytes, sum)
	}
}
