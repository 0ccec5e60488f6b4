package arm64

import (
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Expand rewrites what NEON does in more than one instruction.
func (t target) Expand(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	return nil
}
