package reply

import (
	"bytes"
	"encoding/json"
)

// Texts are the strings of a JSON body that have at least this many bytes, names of members too, or all of a body that is no JSON
// object. It is for looking for what should not be there, so it reads what it can of JSON that is broken.
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

// stringEnd is the length of the string that a text begins with, quotes included; all of the text where it has no end.
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
