package format

import "fmt"

// Error is a caller's fault: the thing that is wrong, what is wrong with it and,
// where there is one, the remedy. It prints on one line.
type Error struct {
	Thing   string // "weight w9", "row 3, block 7", "argument scales"
	Problem string
}

func (e *Error) Error() string { return "format: " + e.Thing + ": " + e.Problem }

func errorf(thing, problem string, args ...any) error {
	return &Error{thing, fmt.Sprintf(problem, args...)}
}

// MarshalText writes d as it prints: "f16".
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes, except for Invalid.
func (d *DType) UnmarshalText(text []byte) error {
	for i := U8; int(i) < len(dtypes); i++ {
		if dtypes[i].name == string(text) {
			*d = i
			return nil
		}
	}
	return errorf(fmt.Sprintf("type %q", text), "unknown; there are u8, i8, u16, i16, u32, i32, f16 and f32")
}

var pers = [...]string{PerTensor: "tensor", PerRow: "row", PerGroup: "group"}

func (p Per) String() string {
	if int(p) >= len(pers) {
		return fmt.Sprintf("Per(%d)", uint8(p))
	}
	return pers[p]
}

// MarshalText writes p as it prints: "group".
func (p Per) MarshalText() ([]byte, error) {
	if int(p) >= len(pers) {
		return nil, errorf(p.String(), "no such scale granularity")
	}
	return []byte(pers[p]), nil
}

// UnmarshalText reads what MarshalText writes.
func (p *Per) UnmarshalText(text []byte) error {
	for i, name := range pers {
		if name == string(text) {
			*p = Per(i)
			return nil
		}
	}
	return errorf(fmt.Sprintf("per %q", text), "unknown; a scale is per tensor, row or group")
}
