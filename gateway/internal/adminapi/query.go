package adminapi

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
	"muster/gateway/internal/label"
	"muster/store"
)

// query reads the parameters of a route. It refuses one that the route does not know, and one that is there twice: a mistyped name
// must not be ignored.
func (c *call) query(known ...string) (parameters, error) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
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
	return parameters(values), nil
}

// ask reads the parameters into a filter, by the names of its fields in JSON. A number has the bounds of its tags: least, else 1, or 0
// behind a pointer; most; and usual where the parameter is not there. A tenant is the caller's own, or one that the caller may ask for.
func (c *call) ask(filter any) error {
	v := reflect.ValueOf(filter).Elem()
	fields := reflect.VisibleFields(v.Type())
	fields = slices.DeleteFunc(fields, func(f reflect.StructField) bool { return f.Anonymous || f.Tag.Get("json") == "-" })
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i], _, _ = strings.Cut(f.Tag.Get("json"), ",")
	}
	p, err := c.query(names...)
	if err != nil {
		return err
	}
	for i, f := range fields {
		if err := c.set(v.FieldByIndex(f.Index), f.Tag, names[i], p); err != nil {
			return err
		}
	}
	return nil
}

// set sets one field of a filter.
func (c *call) set(v reflect.Value, tag reflect.StructTag, name string, p parameters) (err error) {
	text := p.text(name)
	switch to := v.Addr().Interface().(type) {
	case *string:
		*to = text
		if name == "tenant" {
			*to, err = c.caller.Within(text)
		}
	case *[]string:
		if text != "" {
			*to = strings.Split(text, ",")
		}
	case *bool:
		*to, err = p.flag(name)
	case *time.Time:
		*to, err = p.time(name, c.server.now())
	case *api.Duration:
		*to, err = p.duration(name)
	case **int64:
		if p.has(name) {
			*to = new(int64)
			**to, err = p.number(name, 0, math.MaxInt64)
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
			n, err = p.number(name, bound("least", 1), bound("most", math.MaxInt64))
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

// parameters are a query's values by name.
type parameters map[string][]string

func (p parameters) text(name string) string { return url.Values(p).Get(name) }

func (p parameters) has(name string) bool { return len(p[name]) > 0 }

// flag is false if the parameter is not there.
func (p parameters) flag(name string) (bool, error) {
	switch p.text(name) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is neither true nor false", name), "write "+name+"=true")
}

// number is 0 where the parameter is not there.
func (p parameters) number(name string, least, most int64) (int64, error) {
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

// duration is 0 where the parameter is not there.
func (p parameters) duration(name string) (api.Duration, error) {
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
func (p parameters) time(name string, now time.Time) (time.Time, error) {
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

// terms reads a selector of nodes.
func terms(selector string) ([]store.Term, error) {
	terms, err := label.ParseSelector(selector)
	if err != nil {
		return nil, err
	}
	return terms, label.CheckSelector("", "", terms)
}

// ofTenant is the filter of lists that have no other.
type ofTenant struct {
	Tenant string `json:"tenant"`
}
