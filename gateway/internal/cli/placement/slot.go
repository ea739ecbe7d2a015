package placement

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func slotColumns() []screen.Column {
	return []screen.Column{{Name: "SLOT"}, {Name: "NODE", Least: 10, Most: 40}, {Name: "SHAPE", Rank: 4},
		{Name: "MODEL", Rank: 3, Least: 8}, {Name: "GPUS"}, {Name: "STATE"}, {Name: "ALLOCATION", Rank: 2}, {Name: "PRICE", Rank: 5},
		{Name: "WHY", Rank: 1, Least: 12, Most: 60}, {Name: "NEXT", Most: 60, Wide: true}, {Name: "SKUS", Most: 60, Wide: true},
		{Name: "UNITS", Most: 60, Wide: true}, {Name: "TENANT", Most: 24, Wide: true}, {Name: "BY", Wide: true}, {Name: "EVIDENCE", Wide: true}}
}

func slotRow(l api.Slot) []string {
	units := make([]string, 0, len(l.Units))
	for _, u := range l.Units {
		units = append(units, u.PCI+"="+u.UUID)
	}
	return []string{l.ID, l.Node, l.Shape, l.Model, strconv.Itoa(len(l.Units)), l.State, l.Allocation, screen.Price(l.Price), l.Reason, l.Next,
		strings.Join(l.SKUs, ","), strings.Join(units, ","), l.Tenant, l.DecidedBy, l.Evidence}
}

func slotList(ctx context.Context, s *cli.Session, f api.SlotFilter) error {
	var list api.SlotList
	_, err := s.Flags.OneOf("state", "", api.SlotStates()...)
	if err != nil {
		return err
	}
	list.Slots, list.Next, err = cli.Gather(f.Limit, func(limit int, cursor string) ([]api.Slot, string, error) {
		f.Limit, f.Cursor = limit, cursor
		page, err := cli.Get[api.SlotList](ctx, s, api.PathSlots, f)
		list.Total = page.Total
		return page.Slots, page.Next, err
	})
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(list)
	}
	return showSlots(s, list, f.Selector)
}

// showSlots prints slots, counts them by their states, and says what to do next.
func showSlots(s *cli.Session, list api.SlotList, selector string) error {
	l := s.List(slotColumns())
	if err := l.Write(cli.Rows(list.Slots, slotRow)); err != nil {
		return err
	}
	counts := countSlots(list.Slots)
	text := screen.Plural(len(list.Slots), "slot")
	glue := ": "
	for _, state := range api.SlotStates() {
		if n := counts[state]; n > 0 {
			text += fmt.Sprintf("%s%d %s", glue, n, state)
			glue = ", "
		}
	}
	if list.Next != "" {
		text += fmt.Sprintf("; there are %d: --limit N shows more", list.Total)
	}
	fmt.Fprintln(s.Stdout, screen.Fold(text, l.Limit(), "  "))
	switch {
	case len(list.Slots) == 0 && selector != "":
		s.Say(cli.NoneSelected)
	case len(list.Slots) == 0:
		s.Say("muster node check NAME shows what a node has, and why it gives no slots; muster help placement")
	case counts[api.SlotProposed] > 0:
		s.Say("muster slot approve SLOT... lets those that are proposed be allocated; -l SELECTOR approves many")
	}
	return nil
}

func countSlots(slots []api.Slot) map[string]int {
	counts := map[string]int{}
	for _, l := range slots {
		counts[l.State]++
	}
	return counts
}
