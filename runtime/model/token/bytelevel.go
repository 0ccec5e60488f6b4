package token

import "unicode/utf8"

// Byte-level BPE writes the bytes of its tokens as characters that can be seen: a byte that is a visible character of
// Latin-1 as this character, the others, in ascending order, as U+0100 and up.

// byteOf finds the byte that a character stands for, or -1.
var byteOf = func() (of [0x144]int16) {
	hidden := rune(0x100)
	for i := range of {
		of[i] = -1
	}
	for b := range rune(256) {
		if '!' <= b && b <= '~' || 0xa1 <= b && b <= 0xff && b != 0xad {
			of[b] = int16(b)
		} else {
			of[hidden] = int16(b)
			hidden++
		}
	}
	return of
}()

// appendBytes appends the bytes that a text of byte-level BPE stands for. ok is false if it has other characters; these
// stand for themselves.
func appendBytes(dst []byte, text string) (_ []byte, ok bool) {
	ok = true
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRuneInString(text[i:])
		if int(c) < len(byteOf) && byteOf[c] >= 0 {
			dst = append(dst, byte(byteOf[c]))
		} else {
			dst, ok = append(dst, text[i:i+n]...), false
		}
		i += n
	}
	return dst, ok
}
