package picture

// This file reads what the address of a page says. A page asks for each parameter by its name. What no page asks for, and what a page
// cannot use, can be told on the page: a mistyped name must not be ignored in silence.

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Query is what the address of one request says. It is for one goroutine.
type Query struct {
	values  url.Values
	broken  bool // a part of it cannot be read
	read    map[string]bool
	ignored []Ignored
}

// Ignored is a part of the address that the page did not use.
type Ignored struct{ What, Why string }

// Of reads the address of a request.
func QueryOf(u *url.URL) *Query {
	values, err := url.ParseQuery(u.RawQuery)
	return &Query{values: values, broken: err != nil, read: map[string]bool{}}
}

// Whole returns a parameter unchanged.
func (q *Query) Whole(name string) string {
	q.read[name] = true
	return q.values.Get(name)
}

// Asked returns a parameter without blanks around it.
func (q *Query) Asked(name string) string { return strings.TrimSpace(q.Whole(name)) }

// Chosen returns a parameter if it has one of the known values, else the usual one.
func (q *Query) Chosen(name, usual string, others ...string) string {
	text := q.Asked(name)
	if text == "" || text == usual || slices.Contains(others, text) {
		return text
	}
	known := others
	if usual != "" {
		known = append([]string{usual}, others...)
	}
	q.Ignore(name, "it can be "+strings.Join(known, ", "))
	return usual
}

// Set reports whether a parameter is switched on.
func (q *Query) Set(name string) bool {
	text := q.Chosen(name, "", "1", "true")
	return text != ""
}

// Count returns a number from least to most; without the parameter it is the least.
func (q *Query) Count(name string, least, most int) int {
	text := q.Asked(name)
	n, err := strconv.Atoi(text)
	if text == "" || err == nil && n >= least && n <= most {
		return max(n, least)
	}
	q.Ignore(name, fmt.Sprintf("it is a number from %d to %d", least, most))
	return least
}

// Ignore says on the page why a parameter is not used.
func (q *Query) Ignore(name, why string) {
	q.ignored = append(q.ignored, Ignored{given(name, q.values.Get(name)), why})
}

func given(name, value string) string {
	return fmt.Sprintf("%.60s=%.60s", Drawn(name), Drawn(value))
}

// Left returns the parts of the URL that were not used, and why. There may be many: a page shows some.
func (q *Query) Left() []Ignored {
	const most = 5
	all := q.ignored
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		switch values := q.values[name]; {
		case !q.read[name]:
			all = append(all, Ignored{given(name, values[0]), "this page does not know it"})
		case len(values) > 1:
			all = append(all, Ignored{given(name, values[1]), "it stands there more than once, and the first one counts"})
		}
	}
	if q.broken {
		all = append(all, Ignored{"a part of the address", "it cannot be read"})
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most:most], Ignored{fmt.Sprintf("%d more parts of the address", more), "there are too many to name"})
	}
	return all
}
