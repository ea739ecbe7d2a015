// Package placement gathers what the console's pages of allocations, slots and SKUs show, and what a node's page says of its evidence. It
// asks the admin API, and knows no form, no template and no URL of a page.
package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/console/timeline"
)

const (
	allocationsOfPage = 200
	mostQuotas        = 12 // of a page
)

// Allocations is the page of all allocations.
type Allocations struct {
	Filter   api.AllocationFilter
	States   []string
	Filtered bool
	List     []Allocation
	Waiting  []Allocation // of the list; what is served first comes first
	Chart    timeline.Chart
	Total    int
	Next     string // cursor
	Quotas   []api.Quota
}

// Allocation is a row of the page, or a page of its own.
type Allocation struct {
	api.Allocation
	Wants   string
	GPUs    int // that it has, or had
	On      []Place
	Blocked []api.AllocatedSlot
}

// Place is what an allocation has on a node.
type Place struct {
	Node string
	GPUs int
}

// Running reports whether the end of the allocation can be moved.
func (a Allocation) Running() bool { return a.State == api.AllocationAllocated }

// Live reports whether the allocation can be given back.
func (a Allocation) Live() bool { return a.Running() || a.State == api.AllocationWaiting }

// AllocationsOf returns the page that the address asks for.
func AllocationsOf(q *picture.Query) Allocations {
	p := Allocations{States: api.AllocationStates(), Filter: api.AllocationFilter{Owner: q.Asked("owner"), Tenant: q.Asked("tenant"),
		State: q.Asked("state"), Node: q.Asked("node"), All: q.Set("all"), Cursor: q.Asked("cursor"), Limit: allocationsOfPage}}
	f := p.Filter
	p.Filtered = f.Owner+f.Tenant+f.State+f.Node != ""
	return p
}

// Fill gets the allocations that the filter picks. to and by are those of the drawing.
func (p *Allocations) Fill(ctx context.Context, c *client.Client, now time.Time, to, by string) error {
	f := p.Filter
	f.All = f.All || f.State == api.AllocationReleased
	list, err := client.Get[api.AllocationList](ctx, c, api.PathAllocations, f)
	if err != nil {
		return err
	}
	quotas, err := client.Get[api.QuotaList](ctx, c, api.PathQuotas, nil)
	if err != nil {
		return err
	}
	p.Total, p.Next = list.Total, list.Next
	p.Quotas = quotas.Quotas[:min(len(quotas.Quotas), mostQuotas)]
	p.Chart = timeline.Draw(list.Allocations, now, to, by)
	for _, a := range list.Allocations {
		row := AllocationOf(a)
		p.List = append(p.List, row)
		if a.State == api.AllocationWaiting {
			p.Waiting = append(p.Waiting, row)
		}
	}
	slices.SortStableFunc(p.Waiting, func(a, b Allocation) int {
		return cmp.Or(cmp.Compare(a.Ahead, b.Ahead), a.CreatedAt.Compare(b.CreatedAt))
	})
	return nil
}

// AllocationOf says what is known of an allocation.
func AllocationOf(a api.Allocation) Allocation {
	row := Allocation{Allocation: a, Wants: wants(a.Wish)}
	for _, s := range a.Slots {
		row.GPUs += len(s.GPUs)
		if s.State == api.SlotBlocked {
			row.Blocked = append(row.Blocked, s)
		}
		at := slices.IndexFunc(row.On, func(p Place) bool { return p.Node == s.Node })
		if at < 0 {
			at = len(row.On)
			row.On = append(row.On, Place{Node: s.Node})
		}
		row.On[at].GPUs += len(s.GPUs)
	}
	return row
}

// ReleaseSays returns what happens when the allocation is given back, in sentences.
func (a Allocation) ReleaseSays() []string {
	if a.State == api.AllocationWaiting {
		return []string{"It waits for " + a.Wants + ", and leaves the queue.", "To come back it has to queue again, behind the others."}
	}
	var nodes []string
	for _, p := range a.On {
		nodes = append(nodes, p.Node)
	}
	return []string{picture.Drawn(a.Owner) + " has " + Count(a.GPUs, "GPU") + " on " + strings.Join(nodes, ", ") + ".",
		"Its programs and containers end at once, and the users that were made for it go with their home directories.",
		"The GPUs are free for others when they are found to be clean.", "This cannot be undone."}
}

// Count says how many there are of something, such as "3 nodes".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return picture.Many(n) + " " + what + "s"
}

// wants says what was asked for, such as "2 × h200-sxm-gpu, where site=fra".
func wants(w api.Wish) string {
	text := fmt.Sprintf("%d × %s", max(w.Count, 1), cmp.Or(w.SKU, w.GPU))
	if w.SKU == "" && w.Spread {
		text += " on any nodes"
	}
	if w.Selector != "" {
		text += ", where " + w.Selector
	}
	if w.MaxPrice != nil {
		text += ", at most " + Money(w.MaxPrice) + " an hour"
	}
	return picture.Drawn(text)
}

// Money writes a price; nil is not known.
func Money(price *float64) string {
	if price == nil {
		return picture.Unknown
	}
	return fmt.Sprintf("%.2f", *price)
}
