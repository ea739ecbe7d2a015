package command

import (
	"strings"
	"unicode/utf8"

	"muster/agent/wire"
)

// printable reports whether a name can be sent. The gateway decides whether it takes the name: see wire.CheckName.
func printable(name string) bool {
	control := func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }
	return utf8.ValidString(name) && utf8.RuneCountInString(name) <= wire.MaxNameLength && !strings.ContainsFunc(name, control)
}

// DefaultName returns the name of a node for which nobody has given one: provider and instance id, or else the hostname. Characters that a
// name may not have become dashes. It is empty if neither is known.
func DefaultName(provider, instanceID, hostname string) string {
	base := hostname
	if instanceID != "" {
		base = strings.Trim(provider+"-"+instanceID, "-")
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		}
		return '-'
	}, base)
	if len(clean) > wire.MaxNameLength {
		clean = clean[:wire.MaxNameLength]
	}
	return strings.Trim(clean, "-.")
}
