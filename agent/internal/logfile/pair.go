package logfile

import (
	"bytes"
	"slices"
	"sort"
	"strings"
)

// pairs finds values behind names that say what they are: NAME=value, "name": "value", name: value, and headers.
func pairs(text []byte) []span {
	var found []span
	start := 0
	for line := range bytes.Lines(text) {
		stops := names(line)
		for at, c := range line {
			if c != '=' && c != ':' {
				continue
			}
			if from, to := pair(line, at, stops); from < to {
				found = append(found, span{start + from, start + to})
			}
		}
		start += len(line)
	}
	return found
}

// names are where a blank and a NAME= begin.
func names(line []byte) (all []int) {
	for at := 0; at+1 < len(line); at++ {
		rest := line[at+1:]
		if line[at] != ' ' && line[at] != '\t' || strings.IndexByte("0123456789.-", rest[0]) >= 0 {
			continue
		}
		if n := run(rest, "_.-"); n > 0 && n < len(rest) && rest[n] == '=' {
			all = append(all, at)
			at += n + 1
		}
	}
	return all
}

// pair is the value behind the separator at a place of a line, empty if it is no secret. stops are where a NAME= begins.
func pair(line []byte, at int, stops []int) (from, to int) {
	name := strings.ToLower(nameBefore(line[:at]))
	if name == "" {
		return 0, 0
	}
	from = at + 1
	for from < len(line) && (line[from] == ' ' || line[from] == '\t') {
		from++
	}
	end := len(bytes.TrimRight(line, "\r\n"))
	switch {
	case from >= end:
		return 0, 0
	case strings.Contains(name, "authorization") || strings.Contains(name, "cookie"):
		return from, end // it may hold blanks and quotes
	case !secretName(name, line[at] == ':'):
		return 0, 0
	}
	return value(line, from, end, stops)
}

// nameBefore is the name at the end of a text. It may stand in quotes, and blanks may follow it.
func nameBefore(text []byte) string {
	text = bytes.TrimRight(text, " \t")
	text = bytes.TrimRight(text, `"'\`)
	from := len(text)
	for from > 0 && len(text)-from < 128 && (letter(text[from-1]) || strings.IndexByte("_.-", text[from-1]) >= 0) {
		from--
	}
	return string(text[from:])
}

// secretWords stand in the names of secrets.
func secretWords() []string {
	return []string{"token", "secret", "passw", "passphrase", "passcode", "psk", "credential", "apikey", "api-key"}
}

// secretName tells whether a name is that of a secret. A colon stands in plain sentences too, so the word key in front of one counts
// only at the end of the name.
func secretName(name string, colon bool) bool {
	for _, word := range secretWords() {
		if strings.Contains(name, word) {
			return true
		}
	}
	if strings.HasSuffix(name, "key_id") || strings.HasSuffix(name, "keyid") {
		return false
	}
	if colon {
		return strings.HasSuffix(name, "key")
	}
	return strings.Contains(name, "key")
}

// value is where a value ends: at its closing quote, or in front of the next NAME=, or with the line.
func value(line []byte, from, end int, stops []int) (int, int) {
	for _, quote := range []string{`\\\"`, `\"`, `"`, `\'`, `'`, "`"} {
		if !bytes.HasPrefix(line[from:end], []byte(quote)) {
			continue
		}
		from += len(quote)
		if at := closing(line[from:end], quote); at >= 0 {
			return from, from + at
		}
		return from, end
	}
	next := sort.Search(len(stops), func(i int) bool { return stops[i] >= from })
	if next < len(stops) && stops[next] < end {
		return from, stops[next]
	}
	return from, end
}

// closing finds the quote that ends a value. One behind a backslash belongs to the value, unless all quotes stand behind one.
func closing(text []byte, quote string) int {
	for at := 0; at < len(text); at++ {
		if bytes.HasPrefix(text[at:], []byte(quote)) {
			return at
		}
		if text[at] == '\\' && len(quote) == 1 {
			at++
		}
	}
	return -1
}

// flags finds values behind the flags of a command line.
func flags(text []byte) (found []span) {
	lower := lowered(text)
	for at := 0; ; {
		next := bytes.IndexByte(text[at:], '-')
		if next < 0 {
			return found
		}
		at += next + 1
		name := lower[at : at+run(text[at:], "-")]
		at += len(name)
		rest := bytes.TrimLeft(text[at:], " \t")
		from := len(text) - len(rest)
		secret := func(word string) bool { return bytes.Contains(name, []byte(word)) }
		if from == at || !slices.ContainsFunc(secretWords(), secret) {
			continue
		}
		at = from
		to := from + len(until(rest, " \t\r\n"))
		if from < to && (text[from] == '"' || text[from] == '\'') {
			end := from + len(until(rest, "\r\n"))
			from, to = value(text[:end], from, end, nil)
		}
		found = append(found, span{from, to})
	}
}
