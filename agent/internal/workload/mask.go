package workload

import (
	"bytes"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"sync"
)

// masked stands in for a secret in what people read.
const masked = "[secret]"

// mask hides secrets in texts.
type mask struct {
	secrets [][]byte  // the longest first
	first   [256]bool // the bytes that they begin with
}

// newMask hides values, the lines of a value that has several, and the form in which a registry's client sends them.
func newMask(values ...string) mask {
	var all []string
	for _, value := range values {
		all = append(all, value, base64.StdEncoding.EncodeToString([]byte(value)))
		for line := range strings.Lines(value) {
			all = append(all, strings.TrimRight(line, "\r\n"))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	var m mask
	for _, text := range all {
		if strings.TrimSpace(text) != "" {
			m.secrets = append(m.secrets, []byte(text))
			m.first[text[0]] = true
		}
	}
	return m
}

// text is a whole text without the secrets.
func (m mask) text(s string) string {
	clean, _ := m.clean([]byte(s), true)
	return string(clean)
}

// clean hides the secrets in data. If more data may follow, it gives back as rest what could be the beginning of a secret.
func (m mask) clean(data []byte, whole bool) (clean, rest []byte) {
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
			clean = append(clean, masked...)
			data = data[length:]
		default:
			clean = append(clean, data[0])
			data = data[1:]
		}
	}
	return clean, nil
}

// match is the length of the longest secret that data begins with. more says that data is the beginning of a longer one.
func (m mask) match(data []byte) (length int, more bool) {
	for _, secret := range m.secrets {
		if bytes.HasPrefix(data, secret) {
			return len(secret), more
		}
		more = more || bytes.HasPrefix(secret, data)
	}
	return 0, more
}

// veil hides secrets in what is written through it, also one that comes in several pieces.
type veil struct {
	mask
	to   io.Writer
	mu   sync.Mutex
	held []byte // what could be the beginning of a secret
}

// Write passes on what surely has no part of a secret.
func (v *veil) Write(data []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	clean, rest := v.clean(append(v.held, data...), false)
	v.held = slices.Clone(rest)
	_, err := v.to.Write(clean)
	return len(data), err
}

// flush passes on what was held back, once nothing more can follow.
func (v *veil) flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clean, _ := v.clean(v.held, true)
	v.held = nil
	_, _ = v.to.Write(clean) // a job's output never fails
}
