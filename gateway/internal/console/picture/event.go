package picture

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"muster/gateway/api"
)

// Event is an event for people: its sentence if it has one, and its other details.
type Event struct {
	api.Event
	Text  string
	Chips []Chip // the shortest, which a person takes in at a glance
	More  []Chip // the others
}

// Chip is one detail of an event. Whole is its value where Value is cut.
type Chip struct{ Name, Value, Whole string }

const (
	chipsAtOnce = 4
	chipsWidth  = 60 // characters, of those that are seen at once
	sentence    = 40 // characters; a longer value with blanks in it is one
)

// EventsOf draws events, the newest first. A sentence is not repeated if an earlier event has it, or if told has it: one fault is found,
// takes a node out of work, and raises an alert.
func EventsOf(events []api.Event, told ...string) []Event {
	all := make([]Event, len(events))
	for i, e := range events {
		all[i] = eventOf(e)
		whole := all[i].Text
		for _, said := range told {
			if strings.Contains(said, whole) {
				all[i].Text = ""
			}
			all[i].Text = strings.Trim(strings.ReplaceAll(all[i].Text, said, ""), "; ")
		}
		told = append(told, whole)
	}
	return all
}

func eventOf(e api.Event) Event {
	drawn := Event{Event: e}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(e.Detail)) {
		value := Drawn(e.Detail[name])
		switch {
		case value == "":
		case name == "text", name == "reason", name == "why", name == "error", len(value) > sentence && strings.Contains(value, " "):
			said = append(said, value)
		case name == "from" && e.Detail["to"] != "":
			drawn.Chips = append(drawn.Chips, Chip{Value: value + " → " + Drawn(e.Detail["to"])})
		case name == "to" && e.Detail["from"] != "":
		default:
			drawn.Chips = append(drawn.Chips, chipOf(Drawn(name), value))
		}
	}
	drawn.Text = strings.Join(said, "; ")
	slices.SortStableFunc(drawn.Chips, func(a, b Chip) int { return cmp.Compare(a.length(), b.length()) })
	width := 0
	for i, c := range drawn.Chips {
		if width += c.length(); i == chipsAtOnce || i > 0 && width > chipsWidth {
			drawn.Chips, drawn.More = drawn.Chips[:i], drawn.Chips[i:]
			break
		}
	}
	return drawn
}

func chipOf(name, value string) Chip {
	if short := Short(value); strings.HasPrefix(value, "sha256:") && short != value {
		return Chip{name, short, value}
	}
	return Chip{Name: name, Value: value}
}

func (c Chip) length() int { return len(c.Name) + len(c.Value) }
