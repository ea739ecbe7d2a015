package console

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/console/placement"
	"muster/gateway/internal/console/timeline"
)

// The section of the navigation that the pages of allocations, slots and SKUs belong to.
const placing = "allocations"

const (
	allocationsPath = api.PathConsole + "allocations"
	slotsPath       = api.PathConsole + "slots"
)

type allocationsPage struct {
	placement.Allocations
	Ahead   []chip // how far the drawing looks
	Colours []chip // what its colours say
	Older   string // URL; empty: this is the last page
	First   string // URL; empty: this is it
}

// showAllocations draws and lists the newest. The filter, what the colours say and how far it looks ahead are in the URL.
func (v *visit) showAllocations() (page, error) {
	to := cmp.Or(v.Chosen("range", timeline.ToWeek, timeline.ToDay, timeline.ToEnd), timeline.ToWeek)
	by := cmp.Or(v.Chosen("by", timeline.ByTenant, timeline.ByOwner), timeline.ByTenant)
	data := allocationsPage{Allocations: placement.AllocationsOf(v.Query)}
	err := data.Fill(v.r.Context(), v.api, v.now, to, by)
	data.Ahead = v.choices("range", to, pair{timeline.ToDay, "A day"}, pair{timeline.ToWeek, "A week"}, pair{timeline.ToEnd,
		"To the last end"})
	data.Colours = v.choices("by", by, pair{timeline.ByTenant, "Tenants"}, pair{timeline.ByOwner, "Owners"})
	if data.Next != "" {
		data.Older = v.with("cursor", data.Next)
	}
	if data.Filter.Cursor != "" {
		data.First = v.with("cursor", "")
	}
	return v.filtered(page{name: "allocations", title: "Allocations", section: placing, data: data}, data.Filtered, err)
}

// choices are the values of one parameter of the URL, of which one is chosen.
func (v *visit) choices(name, chosen string, values ...pair) []chip {
	var list []chip
	for _, p := range values {
		list = append(list, chip{Name: p.Value, URL: v.with(name, p.Name), On: p.Name == chosen})
	}
	return list
}

// filtered is a page with a filter. If the API refuses that, the page says so at the filter.
func (v *visit) filtered(shown page, filtered bool, err error) (page, error) {
	switch {
	case err == nil:
		return shown, nil
	case !filtered || forbidden(err):
		return page{}, err
	}
	return v.fails(shown, "filter", err), nil
}

type allocationPage struct {
	placement.Allocation
	Params string // of what each node was started with; empty: nothing
}

func (v *visit) allocation() (placement.Allocation, error) {
	a, err := get[api.Allocation](v, api.At(api.PathAllocation, v.r.PathValue("allocation")), nil)
	return placement.AllocationOf(a), err
}

func (v *visit) showAllocation() (page, error) {
	a, err := v.allocation()
	if err != nil {
		return page{}, err
	}
	data := allocationPage{Allocation: a}
	if a.Launch != nil {
		data.Params = indented(a.Launch.Params)
	}
	return page{name: "allocation", title: "Allocation " + a.ID, section: placing, data: data}, nil
}

// changeAllocation moves the end of an allocation, or gives its GPUs back after it has said what ends then.
func (v *visit) changeAllocation() (page, error) {
	a, err := v.allocation()
	if err != nil {
		return page{}, err
	}
	back := allocationsPath + "/" + url.PathEscape(a.ID)
	verb := v.r.PathValue("verb")
	switch verb {
	case "extend":
		length, badLength := v.duration("for")
		if err = badLength; err == nil {
			err = v.do("POST", api.At(api.PathAllocationExtend, a.ID), api.ExtendRequest{Seconds: int(time.Duration(length) / time.Second)})
		}
	case "release":
		ask := question{Title: "Release " + a.ID + " of " + picture.Drawn(a.Owner) + "?", Button: "Release it", Danger: true, Back: back,
			Says: a.ReleaseSays()}
		if asks, ok := v.sure(ask, placing); !ok {
			return asks, nil
		}
		err = v.do("POST", api.At(api.PathAllocationGiveUp, a.ID), nil)
	default:
		err = wire.Refuse(wire.CodeNotFound, fmt.Sprintf("an allocation cannot %.40q", verb), "extend it, or release it")
	}
	if err != nil {
		return v.stay((*visit).showAllocation, verb, err)
	}
	return page{to: back}, nil
}

type slotsPage struct {
	placement.Slots
	Self  string // URL
	Older string // as above
	First string
}

func (v *visit) showSlots() (page, error) {
	data := slotsPage{Slots: placement.SlotsOf(v.Query), Self: v.with()}
	err := data.Fill(v.r.Context(), v.api)
	if data.Next != "" {
		data.Older = v.with("cursor", data.Next)
	}
	if data.Filter.Cursor != "" {
		data.First = v.with("cursor", "")
	}
	return v.filtered(page{name: "slots", title: "Slots", section: placing, data: data}, data.Filtered, err)
}

// decideSlots approves or disables the slots that were chosen, or all of some nodes. What it asks first is what a dry run has found out.
// From the question on the slots are named by their ids: a selector may pick others by now.
func (v *visit) decideSlots() (page, error) {
	back := cmp.Or(safePath(v.field("back")), slotsPath)
	verb := v.field("verb")
	q := api.SlotDecision{Slots: v.r.PostForm["slot"], Disable: verb == "disable", Reason: v.field("reason"), DryRun: true}
	if v.field("all") != "" {
		q.Slots, q.Node, q.Selector = nil, v.field("node"), v.field("selector")
	}
	var would api.SlotsDecided
	err := placement.CheckDecision(q, verb)
	if err == nil {
		would, err = send[api.SlotsDecided](v, "POST", api.PathSlotsDecide, q)
	}
	if err == nil && len(would.Slots) == 0 {
		err = wire.Refuse(wire.CodeNotFound, "none of these nodes has a slot that this can be said of", "the table says why, and what to do")
	}
	if err != nil {
		return page{}, err
	}
	q.Node, q.Selector, q.Slots = "", "", placement.IDs(would.Slots)
	v.r.PostForm["slot"] = q.Slots
	v.r.PostForm.Del("all")
	do := strings.ToUpper(verb[:1]) + verb[1:]
	whom := placement.Count(len(would.Slots), "slot")
	ask := question{Title: do + " " + whom + "?", Button: do + " " + whom, Danger: q.Disable, Back: back, Says: placement.DecisionSays(q,
		would)}
	if asks, ok := v.sure(ask, placing); !ok {
		return asks, nil
	}
	q.DryRun = false
	return page{to: back}, v.do("POST", api.PathSlotsDecide, q)
}

func (v *visit) showSKUs() (page, error) {
	list, err := get[api.SKUList](v, api.PathSKUs, nil)
	return page{name: "skus", title: "SKUs", section: placing, data: list.SKUs}, err
}

func (v *visit) showSKU() (page, error) {
	sku, err := get[api.SKUExplained](v, api.At(api.PathSKU, v.r.PathValue("sku")), nil)
	return page{name: "sku", title: "SKU " + sku.Name, section: placing, data: sku}, err
}
