package cli

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"muster/agent/flags"
)

// Flags are the flags of one call.
type Flags struct{ flags.Set }

// split parts words from flags, which may stand anywhere; "--" ends them. behind are the words after it, nil if there is none.
func split(args []string) (words, behind []string, s Flags, err error) {
	s.All = allFlags()
	words, behind, err = s.Parse(args)
	var wrong *flags.Error
	if errors.As(err, &wrong) && wrong.Unknown != "" {
		wrong.Hint = notAsFlag(wrong.Unknown)
		if _, number := strconv.ParseFloat(wrong.Unknown, 64); number == nil {
			err = Usagef("numbers are from 0 up", "-%s is no flag, and no negative number can stand here", wrong.Unknown)
		}
	}
	return words, behind, s, err
}

// notAsFlag says how a secret is given; empty: the flag is about none.
func notAsFlag(name string) string {
	if name == "token" || name == "secret" || name == "psk" {
		return "secrets do not stand in arguments, which every user of the machine can read; use MUSTER_API_TOKEN, --token-file or --file"
	}
	return ""
}

// OneOf returns the flag's value, which must be one of the known words; usual if the flag is not set.
func (s *Flags) OneOf(name, usual string, known ...string) (string, error) {
	text := s.Text(name)
	if text == "" {
		return usual, nil
	}
	if !slices.Contains(known, text) {
		return "", s.Wrong(name, "one of "+strings.Join(known, ", "), "")
	}
	return text, nil
}

// Twice returns the error of a thing that was given two values, one of which would be lost.
func Twice(what, name string) error { return flags.Twice(what, name) }
