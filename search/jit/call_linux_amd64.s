#include "textflag.h"

// func call(entry uintptr, args unsafe.Pointer)
//
// Not NOSPLIT and with a large frame: the stack grows here, so that the callee,
// which is NOSPLIT and unknown to the runtime, has 60 KB below it.
TEXT ·call(SB), 0, $61440-16
	MOVQ entry+0(FP), AX
	MOVQ args+8(FP), BX
	MOVQ BX, 0(SP)
	CALL AX
	RET

// func fetchable(from unsafe.Pointer, n int)
//
// Instructions are fetched through caches that see what was written.
TEXT ·fetchable(SB), NOSPLIT, $0-16
	RET
