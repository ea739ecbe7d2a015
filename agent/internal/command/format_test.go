package command_test

import (
	"slices"
	"strings"
	"testing"

	"muster/agent/internal/command"
)

// TestFold: lines are as long as was asked for, and a command behind a colon stays whole.
func TestFold(t *testing.T) {
	word := strings.Repeat("w", 30)
	for text, want := range map[string][]string{
		"":                            {""},
		"short":                       {"short"},
		"one two three four five six": {"one two three four", "five six"},
		"let it in with: muster node allow-recovery": {"let it in with:", "muster node", "allow-recovery"},
		"say this, then go on and on":                {"say this, then go on", "and on"},
		"so it is here, then on it goes":             {"so it is here,", "then on it goes"},
		word + " and " + word:                        {word, "and", word},
		" " + word:                                   {" " + word},
	} {
		if got := command.Fold(text, 20); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
