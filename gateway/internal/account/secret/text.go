package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"iter"
	"net/url"
	"strings"
)

// Texts returns the strings of a JSON body that have at least this many bytes, including the names of members. A body that is no JSON
// object is one text. From broken JSON it reads what it can, because it is used to search for secrets.
func Texts(body []byte, least int) []string {
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return []string{string(body)}
	}
	var texts []string
	for {
		at := bytes.IndexByte(body, '"')
		if at < 0 {
			return texts
		}
		body = body[at:]
		end := stringEnd(body)
		if end > least { // most are shorter
			if text := stringOf(body[:end]); len(text) >= least {
				texts = append(texts, text)
			}
		}
		body = body[end:]
	}
}

// stringEnd is the length of the string at the beginning of a text, quotes included. A string without an end takes the whole text.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func stringOf(quoted []byte) string {
	var text string
	if bytes.IndexByte(quoted, '\\') >= 0 && json.Unmarshal(quoted, &text) == nil {
		return text
	}
	return string(bytes.Trim(quoted, `"`))
}

// Unescape undoes percent-encoding, twice at most. Malformed parts stay as they are. It is used to search for secrets, and not to read
// a request.
func Unescape(text string) string {
	for range 2 {
		if strings.IndexByte(text, '%') < 0 {
			break
		}
		text = unescapeOnce(text)
	}
	return text
}

func unescapeOnce(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if one, err := url.PathUnescape(text[i : i+3]); err == nil {
				out.WriteString(one)
				i += 2
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// Header returns all values of a header in one text. Encodings that could hide a token are undone.
func Header(values []string) string {
	if len(values) == 1 {
		return Unescape(credentials(values[0]))
	}
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = Unescape(credentials(value))
	}
	return strings.Join(texts, "\n")
}

// credentials decodes a token in base64 after the name of a scheme. The scheme Basic is written so (RFC 7617), and some clients do it
// for other schemes. Any other value stays as it is.
func credentials(value string) string {
	at := strings.IndexAny(value, " \t")
	if at < 0 {
		return value
	}
	text := strings.TrimRight(strings.TrimSpace(value[at:]), "=")
	for _, encoding := range [...]*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if plain, err := encoding.DecodeString(text); err == nil && HasToken(string(plain)) {
			return string(plain)
		}
	}
	return value
}

// Decoded returns the text that a header value has in base64 after the name of a scheme; empty: there is none.
func Decoded(value string) string {
	_, text, _ := strings.Cut(value, " ")
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	if err != nil {
		return ""
	}
	return string(plain)
}

// separators can come before and after a secret in a URL, a header, an assignment or a message.
const separators = " \t\r\n\"'`=:,;/&?()[]{}<>"

// Parts returns the parts of a text that may be a secret with at least this many bytes: the whole text, everything after the first
// separator (a secret that a person chose may have blanks), and every part between two separators.
func Parts(text string, least int) iter.Seq[string] {
	return func(yield func(string) bool) {
		text = strings.TrimSpace(text)
		at := strings.IndexAny(text, separators)
		if len(text) >= least && !yield(text) || at < 0 {
			return
		}
		if rest := strings.TrimSpace(text[at+1:]); len(rest) >= least && !yield(rest) {
			return
		}
		for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			if len(part) >= least && !yield(part) {
				return
			}
		}
	}
}
