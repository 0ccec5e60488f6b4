// Package sample is what TestSample makes mutants of.
package sample

// Most is the most that Clamp gives.
const Most = 1 << 3

// Clamp is the number in 0..Most that is nearest to x.
func Clamp(x int) int {
	return max(0, min(x, Most))
}

// Count is how many of all lie below limit. Its test does not notice that limit is included.
func Count[T ~int](all []T, limit T) (n int) {
	for i := 0; i < len(all); i++ {
		if all[i] < limit {
			n++
		}
	}
	return n
}

// Box shows a method, names that are not there, and a mutant that does not compile.
type Box[T any] struct{ of []T }

// Name is text before text if there is something in the box.
func (b *Box[T]) Name(_ int, text ...string) string {
	if !(len(b.of) == 0) {
		return "box " + text[0]
	}
	return ""
}

// None has nothing to exchange.
func (*Box[T]) None(int) {}

// Twice doubles x until it is at least 100.
func Twice(x int) int {
	for x < 100 {
		x *= 2
	}
	return x
}
