package reply

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// JSON encodes an answer, with a line feed at its end. Values that cannot be encoded are a programming error and panic.
//
// Somebody will pipe an answer into a root shell, for example a refusal that comes in the place of a script. To a shell a string of
// JSON is a text in double quotes, with the same rules for \" and \\. Only $ and ` can run something in there, so both are written
// as \u00xx.
func JSON(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("reply: " + err.Error())
	}
	body = bytes.ReplaceAll(body, []byte("$"), []byte(`\u0024`))
	body = bytes.ReplaceAll(body, []byte("`"), []byte(`\u0060`))
	return append(body, '\n')
}

// Inert encodes an answer that holds a script. In its strings no character stands raw that means something to any shell, so that
// nothing runs even if the quotes do not pair. The answer is one line, with a blank behind every comma outside of strings. So a
// shell takes the text before the first comma for a command, and its complaint names that text: a hint belongs there.
func Inert(v any) []byte {
	body := JSON(v)
	out := make([]byte, 0, 2*len(body))
	within := false // a string
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch {
		case c == '"':
			within = !within
			out = append(out, c)
		case within && c == '\\':
			i++
			out = append(out, plainEscape(body[i])...)
		case within && !inertByte(c):
			out = fmt.Appendf(out, `\u%04x`, c)
		case !within && c == ',':
			out = append(out, ", "...)
		default:
			out = append(out, c)
		}
	}
	return out
}

// plainEscape writes the escape \c of JSON (RFC 8259 section 7) so that only its backslash means something to a shell. The digits of
// \uXXXX follow by themselves.
func plainEscape(c byte) string {
	if at := bytes.IndexByte([]byte(`"\/bfnrt`), c); at >= 0 {
		return fmt.Sprintf(`\u%04x`, "\"\\/\b\f\n\r\t"[at])
	}
	return `\` + string(c)
}

// inertByte accepts bytes that no shell takes for anything but themselves. A blank only parts words.
func inertByte(c byte) bool {
	letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	return letter || c >= '0' && c <= '9' || c >= 0x80 || bytes.IndexByte([]byte(" .,:/_=+@%-"), c) >= 0
}
