package token

// split cuts a text into parts, which it gives to a function in their order.
type split func(text string, part func(string))

// matcher returns the bytes of what it matches at the beginning of a text, or 0.
type matcher func(s string) int

// matches cuts at each match. The text between two matches is a part, too.
func matches(match matcher) split {
	return func(text string, part func(string)) {
		begin, at := 0, 0
		for at < len(text) {
			n := match(text[at:])
			if n == 0 {
				at += characterBytes(text[at])
				continue
			}
			if begin < at {
				part(text[begin:at])
			}
			part(text[at : at+n])
			at += n
			begin = at
		}
		if begin < len(text) {
			part(text[begin:])
		}
	}
}

// digits matches digits, at most a number of them; 0: any number.
func digits(most int) matcher {
	return func(s string) int { return run(s, digit, most) }
}
