#include "textflag.h"

// func call(entry uintptr, args unsafe.Pointer)
//
// Not NOSPLIT and with a large frame: the stack grows here, so that the callee,
// which is NOSPLIT and unknown to the runtime, has 60 KB below it.
TEXT ·call(SB), 0, $61440-16
	MOVD entry+0(FP), R1
	MOVD args+8(FP), R0
	MOVD R0, 8(RSP)
	ISB $15 // another core may have made the code fetchable
	CALL (R1)
	RET

// func fetchable(from unsafe.Pointer, n int)
//
// Cleans data caches to where instructions are fetched from, line by line, and then
// drops what instruction caches have, as the Arm Architecture Reference Manual has it
// for self-modifying code (B2, "Concurrent modification and execution of instructions"). CTR_EL0 has the logarithms of the lines' sizes, in words.
TEXT ·fetchable(SB), NOSPLIT, $0-16
	MOVD from+0(FP), R0
	MOVD n+8(FP), R1
	ADD R0, R1, R1 // the end
	MRS CTR_EL0, R2
	MOVD $4, R4
	UBFX $16, R2, $4, R3 // DminLine
	LSL R3, R4, R3
	UBFX $0, R2, $4, R2 // IminLine
	LSL R2, R4, R2
	SUB $1, R3, R5
	BIC R5, R0, R6
clean:
	WORD $0xd50b7b26 // dc cvau, x6
	ADD R3, R6, R6
	CMP R1, R6
	BLO clean
	DSB $11 // ish
	SUB $1, R2, R5
	BIC R5, R0, R6
drop:
	WORD $0xd50b7526 // ic ivau, x6
	ADD R2, R6, R6
	CMP R1, R6
	BLO drop
	DSB $11 // ish
	ISB $15
	RET
