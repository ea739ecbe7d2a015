package placement

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// usualList is how many allocations a table has.
const usualList = 100

func allocList(ctx context.Context, s *cli.Session, f api.AllocationFilter) error {
	_, err := s.Flags.OneOf("state", "", api.AllocationStates()...)
	if err != nil {
		return err
	}
	limit := f.Limit
	if limit == 0 && s.Form != cli.FormJSON {
		limit = usualList
	}
	var list api.AllocationList
	list.Allocations, list.Next, err = cli.Gather(limit, func(limit int, cursor string) ([]api.Allocation, string, error) {
		f.Limit, f.Cursor = limit, cursor
		page, err := cli.Get[api.AllocationList](ctx, s, api.PathAllocations, f)
		list.Total = page.Total
		return page.Allocations, page.Next, err
	})
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(list)
	}
	rows := cli.Rows(list.Allocations, func(a api.Allocation) []string { return allocRow(a, s.Now()) })
	if err := s.List(allocColumns()).Write(rows); err != nil {
		return err
	}
	text := screen.Plural(len(list.Allocations), "allocation")
	if list.Next != "" {
		text += fmt.Sprintf("; there are %d: --limit N shows more", list.Total)
	}
	fmt.Fprintln(s.Stdout, text)
	if list.Total == 0 && !f.All {
		s.Say("muster alloc create --gpu MODEL --count N makes one; --all shows those that are over too")
	}
	return nil
}

func allocColumns() []screen.Column {
	return []screen.Column{{Name: "ALLOCATION"}, {Name: "OWNER", Rank: 2, Least: 8, Most: 30}, {Name: "WANTS", Least: 8, Most: 40},
		{Name: "STATE"}, {Name: "ENDS"}, {Name: "ON", Rank: 1, Least: 8, Most: 40}, {Name: "PRICE", Rank: 4},
		{Name: "WHY", Rank: 3, Least: 12, Most: 60}, {Name: "TENANT", Most: 24, Wide: true}, {Name: "PRIORITY", Wide: true},
		{Name: "CREATED", Wide: true}, {Name: "GPUS", Most: 80, Wide: true}, {Name: "NOTE", Most: 60, Wide: true}}
}

func allocRow(a api.Allocation, now time.Time) []string {
	var nodes, gpus []string
	for _, l := range a.Slots {
		if !slices.Contains(nodes, l.Node) {
			nodes = append(nodes, l.Node)
		}
		gpus = append(gpus, l.GPUs...)
	}
	return []string{a.ID, a.Owner, wants(a), a.State, ends(a, now), strings.Join(nodes, ","), screen.Price(a.PerHour), why(a), a.Tenant,
		strconv.Itoa(a.Priority), screen.Ago(now, a.CreatedAt), strings.Join(gpus, ","), a.Note}
}

// wants says what an allocation is to be made of.
func wants(a api.Allocation) string {
	text := fmt.Sprintf("%dx %s", max(a.Wish.Count, 1), cmp.Or(a.Wish.SKU, a.Wish.GPU))
	if a.Wish.Selector != "" {
		text += " of " + a.Wish.Selector
	}
	return screen.Printable(text)
}

// ends says when it ends, or when it has ended.
func ends(a api.Allocation, now time.Time) string {
	switch {
	case a.EndedAt != nil:
		return screen.Ago(now, *a.EndedAt)
	case a.EndsAt != nil:
		return screen.When(now, *a.EndsAt)
	}
	return screen.Unknown
}

// why says what an allocation waits for, what keeps its GPUs from being clean, or else why it has ended.
func why(a api.Allocation) string {
	if a.State == api.AllocationWaiting {
		return waitsFor(a)
	}
	for _, l := range a.Slots {
		if l.Reason != "" {
			return l.Reason
		}
	}
	return a.EndedWhy
}

func waitsFor(a api.Allocation) string {
	text := a.WaitsFor
	if a.Ahead > 0 {
		text = strings.TrimPrefix(text+"; "+strconv.Itoa(a.Ahead)+" ahead of it", "; ")
	}
	return text
}

func allocShow(ctx context.Context, s *cli.Session) error {
	return cli.ShowEach(ctx, s, api.PathAllocation, func(a api.Allocation) { show(s, a) })
}

