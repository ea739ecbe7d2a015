package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// unknown stands for what is not known: never a zero.
const unknown = "-"

// table writes aligned rows. Widths only grow, so that a list can be written page by page.
type table struct {
	w      io.Writer
	widths []int
	err    error // the first that writing met
}

// measure makes room for a row.
func (t *table) measure(row []string) {
	for i, cell := range row {
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], width(cell))
	}
}

// write writes one row; nothing pads the last cell.
func (t *table) write(row []string) {
	t.measure(row)
	var line strings.Builder
	for i, cell := range row {
		line.WriteString(cell)
		if i < len(row)-1 {
			line.WriteString(strings.Repeat(" ", t.widths[i]-width(cell)+2))
		}
	}
	if _, err := io.WriteString(t.w, strings.TrimRight(line.String(), " ")+"\n"); t.err == nil {
		t.err = err
	}
}

// width is how many columns of a terminal a text takes.
func width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case wide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

// wide tells the runes that take two columns (Unicode TR 11, the blocks in use).
func wide(r rune) bool {
	switch {
	case r < 0x1100:
		return false
	case r <= 0x115f, r >= 0x2e80 && r <= 0x303e, r >= 0x3041 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f900 && r <= 0x1f9ff, r >= 0x20000 && r <= 0x3fffd:
		return true
	}
	return false
}

// printable escapes what could make a terminal do something: text from nodes and gateways goes through here.
func printable(s string) string {
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

func unsafeRune(r rune) bool {
	return r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) || r != ' ' && unicode.Is(unicode.Z, r)
}

// printableJSON escapes the controls that JSON allows unescaped inside strings, DEL and the C1 set, so that JSON can be
// shown on a terminal, and what runs something between the double quotes of a shell. It stays the same JSON.
func printableJSON(raw []byte) []byte {
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

// orUnknown is the text made safe to print, or - where there is none.
func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return printable(s)
}

// age is a duration as people say it: 12s, 4m, 3h, 2d.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// plural is "1 node" or "3 nodes".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
