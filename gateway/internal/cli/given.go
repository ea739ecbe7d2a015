package cli

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/gateway/api"
)

// Flags are the flags of one call. A flag that was not given has the value of its environment variable. The methods that read a value
// refuse a wrong one as used wrongly, and name the flag or the variable that it came from.
type Flags struct {
	values map[string][]string
	getenv func(string) string
}

// split parts words from flags, which may stand anywhere; "--" ends them. behind are the words after it, nil where there is none.
func split(args []string) (words, behind []string, s Flags, err error) {
	s.values = map[string][]string{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return words, append([]string{}, args[i+1:]...), s, nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			words = append(words, arg)
			continue
		}
		name, value, inline := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		o, known := lookup(name)
		switch {
		case !known:
			return nil, nil, s, unknownFlag(arg, name)
		case o.value == "" && inline && value != "true":
			return nil, nil, s, Usagef("write --"+o.name+" alone", "--%s takes no value", o.name)
		case o.value == "":
			value = "true"
		case !inline && i+1 == len(args):
			return nil, nil, s, Usagef("write --"+o.name+" "+o.value, "--%s needs a value", o.name)
		case !inline:
			i++
			value = args[i]
		}
		s.values[o.name] = append(s.values[o.name], value)
	}
	return words, nil, s, nil
}

// unknownFlag says what there is instead. arg is the flag as it was written.
func unknownFlag(arg, name string) error {
	var names []string
	for _, o := range allFlags() {
		names = append(names, o.name)
	}
	hint := "muster --help shows what there is"
	if _, err := strconv.ParseFloat(arg, 64); err == nil {
		return Usagef("numbers are from 0 up", "%s is no flag, and no negative number can stand here", arg)
	}
	if name == "token" || name == "secret" || name == "psk" {
		hint = "secrets do not stand in arguments, which every user of the machine can read; use MUSTER_API_TOKEN, --token-file or --file"
	} else if close := nearest(name, names); close != "" {
		hint = "did you mean --" + close + "?"
	}
	written, _, _ := strings.Cut(arg, "=")
	return Usagef(hint, "there is no flag %s", written)
}

// Given tells whether the flag itself was given. Its variable does not count.
func (s Flags) Given(name string) bool { return len(s.values[name]) > 0 }

// Text is a flag's last value, else the variable's; empty: there is neither.
func (s Flags) Text(name string) string {
	if values := s.values[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	if o, known := lookup(name); known && !o.unset && s.getenv != nil {
		return s.getenv(o.env())
	}
	return ""
}

// Bool is false where nothing is set.
func (s Flags) Bool(name string) (bool, error) {
	text := s.Text(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, Usagef("true or false", "%s has the value %q", s.Source(name), text)
	}
	return on, nil
}

// Number is 0 where nothing is set, whatever least is.
func (s Flags) Number(name string, least int) (int, error) {
	text := s.Text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, Usagef("a whole number from "+strconv.Itoa(least), "%s has the value %q", s.Source(name), text)
	}
	return n, nil
}

// Duration is usual where nothing is set.
func (s Flags) Duration(name string, usual time.Duration) (time.Duration, error) {
	text := s.Text(name)
	if text == "" {
		return usual, nil
	}
	d, err := api.ParseDuration(text)
	var wrong *api.DurationError
	switch {
	case errors.As(err, &wrong):
		return 0, Usagef("such as 30m, 12h or 7d", "%s has the value %q, which %s", s.Source(name), text, wrong.Problem)
	case d <= 0:
		return 0, Usagef("such as 30m, 12h or 7d", "%s has the value %q, which is not longer than 0s", s.Source(name), text)
	}
	return d, err
}

// Seconds is Duration for what counts in whole seconds: a part of one would be lost without a word.
func (s Flags) Seconds(name string, usual time.Duration) (time.Duration, error) {
	d, err := s.Duration(name, usual)
	if err == nil && d%time.Second != 0 {
		return 0, Usagef("such as 1s, 90s or 2h", "%s has the value %q, which is no number of whole seconds", s.Source(name), s.Text(name))
	}
	return d, err
}

// OneOf is usual where nothing is set, else one of the known words.
func (s Flags) OneOf(name, usual string, known ...string) (string, error) {
	text := s.Text(name)
	if text == "" {
		return usual, nil
	}
	if !slices.Contains(known, text) {
		return "", Usagef("one of "+strings.Join(known, ", "), "%s has the value %q", s.Source(name), text)
	}
	return text, nil
}

// Labels reads KEY=VALUE. In the variable there are commas between the labels.
func (s Flags) Labels() (map[string]string, error) {
	values := s.values["label"]
	if len(values) == 0 && s.Text("label") != "" {
		values = strings.Split(s.Text("label"), ",")
	}
	labels := make(map[string]string, len(values))
	for _, text := range values {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, Usagef("write --label tier=sovereign", "%q is no label", text)
		}
		if _, twice := labels[key]; twice {
			return nil, Twice("the label", key)
		}
		labels[key] = value
	}
	return labels, nil
}

// Twice refuses what has two values where one of them would be lost.
func Twice(what, name string) error {
	return Usagef("give it once", "%s %.60q is given twice", what, name)
}

// List gives the values of a flag that may be repeated. Each may hold several values with commas between.
func (s Flags) List(name string) []string {
	values := s.values[name]
	if len(values) == 0 {
		values = []string{s.Text(name)}
	}
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// Source names where a value came from, for messages: the flag or its variable.
func (s Flags) Source(name string) string {
	if o, known := lookup(name); known && !s.Given(name) {
		return o.env()
	}
	return "--" + name
}