// show prints all that is known of an allocation, and what its owner may want next.
func show(s *cli.Session, a api.Allocation) {
	rows := [][]string{{"allocation", a.ID}, {"state", a.State}, {"wants", wants(a)},
		{"owner", screen.OrUnknown(a.Owner) + ", tenant " + screen.OrUnknown(a.Tenant)}}
	rows = append(rows, times(a, s.Now())...)
	if a.State == api.AllocationWaiting {
		rows = append(rows, []string{"waits for", waitsFor(a)})
	}
	if a.PerHour != nil {
		rows = append(rows, []string{"price", screen.Price(a.PerHour) + " an hour"})
	}
	if a.Priority != 0 {
		rows = append(rows, []string{"priority", strconv.Itoa(a.Priority)})
	}
	if a.Note != "" {
		rows = append(rows, []string{"note", a.Note})
	}
	rows = append(rows, slotRows(a)...)
	rows = append(rows, userRows(a)...)
	for _, next := range nexts(a) {
		rows = append(rows, []string{"next", s.Pasted(next)})
	}
	screen.Pairs(s.Stdout, s.Screen(), rows)
}

// times are when it was asked for, begins and ends.
func times(a api.Allocation, now time.Time) [][]string {
	rows := [][]string{{"created", screen.Stamp(&a.CreatedAt)}}
	if a.ClaimedAt != nil {
		rows = append(rows, []string{"allocated", screen.Stamp(a.ClaimedAt)})
	}
	if a.EndsAt != nil && a.EndedAt == nil {
		rows = append(rows, []string{"ends", screen.Stamp(a.EndsAt) + ", " + screen.When(now, *a.EndsAt)})
	}
	if a.EndedAt != nil {
		rows = append(rows, []string{"ended", screen.Stamp(a.EndedAt) + ": " + screen.OrUnknown(a.EndedWhy)})
	}
	if a.EndsAt == nil && a.TTLSeconds > 0 {
		rows = append(rows, []string{"lasts", screen.Age(time.Duration(a.TTLSeconds)*time.Second) + " from when it is allocated"})
	}
	return rows
}

func slotRows(a api.Allocation) (rows [][]string) {
	for _, l := range a.Slots {
		text := l.Slot + " on " + l.Node + ": " + strings.Join(l.GPUs, ", ")
		if l.State != api.SlotAllocated && l.State != "" {
			text += "; " + l.State
		}
		if l.Reason != "" {
			text += ": " + l.Reason
		}
		rows = append(rows, []string{"slot", text})
		if l.Next != "" {
			rows = append(rows, []string{"  next", l.Next})
		}
	}
	return rows
}

func userRows(a api.Allocation) (rows [][]string) {
	if a.User != nil {
		rows = append(rows, []string{"user", a.User.Name + ", " + screen.Plural(len(a.User.Keys), "key")})
	}
	for _, t := range a.Tasks {
		text := t.ID + " " + t.Type + " on " + t.Node + ": " + t.Status
		if t.Error != "" {
			text += ": " + t.Error
		}
		rows = append(rows, []string{"task", text})
	}
	return rows
}

// nexts are the commands that go on from an allocation.
func nexts(a api.Allocation) []string {
	switch a.State {
	case api.AllocationWaiting:
		return []string{"alloc release " + a.ID}
	case api.AllocationAllocated:
		return []string{"alloc extend " + a.ID + " --for 2h", "alloc release " + a.ID}
	case api.AllocationReleasing:
		return []string{"alloc show " + a.ID}
	}
	return nil
}

func extend(ctx context.Context, s *cli.Session, o struct {
	For time.Duration `flag:"for,seconds"`
}) error {
	if o.For == 0 {
		return cli.Usagef("write muster alloc extend "+s.Words[0]+" --for 2h", "for how much longer?")
	}
	q := api.ExtendRequest{Seconds: int(o.For / time.Second)}
	return cli.Show(ctx, s, http.MethodPost, api.At(api.PathAllocationExtend, s.Words[0]), q, func(a api.Allocation) {
		s.Printf("%s ends at %s, %s.\n", a.ID, screen.Stamp(a.EndsAt), ends(a, s.Now()))
	})
}

// release ends allocations. It goes on with the others where one cannot be ended.
func release(ctx context.Context, s *cli.Session) error {
	return s.OnEach(ctx, cli.Named(s.Words), func(t cli.Target) (string, error) {
		a, err := cli.Send[api.Allocation](ctx, s, http.MethodPost, api.At(api.PathAllocationGiveUp, t.ID), nil)
		switch {
		case err != nil:
			return "", err
		case s.Form == cli.FormJSON:
			return "", s.WriteJSON(a)
		case a.State == api.AllocationReleasing:
			return "releasing; its GPUs are free for others when they are clean", nil
		}
		return a.State, nil
	})
}
