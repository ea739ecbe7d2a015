package console

import (
	"slices"
	"strconv"

	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

const (
	eventsOfPage = 100
	mostEvents   = 1 << 53 // that a log can have
)

type eventsPage struct {
	Events       []picture.Event
	Node, Kind   string
	All          bool   // not the security events alone
	Newer, Older string // URLs; empty: there is nothing there
	Filtered     bool
}

// showEvents lists the newest first. The filters are in the URL, and so is where the page begins or ends.
func (v *visit) showEvents() (page, error) {
	before, after := int64(v.Count("before", 0, mostEvents)), int64(v.Count("after", 0, mostEvents))
	data := eventsPage{Node: v.Asked("node"), Kind: v.Asked("kind"), All: v.Set("all")}
	data.Filtered = data.Node != "" || data.Kind != ""
	f := api.EventFilter{Node: data.Node, Kind: data.Kind, Security: !data.All, Before: before, Limit: eventsOfPage}
	if after > 0 {
		f.After = &after
	}
	list, err := get[api.EventList](v, api.PathEvents, f)
	if err != nil {
		return page{}, err
	}
	if after > 0 {
		slices.Reverse(list.Events)
	}
	for _, e := range list.Events { // each alone: the audit leaves nothing out
		data.Events = append(data.Events, picture.EventsOf([]api.Event{e})...)
	}
	v.turn(&data, before, after)
	return page{name: "events", title: "Audit", section: "events", data: data}, nil
}

// turn fills the ways to the pages before and after this one in.
func (v *visit) turn(data *eventsPage, before, after int64) {
	n := len(data.Events)
	if n == 0 {
		return
	}
	id := func(e picture.Event) string { return strconv.FormatInt(e.ID, 10) }
	if before > 0 || after > 0 && n == eventsOfPage {
		data.Newer = v.with("before", "", "after", id(data.Events[0]))
	}
	if n == eventsOfPage || after > 0 {
		data.Older = v.with("after", "", "before", id(data.Events[n-1]))
	}
}
