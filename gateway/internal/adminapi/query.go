package adminapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/flags"
	"muster/agent/wire"
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

// list reads the parameters all and tenant, which several lists have.
func (c *call) list() (all bool, tenant string, err error) {
	p, err := c.query("all", "tenant")
	if err != nil {
		return false, "", err
	}
	if all, err = p.flag("all"); err != nil {
		return false, "", err
	}
	tenant, err = c.caller.Within(p.text("tenant"))
	return all, tenant, err
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

// flag is false where the parameter is not there.
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

// Entries of one page.
const (
	usualPage   = 100
	largestPage = 1000
)

// limit is how many entries a page has.
func (p parameters) limit() (int, error) {
	n, err := p.number("limit", 1, largestPage)
	if n == 0 {
		n = usualPage
	}
	return int(n), err
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

// picked gives the tenant and the selector of the nodes that a list is asked for. An account of one tenant asks for its own.
func (c *call) picked(p parameters) (tenant string, terms []store.Term, err error) {
	if tenant, err = c.caller.Within(p.text("tenant")); err != nil {
		return "", nil, err
	}
	if terms, err = label.ParseSelector(p.text("selector")); err != nil {
		return "", nil, err
	}
	return tenant, terms, label.CheckSelector("", "", terms)
}
