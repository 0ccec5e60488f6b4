package grammar

import (
	"math/big"
	"strings"
)

// mostDigits is how many digits a number has on each side of the point, unless its bounds need more.
const mostDigits = 15

// power is 10^n.
func power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// within reports whether the facts allow a number.
func (f *facts) within(x *big.Rat) bool {
	if f.least != nil && (x.Cmp(f.least) < 0 || f.overLeast && x.Cmp(f.least) == 0) {
		return false
	}
	return f.most == nil || x.Cmp(f.most) < 0 || !f.underMost && x.Cmp(f.most) == 0
}

// number is a number that the facts demand. A number with bounds has no exponent.
func (s *schema) number(f *facts) (int32, error) {
	if f.types&isFraction != 0 && f.least == nil && f.most == nil {
		return s.freeNumber(), nil
	}
	var kids []int32
	if f.types&isInteger != 0 {
		if low, high := f.scaled(0); low.Cmp(high) <= 0 {
			kids = append(kids, s.whole(low, high, 0))
		}
	}
	if f.types&isFraction != 0 {
		if low, high, places := f.places(); low.Cmp(high) <= 0 {
			kids = append(kids, s.whole(low, high, places))
		}
	}
	return s.any(kids), nil
}

// freeNumber is a number without bounds.
func (s *schema) freeNumber() int32 {
	digit := s.oneByte(newByteSet('0', '9'))
	whole := s.choice(s.literal("0"), s.sequence(s.oneByte(newByteSet('1', '9')), s.repeat(digit, 0, mostDigits-1)))
	fraction := s.sequence(s.literal("."), s.repeat(digit, 1, mostDigits))
	e, sign := newByteSet('e', 'e').or(newByteSet('E', 'E')), newByteSet('+', '+').or(newByteSet('-', '-'))
	exponent := s.sequence(s.oneByte(e), s.optional(s.oneByte(sign)), s.repeat(digit, 1, 2))
	return s.sequence(s.optional(s.literal("-")), whole, s.optional(fraction), s.optional(exponent))
}

// places is the bounds of numbers with the same digits after the point: two, or more if there are few numbers with two.
func (f *facts) places() (low, high *big.Int, places int) {
	for places = 2; ; places++ {
		low, high = f.scaled(places)
		if many := new(big.Int).Add(low, big.NewInt(10)); many.Cmp(high) <= 0 || places == mostExponent+mostDigits {
			return low, high, places
		}
	}
}

// scaled is the bounds of numbers with a number of digits after the point, as whole numbers. A missing bound is far away.
func (f *facts) scaled(places int) (low, high *big.Int) {
	scale := new(big.Rat).SetInt(power(places))
	digits := mostDigits
	for _, x := range []*big.Rat{f.least, f.most} {
		if x != nil {
			whole := new(big.Int).Quo(x.Num(), x.Denom())
			digits = max(digits, len(whole.String())+1)
		}
	}
	far := new(big.Rat).SetInt(new(big.Int).Sub(power(digits), big.NewInt(1)))
	least, most := f.least, f.most
	if least == nil {
		least = new(big.Rat).Neg(far)
	}
	if most == nil {
		most = far
	}
	low, exact := ceiling(new(big.Rat).Mul(least, scale))
	if exact && f.overLeast && f.least != nil {
		low.Add(low, big.NewInt(1))
	}
	high, exact = ceiling(new(big.Rat).Neg(new(big.Rat).Mul(most, scale)))
	if high.Neg(high); exact && f.underMost && f.most != nil {
		high.Sub(high, big.NewInt(1))
	}
	return low, high
}

// ceiling is the least whole number that is not below x, and whether it is x.
func ceiling(x *big.Rat) (*big.Int, bool) {
	n := new(big.Int).Neg(x.Num())
	n.Div(n, x.Denom()) // rounds down
	return n.Neg(n), x.IsInt()
}

// whole is the numbers from low to high, with a point before the last places digits.
func (s *schema) whole(low, high *big.Int, places int) int32 {
	var kids []int32
	zero, one := new(big.Int), big.NewInt(1)
	if low.Sign() < 0 {
		nearest := one
		if high.Sign() < 0 {
			nearest = new(big.Int).Neg(high)
		}
		kids = append(kids, s.sequence(s.literal("-"), s.choice(s.lengths(nearest, new(big.Int).Neg(low), places)...)))
	}
	if high.Sign() >= 0 {
		if low.Sign() > 0 {
			zero = low
		}
		kids = append(kids, s.lengths(zero, high, places)...)
	}
	return s.choice(kids...)
}

// lengths is the numbers from low to high, which are not negative, by how many digits they have: at least one before the point.
func (s *schema) lengths(low, high *big.Int, places int) (kids []int32) {
	for n := places + 1; ; n++ {
		least, most := new(big.Int), new(big.Int).Sub(power(n), big.NewInt(1))
		if n > places+1 {
			least = power(n - 1)
		}
		if least.Cmp(high) > 0 {
			return kids
		}
		if from, to := larger(least, low), smaller(most, high); from.Cmp(to) <= 0 {
			kids = append(kids, s.digits(padded(from, n), padded(to, n), places))
		}
	}
}

func larger(x, y *big.Int) *big.Int {
	if x.Cmp(y) > 0 {
		return x
	}
	return y
}

func smaller(x, y *big.Int) *big.Int {
	if x.Cmp(y) < 0 {
		return x
	}
	return y
}

// padded is the n digits of a number.
func padded(x *big.Int, n int) string {
	text := x.String()
	return strings.Repeat("0", max(0, n-len(text))) + text
}

// digits is the numbers of the same length from low to high, with a point before the last places digits.
//
//	27 to 64   2 (7 to 9), (3 to 5) (0 to 9), 6 (0 to 4)
func (s *schema) digits(low, high string, places int) int32 {
	n := len(low)
	if n == 0 {
		return s.sequence()
	}
	if n == places {
		return s.sequence(s.literal("."), s.digits(low, high, -1))
	}
	zeros, nines := strings.Repeat("0", n-1), strings.Repeat("9", n-1)
	if low == "0"+zeros && high == "9"+nines {
		return s.anyDigits(n, places)
	}
	first, last := low[0], high[0]
	var kids []int32
	from := func(lo, hi byte, low, high string) {
		kids = append(kids, s.sequence(s.oneByte(newByteSet(lo, hi)), s.digits(low, high, places)))
	}
	switch {
	case first == last:
		from(first, last, low[1:], high[1:])
		return kids[0]
	case low[1:] != zeros:
		from(first, first, low[1:], nines)
		first++
	}
	end := high[1:] != nines
	if end {
		last--
	}
	if first <= last {
		from(first, last, zeros, nines)
	}
	if end {
		from(high[0], high[0], zeros, high[1:])
	}
	return s.choice(kids...)
}

// anyDigits is n digits, with a point before the last places digits, if there are more.
func (s *schema) anyDigits(n, places int) int32 {
	digit := s.oneByte(newByteSet('0', '9'))
	if places <= 0 || places > n {
		return s.repeat(digit, int32(n), int32(n))
	}
	fraction := s.repeat(digit, int32(places), int32(places))
	return s.sequence(s.repeat(digit, int32(n-places), int32(n-places)), s.literal("."), fraction)
}
