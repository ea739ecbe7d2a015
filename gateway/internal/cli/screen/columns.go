package screen

import "unicode"

// Width returns how many columns of a terminal a text takes. The text must have no control characters: they have no width of their own.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += Of(r)
	}
	return n
}

// Of returns how many columns a character takes: 0 if it is drawn over the character before it, 2 if it is wide (Unicode TR 11, the blocks
// in use).
func Of(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r < 0x1100:
		return 1
	case r <= 0x115f, r >= 0x2e80 && r <= 0x303e, r >= 0x3041 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f900 && r <= 0x1f9ff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}
