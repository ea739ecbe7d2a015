// Package flags reads what a program was called with into structs. A flag wins over its environment variable, and the variable over what
// the field had before. Agent, gateway and command line share it; each has its own table of flags and its own help.
package flags

import (
	"errors"
	"slices"
	"strings"

	"muster/agent/wire"
)

// Flag is one flag of a program.
type Flag struct {
	Name  string
	Short string // one letter; empty: it has none
	Other string // a second name, which help does not show; empty: it has none
	Value string // what stands for its value in help; empty: it is a switch
	Usage string
	Alias string // a second variable, which counts after wire.EnvOf(Name)
	NoEnv bool   // it has no variable
	Zero  bool   // 0 is one of its numbers and durations
	Off   bool   // a switch that =false turns off
}

// Error is a wrong call: what is wrong, and what to write instead.
type Error struct {
	Message, Hint string
	Unknown       string // the flag that there is not, where that is wrong; the value that was written with it is nowhere
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}

// ErrHelp is Parse's error if --help or -h is among the arguments and the table has no such flag.
var ErrHelp = errors.New("help is asked for")

// Set is the flags of one call.
type Set struct {
	All    []Flag
	Getenv func(string) string // nil: no variable counts
	// Takes names the flags that count for fields with a name in JSON. Into leaves other such fields alone.
	Takes  []string
	values map[string][]string
}

// Lookup finds a flag by one of its names or its letter.
func (s *Set) Lookup(name string) (Flag, bool) {
	at := slices.IndexFunc(s.All, func(f Flag) bool {
		return f.Name == name || f.Short != "" && f.Short == name || f.Other != "" && f.Other == name
	})
	if at < 0 {
		return Flag{}, false
	}
	return s.All[at], true
}

// Parse separates words from flags. Flags may stand anywhere; "--" ends them. behind are the words after it, nil if there is none.
func (s *Set) Parse(args []string) (words, behind []string, err error) {
	s.values = map[string][]string{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return words, append([]string{}, args[i+1:]...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			words = append(words, arg)
			continue
		}
		name, value, inline := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		f, known := s.Lookup(name)
		switch {
		case !known && (name == "help" || name == "h"):
			return nil, nil, ErrHelp
		case !known:
			written, _, _ := strings.Cut(arg, "=")
			return nil, nil, &Error{Message: "there is no flag " + written, Unknown: name}
		case f.Value == "" && inline && value != "true" && !f.Off:
			return nil, nil, &Error{Message: "--" + f.Name + " takes no value", Hint: "write --" + f.Name + " alone"}
		case f.Value == "" && !inline:
			value = "true"
		case !inline && i+1 == len(args):
			return nil, nil, &Error{Message: "--" + f.Name + " needs a value", Hint: "write --" + f.Name + " " + f.Value}
		case !inline:
			i++
			value = args[i]
		}
		s.values[f.Name] = append(s.values[f.Name], value)
	}
	return words, nil, nil
}

// Given reports whether the flag itself was given. Its variable does not count.
func (s *Set) Given(name string) bool { return len(s.values[name]) > 0 }

// Text returns a flag's last value, else its variable's; empty: there is neither.
func (s *Set) Text(name string) string {
	if values := s.values[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	text, _ := s.variable(name)
	return text
}

// Take returns the last value of a flag and removes it, for a command in which the flag means something else. Its variable does not count.
func (s *Set) Take(name string) string {
	values := s.values[name]
	if len(values) == 0 {
		return ""
	}
	s.values[name] = values[:len(values)-1]
	return values[len(values)-1]
}

// variable is what a flag's variable says, and its name.
func (s *Set) variable(name string) (text, variable string) {
	f, known := s.Lookup(name)
	if !known || f.NoEnv || s.Getenv == nil {
		return "", ""
	}
	for _, variable = range []string{wire.EnvOf(name), f.Alias} {
		if variable != "" {
			text = s.Getenv(variable)
		}
		if text != "" {
			break
		}
	}
	return text, variable
}

// Source names where a value came from, for messages: the flag, or the variable that set it.
func (s *Set) Source(name string) string {
	if text, variable := s.variable(name); text != "" && !s.Given(name) {
		return variable
	}
	return "--" + name
}

// each gives all values of a flag that may be repeated, else its variable's.
func (s *Set) each(name string) []string {
	if values := s.values[name]; len(values) > 0 {
		return values
	}
	if text, _ := s.variable(name); text != "" {
		return []string{text}
	}
	return nil
}
