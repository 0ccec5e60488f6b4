package sample

import "testing"

func TestClamp(t *testing.T) {
	for x, want := range map[int]int{-1: 0, 3: 3, 9: 8} {
		if got := Clamp(x); got != want {
			t.Errorf("Clamp(%d) is %d, want %d", x, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	if n := Count([]int{1, 5, 9}, 6); n != 2 {
		t.Errorf("counted %d", n)
	}
}

func TestName(t *testing.T) {
	b := &Box[int]{}
	b.None(1)
	if name := b.Name(1); name != "" {
		t.Error(name)
	}
	b.of = []int{1}
	if name := b.Name(1, "a"); name != "box a" {
		t.Error(name)
	}
}

func TestTwice(t *testing.T) {
	if x := Twice(25); x != 100 {
		t.Error(x)
	}
}
