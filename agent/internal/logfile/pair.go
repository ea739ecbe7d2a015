package logfile

import (
	"bytes"
	"sort"
	"strings"
)

// pairs finds values behind names that say what they are: NAME=value, "name": "value", name: value, and headers.
func (f *forms) pairs(text []byte) []span {
	var found []span
	start := 0
	for line := range bytes.Lines(text) {
		var stops [][]int
		if bytes.IndexByte(line, '=') >= 0 {
			stops = f.next.FindAllIndex(line, -1)
		}
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

// pair is the value behind the separator at a place of a line, empty if it is no secret. stops are where a NAME= begins.
func pair(line []byte, at int, stops [][]int) (from, to int) {
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
func value(line []byte, from, end int, stops [][]int) (int, int) {
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
	behind := sort.Search(len(stops), func(i int) bool { return stops[i][0] >= from })
	if behind < len(stops) && stops[behind][0] < end {
		return from, stops[behind][0]
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
func (f *forms) flags(text []byte) []span {
	var found []span
	for _, at := range f.flag.FindAllIndex(text, -1) {
		end := len(text)
		if stop := bytes.IndexAny(text[at[1]:], "\r\n"); stop >= 0 {
			end = at[1] + stop
		}
		from, to := at[1], end
		if quoted := bytes.IndexByte([]byte(`"'`), text[min(from, len(text)-1)]); quoted >= 0 && from < end {
			from, to = value(text[:end], from, end, nil)
		} else if stop := bytes.IndexAny(text[from:end], " \t"); stop >= 0 {
			to = from + stop
		}
		found = append(found, span{from, to})
	}
	return found
}
