package screen

import (
	"fmt"
	"strings"
	"unicode"
)

// Printable escapes what could make a terminal do something. All text that nodes and gateways send goes through here.
func Printable(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case !unsafeRune(r):
			out.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// PrintableLine does what Printable does, for a line of a program's output: tabs become spaces, and a carriage return at its end is left
// out.
func PrintableLine(s string) string {
	return Printable(strings.ReplaceAll(strings.TrimSuffix(s, "\r"), "\t", "    "))
}

func unsafeRune(r rune) bool {
	return r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) || r != ' ' && unicode.Is(unicode.Z, r)
}

// PrintableJSON escapes the controls that JSON allows unescaped inside strings (DEL and the C1 set), so that a terminal can show
// it. It also escapes what a shell would run between double quotes. The JSON means the same as before.
func PrintableJSON(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] == 0x7f, raw[i] == '$', raw[i] == '`':
			out = fmt.Appendf(out, `\u%04x`, raw[i])
		case raw[i] == 0xc2 && i+1 < len(raw) && raw[i+1] >= 0x80 && raw[i+1] < 0xa0:
			i++
			out = fmt.Appendf(out, `\u%04x`, raw[i])
		default:
			out = append(out, raw[i])
		}
	}
	return out
}
