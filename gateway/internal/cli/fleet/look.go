package fleet

import (
	"strings"

	"muster/gateway/internal/cli/screen"
)

// look is what a terminal can show.
type look struct {
	color bool // colours; what is marked is marked without them too
	shade bool // reversed and faint text
	utf8  bool
}

// Codes of SGR (ECMA-48, 8.3.117).
const (
	codeStrong  = "1"
	codeFaint   = "2"
	codeReverse = "7"
	codeRed     = "31"
	codeGreen   = "32"
	codeYellow  = "33"
	codeCyan    = "36"
)

// lookOf reads the environment: its language, and whether a person wants colours. plain: escape codes are not wanted at all.
func lookOf(getenv func(string) string, plain bool) look {
	l := look{shade: !plain, color: !plain && getenv("NO_COLOR") == ""}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(name)); locale != "" {
			l.utf8 = strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
			break
		}
	}
	return l
}

// paint gives a text a code.
func (l look) paint(code, text string) string {
	isColor := code != codeStrong && code != codeFaint && code != codeReverse
	if code == "" || text == "" || isColor && !l.color || !l.shade {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// safe is a text of others as this terminal can show it.
func (l look) safe(text string) string {
	text = screen.Printable(text)
	if l.utf8 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r > '~' {
			return '?'
		}
		return r
	}, text)
}

// fit makes a safe text as wide as it says: it is cut, or filled with spaces.
func (l look) fit(text string, columns int) string {
	text = l.cut(text, columns)
	return text + strings.Repeat(" ", max(columns-screen.Width(text), 0))
}

func (l look) cut(text string, columns int) string {
	if l.utf8 || screen.Width(text) <= columns {
		return screen.Cut(text, columns)
	}
	if columns < 1 {
		return ""
	}
	return text[:columns-1] + "~" // each byte is a character: see safe
}

// levels of a bar that is one character.
const (
	blocks = "▁▂▃▄▅▆▇█"
	digits = "0123456789"
)

// level is a share in percent as one character.
func (l look) level(percent float64) string {
	steps := []rune(digits)
	if l.utf8 {
		steps = []rune(blocks)
	}
	i := int(percent / 100 * float64(len(steps)))
	return string(steps[max(0, min(i, len(steps)-1))])
}

// bar is a share in percent on so many columns.
func (l look) bar(percent *float64, columns int) string {
	full, empty := "#", "."
	if l.utf8 {
		full, empty = "█", "░"
	}
	if percent == nil {
		return l.fit(screen.Unknown, columns)
	}
	n := int(*percent/100*float64(columns) + 0.5)
	n = max(0, min(n, columns))
	return strings.Repeat(full, n) + strings.Repeat(empty, columns-n)
}
