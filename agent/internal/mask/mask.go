// Package mask hides values that are known to be secret in what people read.
package mask

import (
	"bytes"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"sync"
)

// Masked stands in for a secret in what people read.
const Masked = "[secret]"

// Mask hides secrets in texts. The zero value hides nothing.
type Mask struct {
	secrets [][]byte  // the longest first
	first   [256]bool // the bytes that they begin with
}

// New makes a Mask that hides values, the single lines of a value with several, and the form in which a registry's client sends them.
func New(values ...string) Mask {
	var all []string
	for _, value := range values {
		all = append(all, value, base64.StdEncoding.EncodeToString([]byte(value)))
		for line := range strings.Lines(value) {
			all = append(all, strings.TrimRight(line, "\r\n"))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	var m Mask
	for _, text := range all {
		if strings.TrimSpace(text) != "" {
			m.secrets = append(m.secrets, []byte(text))
			m.first[text[0]] = true
		}
	}
	return m
}

// Text returns a whole text without the secrets.
func (m Mask) Text(s string) string {
	clean, _ := m.clean([]byte(s), true)
	return string(clean)
}

// clean hides the secrets in data. If more data may follow, it gives back as rest what could be the beginning of a secret.
func (m Mask) clean(data []byte, whole bool) (clean, rest []byte) {
	for len(data) > 0 {
		next := slices.IndexFunc(data, func(c byte) bool { return m.first[c] })
		if next < 0 {
			return append(clean, data...), nil
		}
		clean = append(clean, data[:next]...)
		data = data[next:]
		length, more := m.match(data)
		switch {
		case more && !whole:
			return clean, data
		case length > 0:
			clean = append(clean, Masked...)
			data = data[length:]
		default:
			clean = append(clean, data[0])
			data = data[1:]
		}
	}
	return clean, nil
}

// match is the length of the longest secret that data begins with. more says that data is the beginning of a longer one.
func (m Mask) match(data []byte) (length int, more bool) {
	for _, secret := range m.secrets {
		if bytes.HasPrefix(data, secret) {
			return len(secret), more
		}
		more = more || bytes.HasPrefix(secret, data)
	}
	return 0, more
}

// Veil hides secrets in what is written through it, even if a secret comes in several pieces.
type Veil struct {
	Mask
	To   io.Writer
	mu   sync.Mutex
	held []byte // what could be the beginning of a secret
}

// Write passes on the bytes that surely have no part of a secret.
func (v *Veil) Write(data []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	clean, rest := v.clean(append(v.held, data...), false)
	v.held = slices.Clone(rest)
	_, err := v.To.Write(clean)
	return len(data), err
}

// Flush passes on what was held back, once nothing more can follow.
func (v *Veil) Flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clean, _ := v.clean(v.held, true)
	v.held = nil
	_, _ = v.To.Write(clean) // a job's output never fails
}
