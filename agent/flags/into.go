package flags

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Into sets the fields of structs from the flags of their names: the name of a field is that of its tag flag, or its name in JSON or in Go,
// with dashes; a list may have a flag that adds one value. The fields of a struct in a struct count too. A field stays as it is if neither
// the flag nor its variable is there, or if the flag is not one that Takes has. Types that read text themselves do so. A wrong value is an
// *Error.
func (s *Set) Into(structs ...any) error {
	return s.walk(structs, func(v reflect.Value, name string, whole bool) error { return s.set(v, name, whole) })
}

// Texts returns the present values of the fields, by flag, in the form that a flag has.
func (s *Set) Texts(structs ...any) map[string]string {
	all := map[string]string{}
	_ = s.walk(structs, func(v reflect.Value, name string, _ bool) error {
		switch v := v.Addr().Interface().(type) {
		case fmt.Stringer:
			all[name] = v.String()
		case *[]string:
			all[name] = strings.Join(*v, ",")
		default:
			all[name] = fmt.Sprint(reflect.ValueOf(v).Elem())
		}
		return nil
	})
	return all
}

// walk calls do for each field that has a flag. whole: a duration counts in whole seconds.
func (s *Set) walk(structs []any, do func(v reflect.Value, name string, whole bool) error) error {
	for _, one := range structs {
		v := reflect.ValueOf(one).Elem()
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, whole := s.nameOf(field)
			_, known := s.Lookup(name)
			switch {
			case name == "":
				continue
			case !known && field.Type.Kind() == reflect.Struct:
				if err := s.walk([]any{v.Field(i).Addr().Interface()}, do); err != nil {
					return err
				}
				continue
			case !known:
				return fmt.Errorf("no flag is called %s, as a field of %T wants", name, one)
			}
			if err := do(v.Field(i), name, whole); err != nil {
				return err
			}
		}
	}
	return nil
}

// nameOf is the flag of a field; "": it has none here.
func (s *Set) nameOf(f reflect.StructField) (name string, whole bool) {
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
	if _, known := s.Lookup(name); !known {
		name = strings.TrimSuffix(name, "s")
	}
	if f.Tag.Get("json") != "" && !slices.Contains(s.Takes, name) {
		return "", false
	}
	return name, whole
}

// dashed writes RemoveHome as remove-home, and GPUInterval as gpu-interval.
func dashed(name string) string {
	out := ""
	for i, r := range name {
		begins := i > 0 && (unicode.IsLower(rune(name[i-1])) || i+1 < len(name) && unicode.IsLower(rune(name[i+1])))
		if unicode.IsUpper(r) && begins {
			out += "-"
		}
		out += string(unicode.ToLower(r))
	}
	return out
}

func (s *Set) set(v reflect.Value, name string, whole bool) error {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return nil // whoever wants one reads more than its usual form
	}
	if read := reader(v.Addr().Interface()); read != nil {
		for _, text := range s.each(name) {
			if err := read(text); err != nil {
				return s.wrong(name, text, err.Error(), "")
			}
		}
		return nil
	}
	text := s.Text(name)
	var err error
	switch to := v.Addr().Interface().(type) {
	case *[]string:
		*to = strings.FieldsFunc(strings.Join(s.each(name), ","), func(r rune) bool { return r == ',' || r == ' ' })
		if len(*to) == 0 && s.Given(name) {
			return s.Wrong(name, "write a value, or leave the flag out", "")
		}
		return nil
	case *map[string]string:
		*to, err = s.labels(name)
		return err
	}
	if text == "" && !s.Given(name) {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		on, err := yes(text)
		if err != nil {
			return s.Wrong(name, err.Error(), "")
		}
		v.SetBool(on)
	case reflect.Int:
		return s.number(v, name, text)
	case reflect.Int64:
		if v.Type() != reflect.TypeFor[int64]() {
			return s.duration(v, name, whole)
		}
	}
	return nil
}

// reader is how a type reads text itself; nil: it does not.
func reader(to any) func(string) error {
	switch to := to.(type) {
	case interface{ Set(string) error }:
		return to.Set
	case encoding.TextUnmarshaler:
		return func(text string) error { return to.UnmarshalText([]byte(text)) }
	}
	return nil
}

// yes reads every usual spelling of a yes and a no.
func yes(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "t", "1", "yes", "on":
		return true, nil
	case "false", "f", "0", "no", "off":
		return false, nil
	}
	return false, errors.New("write true, 1, yes or on, or false, 0, no or off")
}

func (s *Set) number(v reflect.Value, name, text string) error {
	least := 1
	if f, _ := s.Lookup(name); f.Zero {
		least = 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return s.Wrong(name, "write a whole number from "+strconv.Itoa(least), "")
	}
	v.SetInt(int64(n))
	return nil
}

// duration reads one that is there. One that counts in whole seconds would lose a part of one without a word.
func (s *Set) duration(v reflect.Value, name string, whole bool) error {
	d, err := ParseDuration(s.Text(name))
	f, _ := s.Lookup(name)
	var bad *DurationError
	switch {
	case errors.As(err, &bad):
		return s.Wrong(name, "write a time such as 30m, 12h or 7d", ", which "+bad.Problem)
	case d < 0 || d == 0 && !f.Zero:
		return s.Wrong(name, "write a time such as 30m, 12h or 7d", ", which is not longer than 0s")
	case whole && d%time.Second != 0:
		return s.Wrong(name, "write a time such as 1s, 90s or 2h", ", which is no number of whole seconds")
	}
	v.SetInt(int64(d))
	return nil
}

// labels reads KEY=VALUE. In the variable there are commas between the labels.
func (s *Set) labels(name string) (map[string]string, error) {
	values := s.each(name)
	if !s.Given(name) && len(values) > 0 {
		values = strings.Split(values[0], ",")
	}
	labels := make(map[string]string, len(values))
	for _, text := range values {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, &Error{Message: quoted(text) + " is no " + name, Hint: "write --" + name + " tier=sovereign"}
		}
		if _, twice := labels[key]; twice {
			return nil, Twice("the "+name, key)
		}
		labels[key] = value
	}
	return labels, nil
}

// Twice returns the error of a thing that was given two values, one of which would be lost.
func Twice(what, name string) error {
	return &Error{Message: fmt.Sprintf("%s %.60q is given twice", what, name), Hint: "give it once"}
}

// Wrong refuses a flag's value.
func (s *Set) Wrong(name, hint, why string) error { return s.wrong(name, s.Text(name), hint, why) }

func (s *Set) wrong(name, text, hint, why string) error {
	return &Error{Message: s.Source(name) + " has the value " + quoted(text) + why, Hint: hint}
}

// quoted shows a value in an error, but for one that looks like a token or a key: it was put into the wrong place.
func quoted(text string) string {
	if len(text) > 4 && text[:2] == "ms" && text[3] == '_' {
		return "ms..., which looks like a secret"
	}
	return fmt.Sprintf("%.60q", text)
}
