package input

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/flags"
	"muster/agent/wire"
	"muster/gateway/api"
)

// Query reads the parameters of a route from a URL. It refuses a parameter that the route does not know, and one that is given twice: a
// mistyped name must not be ignored.
func Query(u *url.URL, known ...string) (Parameters, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadRequest, "the query string is malformed", "encode it as application/x-www-form-urlencoded")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("unknown parameter %.60q", name), knownHint("parameters", known))
		}
		if len(values[name]) > 1 {
			return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q stands more than once", name), "give it once")
		}
	}
	return Parameters(values), nil
}

// Filter reads the parameters of a URL into a filter, by the names of its fields in JSON. A number has the bounds of its tags: least
// (without that tag 1, or 0 behind a pointer), most, and usual if the parameter is missing. within says which tenant a caller gets who asks
// for one. A time may also be a duration: that long before now.
func Filter(u *url.URL, filter any, within func(asked string) (string, error), now time.Time) error {
	v := reflect.ValueOf(filter).Elem()
	fields := fieldsOf(v.Type())
	p, err := Query(u, namesOf(fields)...)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if err := p.set(v.FieldByIndex(f.Index), f.Tag, nameOf(f), within, now); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf are the fields of a struct that have a name in JSON, those of the structs in it too.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous || nameOf(f) == "-" })
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func namesOf(fields []reflect.StructField) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = nameOf(f)
	}
	return names
}

// set sets one field of a filter.
func (p Parameters) set(v reflect.Value, tag reflect.StructTag, name string, within func(string) (string, error),
	now time.Time) (err error) {
	text := p.text(name)
	switch to := v.Addr().Interface().(type) {
	case *string:
		*to = text
		if name == "tenant" {
			*to, err = within(text)
		}
	case *[]string:
		if text != "" {
			*to = strings.Split(text, ",")
		}
	case *bool:
		*to, err = p.flag(name)
	case *time.Time:
		*to, err = p.time(name, now)
	case *api.Duration:
		*to, err = p.duration(name)
	case **int64:
		if p.has(name) {
			*to = new(int64)
			**to, err = p.Number(name, 0, math.MaxInt64)
		}
	case **float64:
		if p.has(name) {
			*to = new(float64)
			**to, err = p.figure(name)
		}
	default:
		bound := func(key string, none int64) int64 {
			if n, err := strconv.ParseInt(tag.Get(key), 10, 64); err == nil {
				return n
			}
			return none
		}
		n := bound("usual", 0)
		if text != "" {
			n, err = p.Number(name, bound("least", 1), bound("most", math.MaxInt64))
		}
		v.SetInt(n)
	}
	return err
}

func knownHint(what string, known []string) string {
	if len(known) == 0 {
		return "it takes no " + what
	}
	return "it takes the " + what + " " + strings.Join(known, ", ")
}

// Parameters are a query's values by name.
type Parameters map[string][]string

func (p Parameters) text(name string) string { return url.Values(p).Get(name) }

func (p Parameters) has(name string) bool { return len(p[name]) > 0 }

// flag is false if the parameter is not there.
func (p Parameters) flag(name string) (bool, error) {
	switch p.text(name) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is neither true nor false", name), "write "+name+"=true")
}

// Number returns a parameter as a number from least to most; 0 if the parameter is missing.
func (p Parameters) Number(name string, least, most int64) (int64, error) {
	text := p.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is no number from %d to %d", name, least, most),
			"correct it or leave it out")
	}
	return n, nil
}

// figure is a number that is not negative.
func (p Parameters) figure(name string) (float64, error) {
	n, err := strconv.ParseFloat(p.text(name), 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return 0, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is no number from 0", name), "write it as 2.5")
	}
	return n, nil
}

// duration is 0 where the parameter is not there.
func (p Parameters) duration(name string) (api.Duration, error) {
	text := p.text(name)
	if text == "" {
		return 0, nil
	}
	d, err := flags.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is no duration", name), "write 30m, 12h or 7d")
	}
	return api.Duration(d), nil
}

// time is the zero time where the parameter is not there. It is a time, or so long ago as the command line writes it.
func (p Parameters) time(name string, now time.Time) (time.Time, error) {
	text := p.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if ago, err := flags.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is no time", name),
		"write it as 2026-11-21T10:00:00Z, or as 30m, 12h or 7d for so long ago")
}
