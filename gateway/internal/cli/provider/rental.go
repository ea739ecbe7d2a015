package provider

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// rentPause is between two looks at a request for machines. The gateway has limits of its own, and gives up by them.
const rentPause = 3 * time.Second

// await waits until every machine is ready or the request has failed, and tells each change of each machine once.
func (r *renting) await(ctx context.Context, rented providers.Rented) (providers.Rented, error) {
	r.Say(rented.ID + ": ^C leaves it at work")
	said := map[string]string{}
	rented, err := cli.Await(ctx, r.Session, api.At(api.PathRental, rented.ID), rentPause, rented, func(now providers.Rented) bool {
		for _, m := range now.Machines {
			if text := progress(m); said[m.ID] != text {
				said[m.ID] = text
				line := fmt.Sprintf("%d of %d ready: %s", now.Ready, now.Count, screen.Printable(text))
				fmt.Fprintln(r.Stderr, screen.Fold(line, r.Screen(), "  "))
			}
		}
		return now.State != providers.RentedRenting
	})
	if ctx.Err() != nil {
		return rented, leave(r.Session, rented.ID+" goes on: "+screen.Plural(rented.Count, "machine")+", "+
			fmt.Sprint(rented.Ready)+" ready.", rented.ID)
	}
	return rented, err
}

// progress is one machine in one line.
func progress(m providers.Rental) string {
	text := m.ID
	if m.Instance != "" {
		text = m.Provider + "/" + m.Instance
	}
	text += " is " + m.State
	if m.Region != "" {
		text += ", " + m.Region
	}
	text += ", " + screen.Price(&m.PerHour) + " an hour"
	if m.Node != "" {
		text += ", node " + m.Node
	}
	if m.Why != "" {
		text += ": " + m.Why
	}
	return text
}

// leave says how a person who does not wait any more looks at a request, and stops it.
func leave(s *cli.Session, text, id string) error {
	const next = "%s\nmuster rent show %s shows it,\nmuster rent cancel %s gives up what is not ready."
	return s.Left(fmt.Sprintf(next, text, id, id))
}

func rentalList(ctx context.Context, s *cli.Session, o struct{ All bool }) error {
	columns := []screen.Column{{Name: "RENTAL"}, {Name: "ACCOUNT", Rank: 2, Most: 30}, {Name: "WANTS", Least: 8, Most: 30}, {Name: "STATE"},
		{Name: "READY"}, {Name: "ASKED", Rank: 3}, {Name: "SPENT"}, {Name: "WHY", Rank: 1, Least: 20, Most: 60},
		{Name: "OWNER", Most: 30, Wide: true}, {Name: "TENANT", Most: 24, Wide: true}}
	l, err := cli.Get[providers.RentedList](ctx, s, api.PathRentals, api.ListFilter{Tenant: s.Flags.Text("tenant")})
	if err == nil && !o.All {
		l.Rentals = slices.DeleteFunc(l.Rentals, func(r providers.Rented) bool { return !lives(r) })
	}
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(l)
	}
	now := s.Now()
	err = s.List(columns).Write(cli.Rows(l.Rentals, func(r providers.Rented) []string {
		return []string{r.ID, r.Provider, wants(r), r.State, fmt.Sprintf("%d/%d", r.Ready, r.Count), screen.Ago(now, r.CreatedAt),
			estimate(r.Spent), r.Why, r.Owner, r.Tenant}
	}))
	if len(l.Rentals) == 0 && !o.All {
		s.Say("muster rent --gpu MODEL --ttl 8h rents machines; --all shows those that are given back too")
	}
	return err
}

// lives is true if machines of a request are there, or may come.
func lives(r providers.Rented) bool {
	return r.State == providers.RentedRenting || slices.ContainsFunc(r.Machines, func(m providers.Rental) bool {
		return m.State != providers.RentalFailed && m.State != providers.RentalEnded
	})
}

// readiness says how many machines are ready, or that those that were are given back.
func readiness(r providers.Rented) string {
	if r.State == providers.RentedDone && !lives(r) {
		return "all given back"
	}
	return fmt.Sprintf("%d of %d ready", r.Ready, r.Count)
}

func wants(r providers.Rented) string {
	return screen.Printable(fmt.Sprintf("%d with %dx %s", r.Count, max(r.GPUs, 1), r.GPU))
}

func rentalShow(ctx context.Context, s *cli.Session) error {
	return cli.ShowEach(ctx, s, api.PathRental, func(r providers.Rented) { showRental(s, r) })
}

// showRental prints a request with its machines, and what one may want next.
func showRental(s *cli.Session, r providers.Rented) {
	rows := [][]string{{"rental", r.ID},
		{"state", screen.OrUnknown(r.State) + ", " + readiness(r)},
		{"wants", wants(r) + " of " + screen.OrUnknown(r.Provider)},
		{"owner", screen.OrUnknown(r.Owner) + ", tenant " + screen.OrUnknown(r.Tenant)}, {"asked", screen.Stamp(&r.CreatedAt)}}
	rows = append(rows, screen.Known([][]string{{"done", screen.Stamp(r.DoneAt)}, {"why", r.Why}})...)
	if r.Spent != nil {
		rows = append(rows, []string{"spent", estimate(r.Spent) + ", by price and time"})
	}
	for _, m := range r.Machines {
		text := progress(m)
		if m.Instance != "" {
			text += "; spent " + estimate(m.Spent)
		}
		rows = append(rows, []string{"machine", text})
	}
	for _, next := range nexts(r) {
		rows = append(rows, []string{"next", s.Pasted(next)})
	}
	screen.Pairs(s.Stdout, s.Screen(), rows)
}

// nexts are the commands that go on from a request.
func nexts(r providers.Rented) []string {
	if r.State == providers.RentedRenting {
		return []string{"rent cancel " + r.ID}
	}
	var nodes []string
	for _, m := range r.Machines {
		if m.State == providers.RentalReady && m.Node != "" {
			nodes = append(nodes, m.Node)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	names := strings.Join(nodes, " ")
	return []string{"lease extend " + names + " 2h", "node return " + names + " --destroy"}
}

// cancel stops renting what is not ready.
func cancel(ctx context.Context, s *cli.Session) error {
	return s.OnEach(ctx, cli.Named(s.Words), func(t cli.Target) (string, error) {
		r, err := cli.Send[providers.Rented](ctx, s, http.MethodDelete, api.At(api.PathRental, t.ID), nil)
		switch {
		case err != nil:
			return "", err
		case s.Form == cli.FormJSON:
			return "", s.WriteJSON(r)
		case r.Ready > 0:
			return fmt.Sprintf("no more is rented; %d ready, which stay to the end of their leases", r.Ready), nil
		}
		return "no more is rented, and what was not ready is destroyed", nil
	})
}
