package logfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
)

const (
	// stars stand in the place of a secret.
	stars = "***"
	// longest is the length of a line that is looked into. A longer one is left out: nobody reads it, and the search would take long.
	longest = 8 << 10
	// leastKnown is the length of a known secret that is looked for. A shorter one would be found everywhere.
	leastKnown = 6
)

// Masker masks texts that look like a secret, and the secrets that it was told. NewMasker makes it. It is safe for concurrent use.
type Masker struct {
	known []string
}

// NewMasker makes a masker that also knows these secrets. Those with several lines are looked for line by line.
func NewMasker(secrets ...string) Masker {
	var m Masker
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			line = strings.TrimSpace(line)
			for _, form := range []string{line, url.QueryEscape(line), url.PathEscape(line)} {
				if len(form) >= leastKnown && !slices.Contains(m.known, form) {
					m.known = append(m.known, form)
				}
			}
		}
	}
	return m
}

// span is a part of a text.
type span struct{ from, to int }

// Text returns a text without its secrets.
func (m Masker) Text(text []byte) []byte {
	text = shorten(text)
	return hide(text, m.spans(text))
}

// spans are where the secrets of a text are.
func (m Masker) spans(text []byte) []span {
	lower := lowered(text)
	var found []span
	for _, one := range m.rules() {
		holds := func(word string) bool { return bytes.Contains(lower, []byte(word)) }
		if one.words == nil || slices.ContainsFunc(one.words, holds) {
			found = append(found, one.find(text)...)
		}
	}
	return found
}

// hide puts stars in the place of parts of a text.
func hide(text []byte, found []span) []byte {
	sort.Slice(found, func(i, j int) bool { return found[i].from < found[j].from })
	var out bytes.Buffer
	at := 0
	for _, one := range found {
		if one.to <= at || one.from == one.to {
			continue
		}
		if one.from >= at {
			out.Write(text[at:one.from])
			out.WriteString(stars)
		}
		at = one.to
	}
	out.Write(text[at:])
	return out.Bytes()
}

// rule finds one kind of secrets.
type rule struct {
	words []string // in small letters; without any of them there is nothing to find, and they are found fast. nil: look always
	find  func(text []byte) []span
}

func (m Masker) rules() []rule {
	return []rule{
		{nil, m.knownOnes},
		{tokenKinds(), tokens},
		{[]string{"private key"}, privateKeys},
		{nil, bareKeys},
		{nil, pairs},
		{secretWords(), flags},
		{[]string{"bearer", "basic"}, schemes},
		{[]string{"://"}, userinfos},
		{[]string{"eyj"}, webTokens},
		{otherKinds(), others},
	}
}

// lowered is a text with small letters. Only ASCII counts, so that all places stay what they are.
func lowered(text []byte) []byte {
	lower := bytes.Clone(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return lower
}

// JSON returns a JSON value without the secrets in its texts. The result is still JSON, whatever is masked.
func (m Masker) JSON(text []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(m.value("", value), "", "  ")
	return append(out, '\n'), err
}

// value masks what a name has.
func (m Masker) value(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for inner, one := range v {
			v[inner] = m.value(inner, one)
		}
	case []any:
		for i, one := range v {
			v[i] = m.value(name, one)
		}
	case string:
		if v != "" && secretName(strings.ToLower(name), false) {
			return stars
		}
		return string(m.Text([]byte(v)))
	}
	return value
}

// shorten leaves out lines that are too long.
func shorten(text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		if len(line) > longest {
			fmt.Fprintf(&out, "(a line of %d bytes was left out)\n", len(line))
			continue
		}
		out.Write(line)
	}
	return out.Bytes()
}

func (m Masker) knownOnes(text []byte) []span {
	var found []span
	for _, secret := range m.known {
		for at := 0; ; {
			next := bytes.Index(text[at:], []byte(secret))
			if next < 0 {
				break
			}
			found = append(found, span{at + next, at + next + len(secret)})
			at += next + 1
		}
	}
	return found
}
