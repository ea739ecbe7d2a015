package sign

import "strings"

// Classes of characters of RFC 8941.

func isSpace(c byte) bool { return c == ' ' }

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

func isKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '*'
}

func isBase64(c byte) bool { return isAlphanumeric(c) || c == '+' || c == '/' || c == '=' }

// isToken takes what may stand in a token, a number, a boolean or a date. None of these characters separates the items of a list.
func isToken(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/?@", c) >= 0
}

// isNonce takes what may stand in a quoted nonce without an escape.
func isNonce(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '\\' }

// lowerHex reports whether s is this many lower-case hexadecimal digits.
func lowerHex(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdef") == ""
}

// every reports whether all characters fit.
func every(s string, fits func(byte) bool) bool {
	for i := 0; i < len(s); i++ {
		if !fits(s[i]) {
			return false
		}
	}
	return true
}
