package abi

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// scaled is an operator of two tensors; the second has rows.
var scaled = Operator{Name: "scaled", Axes: 2, Sizes: []OperatorSize{{Name: "K", Whole: 32}},
	Tensors: []OperatorTensor{{Name: "x", Elem: format.F32, Align: 16}, {Name: "out", Elem: format.F32, Align: 4, Written: true, Rows: true}},
	Push: []OperatorWord{{Kind: OffsetWord}, {Kind: OffsetWord, Tensor: 1}, {Kind: RowWord, Tensor: 1}, {Kind: CallWord, Tensor: 0, Axis: 1},
		{Kind: CallWord, Tensor: 1, Axis: 1}, {Kind: CountWord, Count: OperatorCount{Size: "K", Div: 32}}, {Kind: ValueWord, Value: 7}},
	Grid: []OperatorCount{{Size: "K", Div: 64}, {Axis: 0}, {Axis: 1}}}

// far is more than 32 bits hold, where an int does.
var far = math.MaxInt &^ 3

func call() *OperatorCall {
	return &OperatorCall{Sizes: map[string]int{"K": 96}, Calls: []int{3},
		Tensors: []OperatorPlace{{Offset: 16, Steps: []int{32, 48}}, {Offset: 4, Row: 400, Steps: []int{8}}}}
}

func TestOperatorWords(t *testing.T) {
	push, groups, err := scaled.Words(call())
	if err != nil {
		t.Fatal(err)
	}
	var words []int
	for ; len(push) > 0; push = push[4:] {
		words = append(words, int(binary.LittleEndian.Uint32(push)))
	}
	if want := []int{16, 4, 400, 48, 0, 3, 7}; !reflect.DeepEqual(words, want) || groups != [3]int{2, 3, 1} {
		t.Errorf("%v in groups %v, want %v", words, groups, want)
	}
	if scaled.Tensor("out") != 1 || scaled.Tensor("y") != -1 {
		t.Error("tensors are not found by their names")
	}
}

// TestOperatorErrors: each wrong call is told from the others.
func TestOperatorErrors(t *testing.T) {
	for want, wrong := range map[string]func(c *OperatorCall){
		"size K is 90: want a multiple of 32":                                           func(c *OperatorCall) { c.Sizes["K"] = 90 },
		"size K is 0: want a multiple of 32":                                            func(c *OperatorCall) { c.Sizes = nil },
		"1 tensors and 1 axes of calls: want 2, and at most 2":                          func(c *OperatorCall) { c.Tensors = c.Tensors[:1] },
		"has no calls along an axis: want at least one":                                 func(c *OperatorCall) { c.Calls[0] = 0 },
		"tensor x: offset 20, rows 0 and steps [32 48]: want multiples of 16 from 0 on": func(c *OperatorCall) { c.Tensors[0].Offset = 20 },
		"tensor out: offset 4, rows 402 and steps [8]: want multiples of 4 from 0 on":   func(c *OperatorCall) { c.Tensors[1].Row = 402 },
		"tensor x has 3 steps: at most 2":                                               func(c *OperatorCall) { c.Tensors[0].Steps = []int{0, 0, 0} },
		fmt.Sprintf("push constant 1 is %d, which does not fit 32 bits", far):           func(c *OperatorCall) { c.Tensors[1].Offset = far },
		"tensor out: offset -4, rows 400 and steps [8]: want multiples of 4 from 0 on":  func(c *OperatorCall) { c.Tensors[1].Offset = -4 },
	} {
		c := call()
		if wrong(c); strconv.IntSize == 32 && strings.HasPrefix(want, "push") {
			continue
		}
		if _, _, err := scaled.Words(c); err == nil || strings.TrimPrefix(err.Error(), "operator scaled: ") != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
