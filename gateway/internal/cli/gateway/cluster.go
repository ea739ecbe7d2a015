package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	// handOverTime is how long a gateway may take to end and the next one to serve.
	handOverTime = time.Minute
	handOverPoll = 500 * time.Millisecond
	// restartTime is how long the service of a gateway may take to start it again.
	restartTime = 20 * time.Second
	// oddClock is how far apart clocks may be before a list says so.
	oddClock = 500 * time.Millisecond
)

// ClusterCommands returns the commands about several gateways on one store.
func ClusterCommands() []cli.Command {
	return []cli.Command{
		{Name: "gateway ls", Flags: []string{"output"}, Run: gatewayList,
			Summary: "list the gateways on this store: the active one, and those that stand by",
			Text: "One gateway is active; the others pass connections to it, and one of them takes over when it falls silent. CLOCK is how far " +
				"the clock of one that stands by is from that of the active one. If a gateway would not take over, the list says " +
				"why. A gateway whose database " +
				"is its own is alone in the list. muster help standby says how several are set up.",
			Examples: []string{"muster gateway ls"}},
		{Name: "gateway hand-over", Args: "[ID]", Most: 1, Flags: []string{"output"}, Run: handOver,
			Forms:   []string{cli.FormTable, cli.FormJSON},
			Summary: "have another gateway take the place of the active one, for an upgrade",
			Text: "The active gateway answers what it was asked, ends, and starts again as one that stands by (its service does that). " +
				"The gateway with this ID takes its place, or any that stands by; this waits until it serves. Nodes stay enrolled and " +
				"their work goes on; sessions end. For an upgrade, give those that stand by the new program first, then hand over, then upgrade the last one.",
			Examples: []string{"muster gateway hand-over", "muster gateway hand-over gw2"}},
	}
}

func gatewayList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "ID", Least: 8, Most: 40}, {Name: "ROLE"}, {Name: "VERSION", Rank: 2}, {Name: "HEARD", Rank: 1},
		{Name: "CLOCK"}, {Name: "URL", Rank: 3, Least: 16, Most: 60}}
	return cli.ShowList(ctx, s, api.PathGateways, nil, columns, func(l api.GatewayList) [][]string {
		if !l.Shared {
			fmt.Fprintln(s.Stderr, "This gateway's database is its own, so none can stand by for it: muster help standby")
		}
		for _, g := range l.Gateways {
			if g.Refuses != "" {
				fmt.Fprintf(s.Stderr, "%s would not take over: %s\n", screen.Printable(g.ID), screen.Printable(g.Refuses))
			}
		}
		return cli.Rows(l.Gateways, func(g api.MemberGateway) []string { return gatewayRow(g, s.Now()) })
	})
}

func gatewayRow(g api.MemberGateway, now time.Time) []string {
	clock := screen.Unknown
	if g.ClockOffMillis != nil {
		clock = clockText(time.Duration(*g.ClockOffMillis) * time.Millisecond)
	}
	return []string{g.ID, g.Role, g.Version, screen.Since(now, g.HeardAt), clock, g.URL}
}

func clockText(off time.Duration) string {
	switch {
	case off.Abs() < oddClock:
		return "right"
	case off > 0:
		return screen.Age(off) + " ahead"
	}
	return screen.Age(-off) + " behind"
}

func handOver(ctx context.Context, s *cli.Session) error {
	var q api.HandOver
	if len(s.Words) > 0 {
		q.To = s.Words[0]
	}
	done, err := cli.Send[api.HandedOver](ctx, s, http.MethodPost, api.PathHandOver, q)
	if err != nil {
		return err
	}
	now, err := awaitActive(ctx, s, done.From)
	if err != nil {
		return err
	}
	if done.To != "" && now != done.To {
		return cli.Hinted(fmt.Sprintf("%s is the active gateway in place of %s: %s did not take its place in time", now, done.From, done.To),
			"its log says why; muster gateway ls")
	}
	done.To = now
	if s.Form == cli.FormJSON {
		return s.WriteJSON(done)
	}
	s.Printf("%s is the active gateway in place of %s\n", now, done.From)
	return nil
}

// awaitActive waits until another gateway than this one is the active one.
func awaitActive(ctx context.Context, s *cli.Session, before string) (string, error) {
	active, heard, began := "", false, s.Now()
	done, err := s.Poll(ctx, handOverPoll, handOverTime, func() (bool, error) {
		l, err := cli.Get[api.GatewayList](ctx, s, api.PathGateways, nil)
		if err == nil && len(l.Gateways) > 0 && l.Gateways[0].ID != before {
			active = l.Gateways[0].ID
			return true, nil
		}
		heard = heard || err == nil
		if !heard && s.Now().Sub(began) > restartTime {
			return false, cli.Hinted(before+" has ended for another gateway, and nothing has started it again: so this command cannot see which "+
				"one is active now", "start "+before+" again: it stands by then; or ask another gateway: muster gateway ls")
		}
		return false, nil
	})
	if err == nil && !done {
		err = cli.Hinted(fmt.Sprintf("no other gateway serves %s after %s has ended", handOverTime, before), "muster gateway ls")
	}
	return active, err
}
