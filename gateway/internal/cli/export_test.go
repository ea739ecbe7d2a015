package cli

import (
	"fmt"
	"slices"
	"strings"

	pages "muster/gateway/internal/cli/help"
)

// FirstWord is the word of a command line that says what to do.
var FirstWord = firstWord

// Parses is nil if a command line, without the program's name, names a command and fits its usage. Serve's own line does.
func Parses(all []Command, line string) error {
	if line == serveName {
		return nil
	}
	if word, isHelp := strings.CutPrefix(line, helpName+" "); isHelp {
		if _, leads := pages.Find(word); !leads && word != helpPages {
			return fmt.Errorf("it leads nowhere")
		}
		return nil
	}
	words, behind, given, err := split(strings.Fields(line))
	if err != nil {
		return err
	}
	c, rest, _ := catalog(all).find(append(words, behind...))
	if c == nil {
		return fmt.Errorf("it names no command")
	}
	if c.Program {
		rest = rest[:max(len(rest)-len(behind), 0)]
	} else if behind != nil {
		return fmt.Errorf("muster %s runs no program", c.Name)
	}
	return c.check(given, rest)
}

// Known is true if the words name a command or a group, and are no argument in the place of a program, such as "run show".
func Known(all []Command, words string) bool {
	c, rest, known := catalog(all).find(strings.Fields(words))
	return known && !(c != nil && c.Program && IsGroup(all, c.Name) && len(rest) > 0)
}

// IsGroup is true if the words begin the names of commands.
func IsGroup(all []Command, words string) bool { return catalog(all).isGroup(strings.Fields(words)) }

// Groups are the words that commands have before their last one, each once.
func Groups(all []Command) (groups []string) {
	for _, c := range all {
		if at := strings.LastIndexByte(c.Name, ' '); at > 0 && !slices.Contains(groups, c.Name[:at]) {
			groups = append(groups, c.Name[:at])
		}
	}
	return groups
}
