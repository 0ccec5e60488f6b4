package amd64

import (
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Expand rewrites what x86 does otherwise than the shared expansions.
func (t target) Expand(b *lower.Builder, in *vir.Instr) []*vir.Instr {
	return nil
}
