package cli

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"muster/gateway/api"
)

// Flags are the flags of one call. A flag that was not given has the value of its environment variable. Into reads them.
type Flags struct {
	values map[string][]string
	takes  []string // the command's own
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

// text is a flag's last value, else the variable's; empty: there is neither.
func (s Flags) text(name string) string {
	if values := s.values[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	if o, known := lookup(name); known && !o.unset && s.getenv != nil {
		return s.getenv(o.env())
	}
	return ""
}

// Into sets the fields of a struct from the flags of their names: the name of a field is that of its tag flag, or the one in JSON or in Go,
// with dashes; a list may have a flag for one of it. A field of a request counts only if the command takes its flag. A field stays as it is
// if neither the flag nor its variable is there, or if its type needs more than the flag, as a time does. A wrong value is refused as used
// wrongly.
func (s Flags) Into(fields any) error {
	v := reflect.ValueOf(fields).Elem()
	for i := range v.NumField() {
		name, whole := s.nameOf(v.Type().Field(i))
		if name == "" {
			continue
		}
		if _, known := lookup(name); !known {
			return fmt.Errorf("no flag is called %s, as a field of %T wants", name, fields)
		}
		if err := s.set(v.Field(i).Addr().Interface(), name, whole); err != nil {
			return err
		}
	}
	return nil
}

// nameOf is the flag of a field; "": it has none here. whole: a duration counts in whole seconds.
func (s Flags) nameOf(f reflect.StructField) (name string, whole bool) {
	tag, whole := strings.CutSuffix(f.Tag.Get("flag"), ",seconds")
	switch {
	case tag == "-" || !f.IsExported() || f.Anonymous:
		return "", false
	case tag != "":
		return tag, whole
	}
	inJSON, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	name = strings.ReplaceAll(inJSON, "_", "-")
	if inJSON == "" || inJSON == "-" {
		name = dashed(f.Name)
	}
	if _, known := lookup(name); !known {
		name = strings.TrimSuffix(name, "s")
	}
	if f.Tag.Get("json") != "" && !slices.Contains(s.takes, name) {
		return "", false
	}
	return name, whole
}

// dashed writes RemoveHome as remove-home.
func dashed(name string) string {
	out := ""
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			out += "-"
		}
		out += string(unicode.ToLower(r))
	}
	return out
}

func (s Flags) set(field any, name string, whole bool) (err error) {
	text := s.text(name)
	switch to := field.(type) {
	case *[]string:
		*to = s.list(name)
		return nil
	case *map[string]string:
		*to, err = s.labels()
		return err
	}
	if text == "" {
		return nil
	}
	switch to := field.(type) {
	case *string:
		*to = text
	case *bool:
		if *to, err = strconv.ParseBool(text); err != nil {
			return s.wrong(name, "true or false", "")
		}
	case *int:
		least := 1
		if o, _ := lookup(name); o.zero {
			least = 0
		}
		if *to, err = strconv.Atoi(text); err != nil || *to < least {
			return s.wrong(name, "a whole number from "+strconv.Itoa(least), "")
		}
	case *time.Duration:
		*to, err = s.duration(name, whole)
	case *api.Duration:
		var d time.Duration
		d, err = s.duration(name, whole)
		*to = api.Duration(d)
	}
	return err
}

// duration reads one that is there. One that counts in whole seconds would lose a part of one without a word.
func (s Flags) duration(name string, whole bool) (time.Duration, error) {
	d, err := api.ParseDuration(s.text(name))
	var bad *api.DurationError
	switch {
	case errors.As(err, &bad):
		return 0, s.wrong(name, "such as 30m, 12h or 7d", ", which "+bad.Problem)
	case d <= 0:
		return 0, s.wrong(name, "such as 30m, 12h or 7d", ", which is not longer than 0s")
	case whole && d%time.Second != 0:
		return 0, s.wrong(name, "such as 1s, 90s or 2h", ", which is no number of whole seconds")
	}
	return d, err
}

// wrong refuses a flag's value.
func (s Flags) wrong(name, hint, why string) error {
	return Usagef(hint, "%s has the value %q%s", s.Source(name), s.text(name), why)
}

// OneOf is usual where nothing is set, else one of the known words.
func (s Flags) OneOf(name, usual string, known ...string) (string, error) {
	text := s.text(name)
	if text == "" {
		return usual, nil
	}
	if !slices.Contains(known, text) {
		return "", s.wrong(name, "one of "+strings.Join(known, ", "), "")
	}
	return text, nil
}

// labels reads KEY=VALUE. In the variable there are commas between the labels.
func (s Flags) labels() (map[string]string, error) {
	values := s.values["label"]
	if len(values) == 0 && s.text("label") != "" {
		values = strings.Split(s.text("label"), ",")
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

// list gives the values of a flag that may be repeated. Each may hold several values with commas between.
func (s Flags) list(name string) []string {
	values := s.values[name]
	if len(values) == 0 {
		values = []string{s.text(name)}
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
