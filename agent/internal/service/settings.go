package service

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"muster/agent/wire"
)

// maxSettings bounds a settings file, in bytes.
const maxSettings = 64 << 10

// Settings are the variables that the agent is started with. No secret is among them.
type Settings map[string]string

// ReadSettings reads a settings file. If there is no file, there are no settings.
func ReadSettings(path string) (Settings, error) {
	raw, err := os.ReadFile(path)
	// ENOTDIR: a home may be /dev/null. SaveSettings says what is wrong with it.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Settings{}, nil
	}
	if err != nil {
		return nil, explain(path, err)
	}
	settings, err := ParseSettings(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: mend the line, or remove the file and join again", path, err)
	}
	return settings, nil
}

// ParseSettings reads lines of NAME=value. The value may be in single quotes, or in double quotes as a shell and systemd read them.
// Empty lines and lines that begin with # are skipped.
func ParseSettings(raw []byte) (Settings, error) {
	if len(raw) > maxSettings {
		return nil, fmt.Errorf("more than %d bytes are no settings", maxSettings)
	}
	out := Settings{}
	number := 0
	for line := range bytes.Lines(raw) {
		number++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		value, whole := unquote(value)
		if !ok || !whole || !isVariable(name) || !settable(value) {
			return nil, fmt.Errorf("line %d is not NAME=value", number)
		}
		out[name] = value
	}
	return out, nil
}

// Format writes the settings so that ParseSettings, systemd and a shell read the same from them. It leaves credentials out.
func (s Settings) Format() []byte {
	var out bytes.Buffer
	out.WriteString("# The settings of muster-agent. Its joining command writes them; a token never stands here.\n")
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !wire.EnvSecret(name) && isVariable(name) && settable(s[name]) {
			fmt.Fprintf(&out, "%s=%s\n", name, quote(s[name]))
		}
	}
	return out.Bytes()
}

// Environ returns the settings in the form of os.Environ.
func (s Settings) Environ() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !wire.EnvSecret(name) {
			out = append(out, name+"="+s[name])
		}
	}
	return out
}

func isVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// settable reports whether a value is one line of text.
func settable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}

// special are the characters with a meaning within double quotes.
const special = "\"\\$`"

// quote writes a value in double quotes where it needs them. systemd and shells agree on the escapes of these four characters.
func quote(value string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("/:._-+@,=%", r)
	}
	if value != "" && strings.IndexFunc(value, func(r rune) bool { return !plain(r) }) < 0 {
		return value
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range value {
		if strings.ContainsRune(special, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	out.WriteByte('"')
	return out.String()
}

// unquote is the reverse of quote, and reads single quotes too. ok is false for text that systemd and a shell might read differently.
func unquote(text string) (value string, ok bool) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return text, !strings.ContainsAny(text, "\"'\\`$")
	}
	end := text[0]
	if len(text) < 2 || text[len(text)-1] != end {
		return "", false
	}
	inner := text[1 : len(text)-1]
	if end == '\'' {
		return inner, !strings.Contains(inner, "'")
	}
	var out strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '\\' && i+1 < len(inner) && strings.IndexByte(special, inner[i+1]) >= 0:
			i++
			out.WriteByte(inner[i])
		case strings.IndexByte(special, c) >= 0 && c != '\\', c == '\\' && i+1 == len(inner):
			return "", false
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), true
}

// SaveSettings writes the settings file (0600) and notes the folders that it made.
func (m Manager) SaveSettings(s Settings) error {
	path := m.path(m.Settings)
	if content := s.Format(); !same(path, content) {
		if err := m.makeFolder(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return m.replace(path, content, 0o600)
	}
	return explain(path, os.Chmod(path, 0o600))
}

// LoadSettings reads the settings file. If no place for one is known, there are no settings.
func (m Manager) LoadSettings() (Settings, error) {
	if m.Settings == "" {
		return Settings{}, nil
	}
	return ReadSettings(m.path(m.Settings))
}

// Equal compares the settings as they would be written.
func (s Settings) Equal(other Settings) bool { return bytes.Equal(s.Format(), other.Format()) }

// Or returns a getenv that looks in an environment first, and then in the settings for a variable of this program. It never takes a
// credential from the settings.
func (s Settings) Or(getenv func(string) string) func(string) string {
	return func(name string) string {
		if value := getenv(name); value != "" || wire.EnvSecret(name) || !strings.HasPrefix(name, wire.EnvPrefix) {
			return value
		}
		return s[name]
	}
}
